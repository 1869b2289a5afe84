"""The relay: tells the workflow of a group when it is due, until the workflow has it.

That a group is due is a row, committed with the evidence that made it so. Whatever crashes before
the signal arrives, the row is still there and is told again. So is a group that nobody took up long
after it was due: somebody ended its workflow, or Temporal lost it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection
from temporalio.client import Client
from temporalio.common import Priority, SearchAttributePair, TypedSearchAttributes

from store.caller import Tenant
from store.database import Database
from store.due_groups import Untold, overdue, untold
from store.groups import Groups
from store.leases import hold, release
from store.tenants import all_tenants
from workflows import contracts
from workflows.contracts import GroupDue, GroupStart
from wyrd.wire.canonical import sha256_hex
from wyrd.wire.ids import uuid7

EVERY_SECONDS = 0.25
LATE = timedelta(minutes=2)
"""How long after its due time a group that was told and is still due is told again."""
SWEEP_SECONDS = 60.0
_LEASE = "relay"
_LEASE_SECONDS = 10.0
_BATCH = 500
_AT_ONCE = 32

_log = logging.getLogger("wyrd.worker")


def group_workflow_id(tenant: Tenant, binding_id: str, group_id: str) -> str:
    """The group's own text stays out of it: ids are never encrypted."""
    return f"{tenant.slug}/group/{binding_id}/{group_digest(group_id)}"


def group_digest(group_id: str) -> str:
    return sha256_hex(group_id.encode("utf-8"))[:32]


@dataclass(frozen=True)
class Relay:
    """Signals every due time that no workflow has yet; harmless to run in several processes."""

    database: Database
    client: Client

    async def run(self) -> None:
        """Look a few times a second, while holding the lease; until cancelled."""
        holder = uuid7()
        swept = time.monotonic()
        try:
            while True:
                try:
                    if await self.database.write(hold, _LEASE, holder, _LEASE_SECONDS):
                        while await self.pass_once() == _BATCH:
                            await self.database.write(hold, _LEASE, holder, _LEASE_SECONDS)
                        if time.monotonic() - swept > SWEEP_SECONDS:
                            swept = time.monotonic()
                            await self.sweep()
                except Exception as error:
                    _log.warning("telling groups when they are due failed, and is tried again: %s", error)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self.database.write(release, _LEASE, holder)

    async def pass_once(self) -> int:
        """Tell what is untold now; how many there were. Raises the first failure, after the others."""
        waiting = await self.database.read(_waiting)
        outcomes = await self._tell_all(waiting)
        told = [one for one, outcome in zip(waiting, outcomes, strict=True) if outcome is None]
        if told:
            await self.database.write(_told, told)
        _raise_first(outcomes)
        return len(waiting)

    async def sweep(self) -> int:
        """Tell again what should have been taken up long ago; how many there were."""
        seen, after = 0, None
        while found := await self.database.read(_overdue, after):
            _raise_first(await self._tell_all(found))
            seen, after = seen + len(found), found[-1]
        return seen

    async def _tell_all(self, waiting: Sequence[Untold]) -> list[BaseException | None]:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def tell(one: Untold) -> None:
            async with slots:
                await self._tell(one)

        return await asyncio.gather(*(tell(one) for one in waiting), return_exceptions=True)

    async def _tell(self, one: Untold) -> None:
        due_at = one.due_at.timestamp()
        await self.client.start_workflow(
            contracts.GROUP_WORKFLOW,
            GroupStart(
                tenant_id=one.tenant.id,
                tenant_slug=one.tenant.slug,
                binding_id=one.binding_id,
                group_id=one.group_id,
                due_at=due_at,
            ),
            id=group_workflow_id(one.tenant, one.binding_id, one.group_id),
            task_queue=contracts.QUEUE,
            start_signal=contracts.GROUP_DUE,
            start_signal_args=[GroupDue(due_at=due_at)],
            search_attributes=TypedSearchAttributes(
                [
                    SearchAttributePair(contracts.TENANT, one.tenant.slug),
                    SearchAttributePair(contracts.GROUP, group_digest(one.group_id)),
                ]
            ),
            static_summary="judge the group once it is quiet",
            priority=Priority(fairness_key=one.tenant.slug),
            rpc_timeout=timedelta(seconds=10),
        )


def _waiting(connection: Connection) -> list[Untold]:
    return untold(connection, {tenant.id: tenant for tenant in all_tenants(connection)}, _BATCH)


def _overdue(connection: Connection, after: Untold | None) -> list[Untold]:
    tenants = {tenant.id: tenant for tenant in all_tenants(connection)}
    return overdue(connection, tenants, LATE, after, _BATCH)


def _told(connection: Connection, told: list[Untold]) -> None:
    # In the order in which evidence is acknowledged, so that neither waits for the other.
    for one in sorted(told, key=lambda one: (one.tenant.id, one.group_id, one.binding_id)):
        Groups(connection, one.tenant).told(one.binding_id, one.group_id, one.due_at)


def _raise_first(outcomes: Sequence[BaseException | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
