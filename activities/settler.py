"""The settler: writes the end of executions whose workflow could not.

Workflow code does not run on a terminate or an execution time-out, and a crash between the row
and the start leaves a row without a workflow. Temporal is asked, and the row follows.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities.bundle import Bundles
from activities.record import WithoutResult, without_result
from activities.starting import Startable, start_verification
from store.caller import Tenant
from store.database import Database, utc_now
from store.execution_lists import Mark, open_executions
from store.executions import (
    Executions,
    acknowledge_executions,
    find_execution,
)
from store.leases import hold, release
from store.submission_keys import forget_keys
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionSource, ExecutionStatus

EVERY_SECONDS = 5.0
SETTLED_AGE = timedelta(seconds=2)
"""Executions younger than this are left alone: their start may be under way."""
WORKFLOW_STARTED_AGE = timedelta(minutes=2)
"""The same for those that the workflow of a group or a window starts, which is behind with it when
thousands are due at once: starting them for it would double the work at the worst moment."""

_LEASE = "settler"
_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED)
_BATCH = 500
_KEYS_KEPT = timedelta(hours=25)
_log = logging.getLogger("wyrd.settler")

_ENDS: dict[WorkflowExecutionStatus, tuple[ExecutionStatus, Code | None, str]] = {
    WorkflowExecutionStatus.CANCELED: (ExecutionStatus.CANCELLED, None, "the execution was cancelled"),
    WorkflowExecutionStatus.TERMINATED: (ExecutionStatus.CANCELLED, None, "the workflow was terminated"),
    WorkflowExecutionStatus.TIMED_OUT: (
        ExecutionStatus.TIMED_OUT,
        Code.VERIFICATION_504_EXECUTION_TIMED_OUT,
        "the workflow ran out of time",
    ),
    WorkflowExecutionStatus.FAILED: (
        ExecutionStatus.ERRORED,
        Code.VERIFICATION_502_DEPENDENCY_FAILED,
        "the workflow failed; the Temporal UI shows why",
    ),
    WorkflowExecutionStatus.COMPLETED: (
        ExecutionStatus.ERRORED,
        Code.VERIFICATION_502_DEPENDENCY_FAILED,
        "the workflow completed, but its result is not recorded",
    ),
}


def is_settled_now(row: Any) -> bool:
    """Whether an open execution is old enough to be settled."""
    by_workflow = row.source in (ExecutionSource.GROUP.value, ExecutionSource.SCHEDULE.value)
    late = WORKFLOW_STARTED_AGE if by_workflow and not row.acknowledged else SETTLED_AGE
    return bool(utc_now() - row.created_at > late)


@dataclass(frozen=True)
class Settler:
    """Closes open rows by what Temporal says of their workflows; harmless to run in several processes."""

    database: Database
    client: Client
    bundles: Bundles

    async def run(self) -> None:
        """Settle every few seconds, while holding the lease; until cancelled."""
        holder = uuid7()
        after: Mark | None = None
        try:
            while True:
                try:
                    if await self.database.write(hold, _LEASE, holder, EVERY_SECONDS * 4):
                        after = await self.settle_some(after)
                except Exception as error:
                    _log.warning("settling failed, and is tried again: %s", error)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self.database.write(release, _LEASE, holder)

    async def settle_all(self) -> None:
        """One look at everything that has no end yet."""
        after = await self.settle_some(None)
        while after is not None:
            after = await self.settle_some(after)

    async def settle_some(self, after: Mark | None) -> Mark | None:
        """Look at the next few open executions; where to go on, None at the end.

        Thousands that only wait must not keep a terminated one behind them from being seen, and
        neither must one that cannot be settled.
        """
        rows = await self.database.read(_open_rows, after)
        for row in filter(is_settled_now, rows):
            try:
                await self.settle(Tenant(row.tenant_id, row.workflow_id.partition("/")[0]), row)
            except RPCError as error:
                if error.status in _AWAY:
                    raise
                _log.warning("execution %s cannot be settled: %s", row.execution_id, error)
            except Exception as error:
                _log.warning("execution %s cannot be settled: %s", row.execution_id, error)
        await self.database.write(_forget_old_keys)
        return (rows[-1].created_at, rows[-1].execution_id) if len(rows) == _BATCH else None

    async def settle(self, tenant: Tenant, row: Any) -> None:
        """Bring one row to where its workflow is."""
        try:
            handle = self.client.get_workflow_handle(row.workflow_id)
            described = await handle.describe(rpc_timeout=timedelta(seconds=5))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            if row.acknowledged:
                message = "Temporal no longer knows the workflow"
                await self._end(
                    tenant, row, ExecutionStatus.ERRORED, Code.VERIFICATION_502_DEPENDENCY_FAILED, message
                )
            else:
                await self._start_again(tenant, row.execution_id)
            return
        if described.status is WorkflowExecutionStatus.RUNNING or described.status is None:
            if not row.acknowledged:
                await self.database.write(acknowledge_executions, tenant, [row.execution_id])
            return
        await self._end(tenant, row, *_ENDS.get(described.status, _ENDS[WorkflowExecutionStatus.FAILED]))

    async def _end(
        self, tenant: Tenant, row: Any, status: ExecutionStatus, code: Code | None, message: str
    ) -> None:
        left = await without_result(self.database, self.bundles, tenant, row.execution_id)
        ended = await self.database.write(_end, tenant, row.execution_id, status, code, message, left)
        if ended:
            _log.info("execution %s was settled as %s", row.execution_id, status.value)

    async def _start_again(self, tenant: Tenant, execution_id: str) -> None:
        row = await self.database.read(find_execution, tenant, execution_id)
        if row is None or row.ended_at is not None:
            return
        try:
            bundle = await self.bundles.of(tenant, row.verifier_uid)
        except WyrdError as error:
            if error.status >= 500:
                raise
            await self._end(tenant, row, ExecutionStatus.ERRORED, error.member, error.detail)
            return
        await start_verification(
            self.client,
            Startable(
                tenant, execution_id, row.verifier, row.subject, row.timeout_seconds, bundle.plan.shape
            ),
        )
        await self.database.write(acknowledge_executions, tenant, [execution_id])
        _log.info("execution %s was started again", execution_id)


def _open_rows(connection: Connection, after: Mark | None) -> list[Any]:
    return open_executions(connection, older_than=utc_now() - SETTLED_AGE, after=after, limit=_BATCH)


def _end(
    connection: Connection,
    tenant: Tenant,
    execution_id: str,
    status: ExecutionStatus,
    code: Code | None,
    message: str,
    left: WithoutResult,
) -> bool:
    return Executions(connection, tenant).end(
        execution_id, status, code, message, kept=left.kept, batches=left.batches
    )


def _forget_old_keys(connection: Connection) -> int:
    return forget_keys(connection, older_than=utc_now() - _KEYS_KEPT)
