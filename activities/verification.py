"""The Temporal activities of one verification: run a block, judge pure blocks, record the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
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
    own_failures,
    packed,
    run_attempt,
    unpacked,
    with_losses,
)
from activities.blocks import BlockRunner
from activities.bundle import Bundles
from activities.context import ExecutionContext, ScheduledWindow
from activities.dispatch.reactions import Judged, react_to_verdict, unstarted
from activities.judging import TookTooLong, is_small, judge_all, off_loop
from activities.ledger import SqlLedger
from activities.record import ExecutionNames, result_batches, result_document, without_result
from activities.traces import TraceEvidence
from bifrost.traces import WAIT_SECONDS
from engine.capture import Capture
from engine.ends import Attempt, BlockDocument, requirement_failure, step_failure
from engine.evidence import Evidence
from engine.failure import BlockFailure, ReasonKind
from engine.result import decision_of, kept_inputs, outcome_document
from engine.retries import next_wait
from engine.states import States
from store.blobs import BlobStore
from store.caller import Tenant
from store.database import Database, utc_now
from store.executions import Executions, find_execution
from store.outbox import Batch
from workflows import contracts
from workflows.contracts import (
    BlockEnded,
    BlocksJudged,
    EndExecution,
    FinishExecution,
    JudgeBlocks,
    LostBlock,
    RunBlock,
    ShapePage,
    Unstarted,
    VerificationEnded,
)
from wyrd.errors import WyrdError, code_named
from wyrd.wire.canonical import strict_loads
from wyrd.wire.verification import ExecutionStatus

_KEPT = 512
_KEPT_LARGE = 8
_KEPT_VALUES = 1_000
"""Executions with more evidence than this are large: one may take a hundred megabytes of memory."""
_BEAT_SECONDS = 1.0
_LEAST_SECONDS = 1.0
"""What the wait for a trace leaves of a block's limit at least."""
_LOCAL_JUDGING_SECONDS = 5.0
_JUDGING_SECONDS = 45.0
"""Below the time-outs of the local and of the normal activity, with room for recording."""
_LOSS_REASONS = {
    "timeout": (ReasonKind.TIMEOUT, "no attempt of it ended in time"),
    "worker_lost": (ReasonKind.WORKER_LOST, "the workers that ran it were lost too often"),
    "internal": (ReasonKind.INTERNAL, "the server failed on it"),
}


@dataclass(frozen=True)
class _Loaded:
    context: ExecutionContext
    names: ExecutionNames


class VerificationActivities:
    """Bound to one process's database, blobs and block runner."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        bundles: Bundles,
        runner: BlockRunner | None,
        traces: TraceEvidence,
        *,
        api_url: str,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._bundles = bundles
        self._runner = runner
        self._traces = traces
        self._api_url = api_url
        self._kept: OrderedDict[str, _Loaded] = OrderedDict()
        self._large: deque[str] = deque()

    @property
    def quick(self) -> list[Any]:
        """What the `wyrd` queue runs, mostly as local activities."""
        return [self.judge_blocks, self.finish_execution, self.end_execution, self.load_shape_page]

    @property
    def blocks(self) -> list[Any]:
        """What the queues of slow work run."""
        return [self.run_block]

    def expect(self, names: ExecutionNames, context: ExecutionContext) -> None:
        """Keep an execution that was just accepted here: its workflow most likely starts here too."""
        self._keep(names, context)

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
        async with _beating(failures):
            try:
                return await self._attempted(argument, failures)
            except WyrdError as trouble:
                # The database or the blob store is away: no failure of the block, and no lost worker.
                if trouble.status >= 500 and all(noted.number != info.attempt for noted in failures):
                    failures.append(interrupted(info.attempt, trouble))
                    activity.heartbeat(packed(failures))
                raise

    async def _attempted(self, argument: RunBlock, failures: list[Attempt]) -> BlockEnded:
        assert self._runner is not None
        number = activity.info().attempt
        loaded = await self._load(argument)
        context = loaded.context
        recorded = await context.ledger.find(argument.block)
        if recorded is not None:
            return BlockEnded(letter=recorded)
        await self._mark(context, ExecutionStatus.RUNNING)
        began = time.monotonic()
        await self._pin(loaded, wait=argument.limit)
        limit = max(_LEAST_SECONDS, argument.limit - (time.monotonic() - began))
        earlier = with_losses(failures, number)
        if len(earlier) - len(failures) > contracts.MOST_LOSSES:
            raise await self._ended(context, argument.block, _loss("worker_lost"), earlier)
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

    @activity.defn(name=contracts.JUDGE_BLOCKS)
    async def judge_blocks(self, argument: JudgeBlocks) -> BlocksJudged:
        loaded = await self._load(argument)
        context = loaded.context
        await self._pin(loaded)
        ends = await _judged(context, argument.blocks, argument.states)
        return BlocksJudged(letters="".join(await context.ledger.save(ends)))

    @activity.defn(name=contracts.FINISH_EXECUTION)
    async def finish_execution(self, argument: FinishExecution) -> VerificationEnded:
        loaded = await self._load(argument)
        context = loaded.context
        await self._pin(loaded)
        plan = context.bundle.plan
        ends = dict(await context.ledger.ends()) if _ran_before(argument) else {}
        states = States.of_text(argument.states)
        for lost in argument.lost:
            # What a lost worker recorded after all counts only if it says what the others went on by.
            found = ends.get(lost.block)
            if found is None or found.letter != _letter(states, lost.block):
                ends[lost.block] = _lost_end(context, lost)
        for end in await _judged(context, argument.blocks, argument.states):
            ends[end.block] = end
            states.requirements[end.block - len(plan.shape.steps)] = end.letter
        decision = decision_of(plan, states)
        outcome = await off_loop(context, outcome_document, plan, states, context.evidence, ends, decision)
        ended_at = utc_now()
        document = result_document(loaded.names, context, outcome, ended_at)
        result = await off_loop(context, json.dumps, document)
        batches = await off_loop(context, result_batches, loaded.names, context, outcome, ended_at)
        kept = json.dumps(kept_inputs(context.evidence.inputs, context.capture)) if context.forgets else None
        judged = Judged.of(context.execution_id, loaded.names, outcome, ended_at)
        dispatches = await self._database.write(
            _record, context, loaded.names, judged, result, kept, batches, self._api_url
        )
        self._kept.pop(context.execution_id, None)
        counts = decision.counts
        return VerificationEnded(
            verdict=decision.verdict.value,
            passed=counts.passed,
            failed=counts.failed,
            inconclusive=counts.inconclusive,
            not_applicable=counts.not_applicable,
            dispatches=dispatches,
        )

    @activity.defn(name=contracts.END_EXECUTION)
    async def end_execution(self, argument: EndExecution) -> None:
        code = None if argument.code is None else code_named(argument.code)
        tenant = _tenant(argument)
        left = await without_result(self._database, self._bundles, tenant, argument.execution_id)

        def work(connection: Connection) -> None:
            Executions(connection, tenant).end(
                argument.execution_id,
                ExecutionStatus(argument.status),
                code,
                argument.message,
                kept=left.kept,
                batches=left.batches,
            )

        await self._database.write(work)
        self._kept.pop(argument.execution_id, None)

    @activity.defn(name=contracts.LOAD_SHAPE_PAGE)
    async def load_shape_page(self, argument: ShapePage) -> str:
        context = (await self._load(argument)).context
        text = json.dumps(context.bundle.plan.shape.document(), separators=(",", ":"))
        size = argument.characters
        return text[argument.page * size : (argument.page + 1) * size]

    async def _load(self, argument: contracts.Of) -> _Loaded:
        loaded = self._kept.get(argument.execution_id)
        if loaded is not None:
            self._kept.move_to_end(argument.execution_id)
            return loaded
        tenant = _tenant(argument)
        row = await self._database.read(find_execution, tenant, argument.execution_id)
        if row is None:
            raise ApplicationError("the execution is not recorded", type="NotRecorded", non_retryable=True)
        bundle = await self._bundles.of(tenant, row.verifier_uid)
        context = ExecutionContext(
            tenant=tenant,
            execution_id=row.execution_id,
            started_at=row.created_at,
            bundle=bundle,
            evidence=Evidence(bundle.plan.spec, strict_loads(row.inputs, max_depth=128)),
            ledger=self.ledger(tenant, row.execution_id, bundle),
            scheduled=ScheduledWindow.of_row(row),
        )
        return self._keep(ExecutionNames.of_row(row), context)

    def ledger(self, tenant: Tenant, execution_id: str, bundle: Any) -> SqlLedger:
        plan = bundle.plan
        full = bundle.capture is Capture.FULL
        return SqlLedger(self._database, self._blobs, tenant, execution_id, len(plan.spec.steps), full)

    def _keep(self, names: ExecutionNames, context: ExecutionContext) -> _Loaded:
        loaded = self._kept[context.execution_id] = _Loaded(context, names)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        self._weigh(context.execution_id, context.evidence.inputs)
        return loaded

    def _weigh(self, execution_id: str, evidence: Any) -> None:
        if not is_small(evidence, _KEPT_VALUES):
            self._large.append(execution_id)
            if len(self._large) > _KEPT_LARGE:
                self._kept.pop(self._large.popleft(), None)

    async def _pin(self, loaded: _Loaded, *, wait: float = WAIT_SECONDS) -> None:
        """Pin the traces that were given. A local activity does not wait for spans: it holds up a
        workflow task, and a normal activity takes its place."""
        context = loaded.context
        if not context.evidence.unpinned():
            return
        principal = loaded.names.principal_id
        if not activity.info().is_local:
            await self._traces.pin(context, principal, wait=wait)
        elif not await self._traces.pin_recorded(context, principal):
            raise ApplicationError(
                "nothing of a trace is recorded yet",
                type="AwaitsTrace",
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            )
        self._weigh(context.execution_id, context.evidence.traces)

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


@contextlib.asynccontextmanager
async def _beating(failures: list[Attempt]) -> AsyncIterator[None]:
    """A beat a second, with the failures so far: what tells a slow block from a lost worker."""

    async def beat() -> None:
        while True:
            activity.heartbeat(packed(failures))
            await asyncio.sleep(_BEAT_SECONDS)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


async def _judged(context: ExecutionContext, blocks: Sequence[int], states: str) -> list[BlockDocument]:
    local = activity.info().is_local
    try:
        return await judge_all(
            context, blocks, states, seconds=_LOCAL_JUDGING_SECONDS if local else _JUDGING_SECONDS
        )
    except TookTooLong as late:
        if local:
            # A normal activity has more time, and holds up no workflow task.
            raise ApplicationError(
                "too much to judge locally", type="TookTooLong", non_retryable=True
            ) from None
        return late.ends


def _ran_before(argument: FinishExecution) -> bool:
    """Whether any block may have a recorded end: all that there is may be in the last batch."""
    return any(letter.islower() for letter in argument.states)


def _tenant(argument: contracts.Of) -> Tenant:
    return Tenant(argument.tenant_id, argument.tenant_slug)


def _record(
    connection: Connection,
    context: ExecutionContext,
    names: ExecutionNames,
    judged: Judged,
    result: str,
    kept: str | None,
    batches: Sequence[Batch],
    api_url: str,
) -> list[Unstarted]:
    """The result, what it leaves in Bifrost and the dispatches of Operators that react, all or nothing."""
    tenant = context.tenant
    completed = Executions(connection, tenant).complete(
        context.execution_id,
        verdict=judged.verdict,
        result=result,
        started_at=context.started_at,
        kept=kept,
        batches=batches,
    )
    if completed and not react_to_verdict(connection, tenant, names, judged, api_url):
        return []
    return unstarted(connection, tenant, context.execution_id)


def _loss(kind: str) -> BlockFailure:
    return BlockFailure(*_LOSS_REASONS.get(kind, _LOSS_REASONS["internal"]))


def _letter(states: States, block: int) -> str:
    steps = len(states.steps)
    return states.steps[block] if block < steps else states.requirements[block - steps]


def _lost_end(context: ExecutionContext, lost: LostBlock) -> BlockDocument:
    failure = _loss(lost.kind)
    if context.bundle.plan.shape.is_step(lost.block):
        return step_failure(lost.block, failure, [])
    return requirement_failure(lost.block, failure)


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
