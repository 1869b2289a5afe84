"""Schedules: one native Temporal Schedule for each scheduled binding, kept as its owner's life asks.

The bindings in SQL are the truth; this duty makes the Schedules follow. A binding whose owner was
deactivated, or is not the highest active version of its name, has a Schedule that is paused.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import Connection
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
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from activities.bundle import Bundles
from activities.drift.baselines import checks_to_fit
from activities.drift.windows import schedule_id
from store.baselines import Baselines
from store.bindings import Binding, Bindings
from store.caller import Tenant
from store.cards import Cards
from store.database import Database
from store.leases import hold, release
from store.tenants import all_tenants
from workflows import contracts
from workflows.contracts import FitBaselines, OfBinding
from wyrd.cards.trigger import ScheduleTrigger
from wyrd.errors import WyrdError
from wyrd.wire.ids import uuid7

EVERY_SECONDS = 2.0
CATCHUP = timedelta(hours=24)
"""Slots younger than this are judged late after an outage; older ones are missed."""
_LEASE = "schedules"
_LEASE_SECONDS = 15.0
_ENSURE_ALL_SECONDS = 300.0

_log = logging.getLogger("wyrd.worker")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A scheduled binding as its Schedule should be. `label` is what people read beside it."""

    tenant: Tenant
    binding: Binding
    trigger: ScheduleTrigger
    paused: bool
    note: str
    label: str

    @property
    def id(self) -> str:
        return schedule_id(self.tenant, self.binding.binding_id)


@dataclass
class Schedules:
    """Makes Temporal's Schedules, and the fitting of baselines, follow the bindings."""

    database: Database
    client: Client
    bundles: Bundles
    _done: dict[str, tuple[bool, str]] = field(default_factory=dict)

    async def run(self) -> None:
        """Look every few seconds, while holding the lease; until cancelled.

        What this process has already brought about is left alone, and once in a while all is
        brought about again, since a Schedule may be deleted by hand.
        """
        holder = uuid7()
        renewed = asyncio.get_running_loop().time()
        try:
            while True:
                now = asyncio.get_running_loop().time()
                if now - renewed > _ENSURE_ALL_SECONDS:
                    self._done.clear()
                    renewed = now
                try:
                    if await self.database.write(hold, _LEASE, holder, _LEASE_SECONDS):
                        await self.pass_once()
                    else:
                        self._done.clear()
                except Exception as error:
                    _log.warning("bringing schedules up to date failed, and is tried again: %s", error)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self.database.write(release, _LEASE, holder)

    async def pass_once(self) -> None:
        """Bring every scheduled binding's Schedule and baselines to where they should be."""
        for wanted in await self.database.read(_all_wanted):
            try:
                await self.bring(wanted)
            except (RPCError, WyrdError) as error:
                _log.warning("the schedule %s is not up to date: %s", wanted.id, error)

    async def bring(self, wanted: _Wanted) -> None:
        """One binding's Schedule and baselines."""
        state = (wanted.paused, wanted.note)
        if self._done.get(wanted.id) == state:
            return
        if not wanted.paused:
            await self._fit(wanted)
        try:
            await self.client.create_schedule(
                wanted.id,
                _schedule(wanted),
                memo={"cron": wanted.trigger.cron, "tz": wanted.trigger.tz or "UTC", "binding": wanted.label},
                search_attributes=TypedSearchAttributes(
                    [SearchAttributePair(contracts.TENANT, wanted.tenant.slug)]
                ),
                rpc_timeout=timedelta(seconds=10),
            )
        except ScheduleAlreadyRunningError:
            await self._update(wanted)
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            # No waiting mends it; the binding's health says that it has no schedule.
            _log.error("Temporal refuses the schedule %s: %s", wanted.id, error)
        self._done[wanted.id] = state

    async def _update(self, wanted: _Wanted) -> None:
        def changed(found: ScheduleUpdateInput) -> ScheduleUpdate | None:
            state = found.description.schedule.state
            if (state.paused, state.note or "") == (wanted.paused, wanted.note):
                return None
            if state.paused and not wanted.paused and state.note != _INACTIVE:
                # Somebody paused it by hand: what they meant stands.
                return None
            found.description.schedule.state.paused = wanted.paused
            found.description.schedule.state.note = wanted.note
            return ScheduleUpdate(schedule=found.description.schedule)

        await self.client.get_schedule_handle(wanted.id).update(changed)

    async def _fit(self, wanted: _Wanted) -> None:
        """Start fitting what the Verifier's drift checks need, where nobody has."""
        bundle = await self.bundles.of(wanted.tenant, wanted.binding.verifier_uid)
        needed = checks_to_fit(bundle)
        if not needed:
            return
        uid = wanted.binding.verifier_uid
        if not await self.database.write(_begin, wanted.tenant, uid, list(needed)):
            return
        try:
            await self.client.start_workflow(
                contracts.BASELINE_WORKFLOW,
                FitBaselines(tenant_id=wanted.tenant.id, tenant_slug=wanted.tenant.slug, verifier_uid=uid),
                id=f"{wanted.tenant.slug}/baseline/{uid}",
                task_queue=contracts.QUEUE,
                static_summary=f"fit the baselines of {wanted.label}",
                rpc_timeout=timedelta(seconds=10),
            )
        except WorkflowAlreadyStartedError:
            return


_INACTIVE = "the owner is not active, or not the highest active version"


def _schedule(wanted: _Wanted) -> Schedule:
    trigger, tenant = wanted.trigger, wanted.tenant
    return Schedule(
        action=ScheduleActionStartWorkflow(
            contracts.SCHEDULED_WINDOW_WORKFLOW,
            OfBinding(tenant_id=tenant.id, tenant_slug=tenant.slug, binding_id=wanted.binding.binding_id),
            id=f"{tenant.slug}/window/{wanted.binding.binding_id}",
            task_queue=contracts.QUEUE,
            static_summary=wanted.label,
            typed_search_attributes=TypedSearchAttributes(
                [SearchAttributePair(contracts.TENANT, tenant.slug)]
            ),
        ),
        spec=ScheduleSpec(cron_expressions=[trigger.cron], time_zone_name=trigger.tz or "UTC"),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL, catchup_window=CATCHUP),
        state=ScheduleState(paused=wanted.paused, note=wanted.note),
    )


def _all_wanted(connection: Connection) -> list[_Wanted]:
    return [
        _wanted(connection, tenant, binding)
        for tenant in all_tenants(connection)
        for binding in Bindings(connection, tenant).scheduled()
    ]


def _wanted(connection: Connection, tenant: Tenant, binding: Binding) -> _Wanted:
    cards = Cards(connection, tenant)
    owner = cards.by_uid(binding.owner_uid)
    assert owner is not None
    latest = cards.latest(owner.kind, owner.ref.space, owner.ref.name)
    runs = binding.active and (latest is None or latest.uid == owner.uid)
    verifier = f"{binding.verifier_space}/{binding.verifier_name}@{binding.verifier_version}"
    return _Wanted(
        tenant=tenant,
        binding=binding,
        trigger=ScheduleTrigger.model_validate(binding.runs_on),
        paused=not runs,
        note="" if runs else _INACTIVE,
        label=f"{verifier} of {owner.ref.pinned}",
    )


def _begin(connection: Connection, tenant: Tenant, verifier_uid: str, requirement_ids: list[str]) -> bool:
    """Note the baselines as being fitted; whether any still is."""
    baselines = Baselines(connection, tenant)
    baselines.begin(verifier_uid, requirement_ids)
    return any(one.status == "fitting" for one in baselines.of(verifier_uid).values())
