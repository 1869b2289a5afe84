"""The relay: tells the workflow of a group when it is due, until the workflow has it.

That a group is due is a row, committed with the evidence that made it so. Whatever crashes before
the signal arrives, the row is still there and is told again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection
from temporalio.client import Client
from temporalio.common import Priority, SearchAttributePair, TypedSearchAttributes

from store.caller import Tenant
from store.database import Database
from store.groups import Groups, Untold, untold
from store.leases import hold, release
from store.tenants import all_tenants
from workflows import contracts
from workflows.contracts import GroupDue, GroupStart
from wyrd.wire.canonical import sha256_hex
from wyrd.wire.ids import uuid7

EVERY_SECONDS = 0.25
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
        try:
            while True:
                try:
                    if await self.database.write(hold, _LEASE, holder, _LEASE_SECONDS):
                        while await self.pass_once() == _BATCH:
                            await self.database.write(hold, _LEASE, holder, _LEASE_SECONDS)
                except Exception as error:
                    _log.warning("telling groups when they are due failed, and is tried again: %s", error)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self.database.write(release, _LEASE, holder)

    async def pass_once(self) -> int:
        """Tell what is untold now; how many there were. Raises the first failure, after the others."""
        waiting = await self.database.read(_waiting)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def tell(one: Untold) -> None:
            async with slots:
                await self._tell(one)

        outcomes = await asyncio.gather(*(tell(one) for one in waiting), return_exceptions=True)
        told = [one for one, outcome in zip(waiting, outcomes, strict=True) if outcome is None]
        if told:
            await self.database.write(_told, told)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        return len(waiting)

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


def _told(connection: Connection, told: list[Untold]) -> None:
    for one in told:
        Groups(connection, one.tenant).told(one.binding_id, one.group_id, one.due_at)
