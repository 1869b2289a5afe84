"""Starting deliveries whose workflow nobody started, and closing those that ended without a record.

A crash between the record of a result and the start of its dispatches leaves rows without a
workflow; a terminated workflow leaves a row without an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import (
    Priority,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from store.caller import Tenant
from store.clock import now
from store.database import Database
from store.dispatches import (
    DispatchError,
    Dispatches,
    DispatchFault,
    overdue_dispatches,
    unstarted_dispatches,
)
from store.leases import hold, release
from workflows import contracts
from workflows.contracts import DispatchStart
from wyrd.wire.ids import uuid7

EVERY_SECONDS = 5.0
STARTED_AGE = timedelta(seconds=5)
"""Dispatches younger than this are left alone: their start is most likely under way."""
OVERDUE_GRACE = timedelta(minutes=1)
"""How long after its deadline a dispatch should have ended by itself."""

_LEASE = "dispatches"
_BATCH = 200
_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED)
_log = logging.getLogger("wyrd.dispatch")


@dataclass(frozen=True)
class DispatchStarter:
    """Brings dispatches and their workflows together; harmless to run in several processes."""

    database: Database
    client: Client

    async def run(self) -> None:
        """Look every few seconds, while holding the lease; until cancelled."""
        holder = uuid7()
        try:
            while True:
                try:
                    if await self.database.write(hold, _LEASE, holder, EVERY_SECONDS * 4):
                        await self.look()
                except Exception as error:
                    _log.warning("dispatches could not be looked at, and are again soon: %s", error)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self.database.write(release, _LEASE, holder)

    async def look(self, *, age: timedelta = STARTED_AGE) -> None:
        """Start what nobody started within `age`, and close what is long overdue."""
        for row, seconds in await self.database.read(_unstarted, age):
            with _one_by_one(row):
                await self._start(row, seconds)
                await self.database.write(_acknowledge, _tenant(row), row.dispatch_id)
                _log.info("the delivery of dispatch %s was started", row.dispatch_id)
        for row in await self.database.read(_overdue):
            with _one_by_one(row):
                if not await self._runs(row.workflow_id):
                    await self.database.write(_give_up, _tenant(row), row.dispatch_id)
                    _log.info("dispatch %s was given up: its workflow does not run", row.dispatch_id)

    async def _start(self, row: Row[Any], seconds: float) -> None:
        """Start it, once: a workflow that runs or has ended under the same id is success too."""
        tenant = _tenant(row)
        argument = DispatchStart(
            tenant_id=tenant.id, tenant_slug=tenant.slug, dispatch_id=row.dispatch_id, seconds=seconds
        )
        with contextlib.suppress(WorkflowAlreadyStartedError):
            await self.client.start_workflow(
                contracts.DISPATCH_WORKFLOW,
                argument,
                id=row.workflow_id,
                task_queue=contracts.QUEUE,
                task_timeout=contracts.TASK_TIMEOUT,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                search_attributes=TypedSearchAttributes([SearchAttributePair(contracts.TENANT, tenant.slug)]),
                priority=Priority(fairness_key=tenant.slug),
                rpc_timeout=timedelta(seconds=10),
            )

    async def _runs(self, workflow_id: str) -> bool:
        try:
            described = await self.client.get_workflow_handle(workflow_id).describe(
                rpc_timeout=timedelta(seconds=5)
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return described.status is WorkflowExecutionStatus.RUNNING


@contextlib.contextmanager
def _one_by_one(row: Row[Any]) -> Iterator[None]:
    """One that cannot be brought on must not keep the others behind it from being looked at."""
    try:
        yield
    except RPCError as error:
        if error.status in _AWAY:
            raise
        _log.warning("dispatch %s cannot be brought on: %s", row.dispatch_id, error)
    except Exception as error:
        _log.warning("dispatch %s cannot be brought on: %s", row.dispatch_id, error)


def _tenant(row: Row[Any]) -> Tenant:
    return Tenant(row.tenant_id, row.workflow_id.partition("/")[0])


def _unstarted(connection: Connection, age: timedelta) -> list[tuple[Row[Any], float]]:
    """Each with the seconds that it may still be delivered."""
    moment: datetime = now(connection)
    rows = unstarted_dispatches(connection, older_than=moment - age, limit=_BATCH)
    return [(row, (row.deadline_at - moment).total_seconds()) for row in rows]


def _overdue(connection: Connection) -> Sequence[Row[Any]]:
    return overdue_dispatches(connection, deadline_before=now(connection) - OVERDUE_GRACE, limit=_BATCH)


def _acknowledge(connection: Connection, tenant: Tenant, dispatch_id: str) -> None:
    Dispatches(connection, tenant).acknowledge(dispatch_id)


def _give_up(connection: Connection, tenant: Tenant, dispatch_id: str) -> None:
    error = DispatchError(DispatchFault.DEADLINE_EXCEEDED, "its workflow ended without delivering it")
    Dispatches(connection, tenant).fail(dispatch_id, error, now(connection))
