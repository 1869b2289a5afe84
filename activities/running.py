"""The Temporal activity that runs one block: its attempts, told from one to the next by heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.attempts import (
    AttemptFailed,
    block_end,
    block_failure,
    interrupted,
    loss,
    own_failures,
    packed,
    run_attempt,
    unpacked,
    with_losses,
)
from activities.beating import beating
from activities.blocks import BlockRunner
from activities.context import ExecutionContext
from activities.known import KnownExecutions
from engine.ends import Attempt
from engine.failure import BlockFailure, ReasonKind
from engine.retries import next_wait
from store.database import Database
from store.executions import Executions
from workflows import contracts
from workflows.contracts import BlockEnded, RunBlock
from wyrd.errors import WyrdError
from wyrd.wire.verification import ExecutionStatus

_LEAST_SECONDS = 1.0
"""What the wait for a trace leaves of a block's limit at least."""


class BlockActivities:
    """Bound to one process's database and block runner."""

    def __init__(self, database: Database, known: KnownExecutions, runner: BlockRunner) -> None:
        self._database = database
        self._known = known
        self._runner = runner

    @property
    def activities(self) -> list[Any]:
        """What the queues of slow work run."""
        return [self.run_block]

    @activity.defn(name=contracts.RUN_BLOCK)
    async def run_block(self, argument: RunBlock) -> BlockEnded:
        try:
            return await self._run_block(argument)
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            if details is None or not details.not_found:
                raise
            # Nobody waits for this block any more. Temporal drops what we answer; said this way
            # it does not fill the worker's log with the trace of a call that was cut off.
            raise ApplicationError(
                "the execution has ended",
                type=ReasonKind.CANCELLED.value,
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            ) from None

    async def _run_block(self, argument: RunBlock) -> BlockEnded:
        info = activity.info()
        failures = unpacked(info.heartbeat_details[0]) if info.heartbeat_details else []
        async with beating(lambda: activity.heartbeat(packed(failures))):
            try:
                return await self._attempted(argument, failures)
            except WyrdError as trouble:
                # The database or the blob store is away: no failure of the block, and no lost worker.
                if trouble.status >= 500 and all(noted.number != info.attempt for noted in failures):
                    failures.append(interrupted(info.attempt, trouble))
                    activity.heartbeat(packed(failures))
                raise

    async def _attempted(self, argument: RunBlock, failures: list[Attempt]) -> BlockEnded:
        number = activity.info().attempt
        known = await self._known.load(argument)
        context = known.context
        recorded = await context.ledger.find(argument.block)
        if recorded is not None:
            return BlockEnded(letter=recorded)
        await self._mark(context, ExecutionStatus.RUNNING)
        began = time.monotonic()
        await self._known.pin(known, wait=argument.limit)
        limit = max(_LEAST_SECONDS, argument.limit - (time.monotonic() - began))
        earlier = with_losses(failures, number)
        if len(earlier) - len(failures) > contracts.MOST_LOSSES:
            raise await self._ended(context, argument.block, loss("worker_lost"), earlier)
        reader = await context.reader([argument.block], argument.states)
        try:
            produced, attempt = await run_attempt(
                self._runner,
                context,
                argument.block,
                reader,
                number=number,
                limit=limit,
            )
        except AttemptFailed as failed:
            failures.append(failed.attempt)
            attempts = [*earlier, failed.attempt]
            role = self._runner.role(context, argument.block)
            wait = next_wait(role, failed.failure, own_failures(failures), argument.retries)
            if wait is None:
                raise await self._ended(context, argument.block, failed.failure, attempts) from None
            # Details written just before raising are what the next attempt reads.
            activity.heartbeat(packed(failures))
            await self._mark(context, ExecutionStatus.RETRYING)
            raise _told(failed.failure, wait) from None
        end = block_end(context, argument.block, produced, [*earlier, attempt])
        try:
            letters = await context.ledger.save([end])
        except BlockFailure as failure:
            raise await self._ended(context, argument.block, failure, [*earlier, attempt]) from None
        return BlockEnded(letter=letters[0])

    async def _mark(self, context: ExecutionContext, status: ExecutionStatus) -> None:
        def work(connection: Connection) -> None:
            Executions(connection, context.tenant).mark(context.execution_id, status)

        await self._database.write(work)

    async def _ended(
        self, context: ExecutionContext, block: int, failure: BlockFailure, attempts: Sequence[Attempt]
    ) -> ApplicationError:
        """Record the block's failing end; the error that tells Temporal so, once and for all."""
        end = block_failure(context, block, failure, attempts)
        letters = await context.ledger.save([end])
        return ApplicationError(
            _for_history(failure),
            letters[0],
            type=failure.kind.value,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,
        )


def _for_history(failure: BlockFailure) -> str:
    """What a workflow's history says of a failure: never the words of user code or of a provider,
    which stand behind the first colon and may quote evidence."""
    return failure.reason.partition(": ")[0][:200]


def _told(failure: BlockFailure, wait: float) -> ApplicationError:
    return ApplicationError(
        _for_history(failure),
        type=failure.kind.value,
        next_retry_delay=timedelta(seconds=wait),
        category=ApplicationErrorCategory.BENIGN,
    )
