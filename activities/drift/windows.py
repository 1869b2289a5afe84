"""Opening a window: which slot of a schedule it is, and the execution that judges it.

A window runs from one boundary of the schedule to the next, [previous, this), by Temporal's own
matching times, so windows tile time whatever daylight saving does to the zone's wall clock.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import Connection
from temporalio import activity
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import Client

from activities.beating import beating
from activities.bundle import Bundles
from activities.starting import prepared_of
from store.authority import require_authority
from store.baselines import Baselines
from store.bindings import Binding, Bindings
from store.caller import Tenant
from store.cards import Cards
from store.clock import now
from store.database import Database
from store.execution_lists import window_judged
from store.executions import Executions, NewExecution, find_execution
from store.settings import Settings
from workflows import contracts
from workflows.contracts import OpenWindow, WindowOpened
from wyrd.cards import SamplesSlot
from wyrd.errors import Code, WyrdError
from wyrd.wire.verification import ExecutionSource

_RPC = timedelta(seconds=10)
_LEAST_PAGE = 100
"""An answer shorter than this was not cut off."""
_REACHES = (timedelta(hours=26), *(timedelta(days=days) for days in (8, 33, 400, 3000)))
"""How far back boundaries are looked for, until two are found; a cron may name the 29th of February.

The server's word on times inside a change of clocks by half an hour depends on where it begins to
look, so it is never asked from less than a day before.
"""


def schedule_id(tenant: Tenant, binding_id: str) -> str:
    return f"{tenant.slug}/schedule/{binding_id}"


async def matching_times(
    client: Client, tenant: Tenant, binding_id: str, start: datetime, end: datetime
) -> list[datetime]:
    """The times in (start, end] that the Schedule of a binding matches, ascending, by the server's word."""
    found: list[datetime] = []
    while True:
        page = await page_of_times(client, tenant, binding_id, start, end)
        found += page
        if len(page) < _LEAST_PAGE:
            return found
        # The server answers the first thousand or so, and does not say that there are more.
        start = page[-1]


async def page_of_times(
    client: Client, tenant: Tenant, binding_id: str, start: datetime, end: datetime
) -> list[datetime]:
    """As `matching_times`; the first thousand or so of them."""
    first, last = Timestamp(), Timestamp()
    first.FromDatetime(start)
    last.FromDatetime(end)
    answer = await client.workflow_service.list_schedule_matching_times(
        ListScheduleMatchingTimesRequest(
            namespace=client.namespace,
            schedule_id=schedule_id(tenant, binding_id),
            start_time=first,
            end_time=last,
        ),
        timeout=_RPC,
    )
    return [moment for found in answer.start_time if start < (moment := found.ToDatetime(UTC)) <= end]


async def window_until(
    client: Client, tenant: Tenant, binding_id: str, moment: datetime
) -> tuple[datetime, datetime] | None:
    """The last window that ends at or before `moment`; None where the schedule has no two boundaries."""
    for reach in _REACHES:
        times = await matching_times(client, tenant, binding_id, moment - reach, moment)
        if len(times) >= 2:
            return times[-2], times[-1]
    return None


class WindowActivities:
    """Bound to one process's database and Temporal client."""

    def __init__(self, database: Database, bundles: Bundles, client: Client, settings: Settings) -> None:
        self._database = database
        self._bundles = bundles
        self._client = client
        self._settings = settings

    @property
    def quick(self) -> list[Any]:
        """What the `wyrd` queue runs of it."""
        return [self.open_window]

    @activity.defn(name=contracts.OPEN_WINDOW)
    async def open_window(self, argument: OpenWindow) -> WindowOpened:
        async with beating():
            return await self._opened(argument)

    async def _opened(self, argument: OpenWindow) -> WindowOpened:
        tenant = Tenant(argument.tenant_id, argument.tenant_slug)
        earlier = await self._database.read(find_execution, tenant, argument.execution_id)
        if earlier is not None:
            # The answer to an earlier attempt was lost after its record was committed.
            return await self._answer(tenant, earlier)
        binding = await self._database.read(_binding, tenant, argument.binding_id)
        if binding is None:
            return WindowOpened()
        moment = datetime.fromtimestamp(argument.scheduled_at, UTC)
        window = await window_until(self._client, tenant, argument.binding_id, moment)
        if window is None:
            return WindowOpened()
        settled = window[1] + timedelta(seconds=self._settings.window_margin_seconds)
        at = await self._database.read(now)
        if settled > at:
            return WindowOpened(step="wait", seconds=(settled - at).total_seconds())
        new = _new(binding, argument.execution_id, window, at, self._settings)
        try:
            await self._database.read(require_authority, tenant, binding.owner_uid)
            await self._database.read(_require_baselines, tenant, binding.verifier_uid)
            bundle = await self._bundles.of(tenant, binding.verifier_uid)
        except WyrdError as error:
            if error.status >= 500:
                raise
            await self._database.write(_record, tenant, new, error, activity.info().workflow_id)
            return WindowOpened()
        evidence = {
            slot: {"kind": "json", "value": {"start": window[0].isoformat(), "end": window[1].isoformat()}}
            for slot, declared in bundle.plan.spec.inputs.items()
            if isinstance(declared, SamplesSlot)
        }
        complete = replace(new, inputs=json.dumps(evidence))
        await self._database.write(_record, tenant, complete, None, activity.info().workflow_id)
        recorded = await self._database.read(find_execution, tenant, argument.execution_id)
        return WindowOpened() if recorded is None else await self._answer(tenant, recorded)

    async def _answer(self, tenant: Tenant, row: Any) -> WindowOpened:
        if row.ended_at is not None:
            return WindowOpened()
        bundle = await self._bundles.of(tenant, row.verifier_uid)
        return WindowOpened(step="judge", prepared=prepared_of(row, bundle.plan.shape))


def _new(
    binding: Binding,
    execution_id: str,
    window: tuple[datetime, datetime],
    at: datetime,
    settings: Settings,
) -> NewExecution:
    return NewExecution(
        execution_id=execution_id,
        source=ExecutionSource.SCHEDULE.value,
        verifier_uid=binding.verifier_uid,
        verifier=f"{binding.verifier_space}/Verifier/{binding.verifier_name}@{binding.verifier_version}",
        subject_uid=binding.subject_uid,
        subject="",
        owner_uid=binding.owner_uid,
        owner="",
        binding_id=binding.binding_id,
        principal_id=None,
        run_id=None,
        group_id=None,
        inputs="{}",
        timeout_seconds=settings.execution_timeout_seconds,
        created_at=at,
        window_start=window[0],
        window_end=window[1],
    )


def _binding(connection: Connection, tenant: Tenant, binding_id: str) -> Binding | None:
    return Bindings(connection, tenant).by_id(binding_id)


def _require_baselines(connection: Connection, tenant: Tenant, verifier_uid: str) -> None:
    """Raises `WYRD_VERIFICATION_409_BASELINE_NOT_READY`, with the cause where fitting failed."""
    for requirement_id, found in Baselines(connection, tenant).of(verifier_uid).items():
        if found.status == "ready":
            continue
        reason = found.error or "it is still being fitted"
        raise WyrdError(
            Code.VERIFICATION_409_BASELINE_NOT_READY,
            f"the baseline of {requirement_id} is not ready: {reason}",
            requirement_id=requirement_id,
        )


def _record(
    connection: Connection, tenant: Tenant, new: NewExecution, error: WyrdError | None, workflow_id: str
) -> None:
    """Record the slot's execution, once for each window of a binding; an error only where nothing better
    is recorded."""
    binding_id, window_end = new.binding_id, new.window_end
    assert binding_id is not None
    assert window_end is not None
    cards = Cards(connection, tenant).by_uids([new.subject_uid, new.owner_uid or ""])
    named = replace(
        new,
        subject=cards[new.subject_uid].ref.pinned,
        owner=cards[new.owner_uid].ref.pinned if new.owner_uid in cards else None,
    )
    executions = Executions(connection, tenant)
    if error is None:
        executions.add(named)
    elif not window_judged(connection, tenant, binding_id, window_end):
        executions.add_errored(named, error, workflow_id=workflow_id)
