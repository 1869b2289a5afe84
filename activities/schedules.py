"""Schedules: one native Temporal Schedule for each scheduled binding, kept as its owner's life asks.

The bindings in SQL are the truth; this duty makes the Schedules follow. A binding whose owner was
deactivated, or is not the highest active version of its name, has a Schedule that is paused; that
of a deleted owner goes. What somebody paused by hand stays paused.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from activities.drift.windows import schedule_id
from store.database import Database
from store.leases import hold, release
from store.scheduled import ScheduledBinding, scheduled_bindings
from workflows import contracts
from workflows.contracts import OfBinding
from wyrd.wire.ids import uuid7

EVERY_SECONDS = 2.0
CATCHUP = timedelta(hours=24)
"""Slots younger than this are judged late after an outage; older ones are missed."""
_LEASE = "schedules"
_LEASE_SECONDS = 30.0
_RELIST_SECONDS = 300.0
_AT_ONCE = 16
_MOST_A_PASS = 512
"""Schedules that one pass changes, so that the lease is renewed in between."""
_RPC = timedelta(seconds=10)
PAUSED_BY_WYRD = "wyrd: "
"""How the note of a pause begins that this duty made."""

_log = logging.getLogger("wyrd.worker")


@dataclass(frozen=True, slots=True)
class _State:
    paused: bool
    note: str


_RUNNING = _State(paused=False, note="")


class Schedules:
    """Makes Temporal's Schedules follow the bindings."""

    def __init__(self, database: Database, client: Client) -> None:
        self._database = database
        self._client = client
        self._known: dict[str, _State | None] | None = None
        """How each Schedule is or was brought to be; None for one that is not to be there."""

    async def run(self) -> None:
        """Look every few seconds, while holding the lease; until cancelled.

        What is as it should be is left alone. Once in a while the server is asked for all of them
        again, since a Schedule may be changed or deleted by hand.
        """
        holder = uuid7()
        listed = asyncio.get_running_loop().time()
        try:
            while True:
                now = asyncio.get_running_loop().time()
                if now - listed > _RELIST_SECONDS:
                    self._known = None
                    listed = now
                try:
                    if await self._database.write(hold, _LEASE, holder, _LEASE_SECONDS):
                        await self.pass_once()
                    else:
                        self._known = None
                except Exception as error:
                    _log.warning("bringing schedules up to date failed, and is tried again: %s", error)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self._database.write(release, _LEASE, holder)

    async def pass_once(self) -> None:
        """Bring Schedules to where they should be, so many of them at most."""
        wanted = await self._database.read(scheduled_bindings)
        if self._known is None:
            self._known = await self._listed()
        other = [one for one in wanted if self._differs(one)]
        for some in _batches(other[:_MOST_A_PASS]):
            await asyncio.gather(*(self._bring(one) for one in some))

    def _differs(self, one: ScheduledBinding) -> bool:
        assert self._known is not None
        wanted, known = _wanted(one), self._known.get(_id(one))
        if wanted is None or (known is None and wanted.paused):
            # What is not there need not be made in order to be paused.
            return wanted is None and known is not None
        return known != wanted

    async def _listed(self) -> dict[str, _State | None]:
        """Every Schedule as the server lists it, which may lag a little."""
        found: dict[str, _State | None] = {}
        async for one in await self._client.list_schedules(page_size=1000, rpc_timeout=_RPC):
            if one.schedule is not None:
                state = one.schedule.state
                found[one.id] = _State(state.paused, state.note or "")
        return found

    async def _bring(self, one: ScheduledBinding) -> None:
        assert self._known is not None
        wanted = _wanted(one)
        try:
            if wanted is None:
                await self._delete(_id(one))
            elif not await self._update(_id(one), wanted) and not wanted.paused:
                await self._create(one)
        except RPCError as error:
            _log.warning("the schedule %s is not up to date: %s", _id(one), error)
            return
        self._known[_id(one)] = wanted

    async def _create(self, one: ScheduledBinding) -> None:
        try:
            await self._client.create_schedule(
                _id(one),
                schedule_of(one),
                memo={"cron": one.cron, "tz": one.tz, "binding": _label(one)},
                search_attributes=_of_tenant(one),
                rpc_timeout=_RPC,
            )
        except ScheduleAlreadyRunningError:
            return
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            # No waiting mends it; the binding's health says that it has no schedule.
            _log.error("Temporal refuses the schedule %s: %s", _id(one), error)

    async def _update(self, schedule: str, wanted: _State) -> bool:
        """Pause it or let it run; False where it is not there."""

        def changed(found: ScheduleUpdateInput) -> ScheduleUpdate | None:
            state = found.description.schedule.state
            by_hand = state.paused and not (state.note or "").startswith(PAUSED_BY_WYRD)
            if by_hand or (not state.paused and not wanted.paused):
                return None
            state.paused, state.note = wanted.paused, wanted.note
            return ScheduleUpdate(schedule=found.description.schedule)

        try:
            await self._client.get_schedule_handle(schedule).update(changed, rpc_timeout=_RPC)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return True

    async def _delete(self, schedule: str) -> None:
        try:
            await self._client.get_schedule_handle(schedule).delete(rpc_timeout=_RPC)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise


def _wanted(one: ScheduledBinding) -> _State | None:
    """How its Schedule should be; None for one that should not be."""
    if one.owner_status == "deleted":
        return None
    if one.runs:
        return _RUNNING
    why = "a higher version of the owner runs" if one.superseded else f"the owner is {one.owner_status}"
    return _State(paused=True, note=f"{PAUSED_BY_WYRD}{why}")


def _id(one: ScheduledBinding) -> str:
    return schedule_id(one.tenant, one.binding_id)


def _label(one: ScheduledBinding) -> str:
    return f"{one.verifier} of {one.owner}"


def _of_tenant(one: ScheduledBinding) -> TypedSearchAttributes:
    return TypedSearchAttributes([SearchAttributePair(contracts.TENANT, one.tenant.slug)])


def schedule_of(one: ScheduledBinding) -> Schedule:
    """The Schedule that runs a binding."""
    tenant = one.tenant
    return Schedule(
        action=ScheduleActionStartWorkflow(
            contracts.SCHEDULED_WINDOW_WORKFLOW,
            OfBinding(tenant_id=tenant.id, tenant_slug=tenant.slug, binding_id=one.binding_id),
            id=f"{tenant.slug}/window/{one.binding_id}",
            task_queue=contracts.QUEUE,
            static_summary=_label(one),
            typed_search_attributes=_of_tenant(one),
        ),
        spec=ScheduleSpec(cron_expressions=[one.cron], time_zone_name=one.tz),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL, catchup_window=CATCHUP),
        state=ScheduleState(),
    )


def _batches(every: Sequence[ScheduledBinding]) -> Iterator[Sequence[ScheduledBinding]]:
    for start in itertools.count(0, _AT_ONCE):
        some = every[start : start + _AT_ONCE]
        if not some:
            return
        yield some
