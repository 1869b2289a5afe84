"""The Temporal activities of one verification beside its blocks: judge what is pure, record the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.attempts import loss
from activities.bundle import Bundles
from activities.context import ExecutionContext
from activities.dispatch.reactions import Judged, react_to_verdict, unstarted
from activities.judging import TookTooLong, judge_all, off_loop
from activities.known import KnownExecutions
from activities.record import ExecutionNames, result_batches, result_document, without_result
from engine.ends import BlockDocument, requirement_failure, step_failure
from engine.result import decision_of, kept_inputs, outcome_document
from engine.states import States
from store.caller import Tenant
from store.database import Database, utc_now
from store.executions import Executions
from store.outbox import Batch
from workflows import contracts
from workflows.contracts import (
    BlocksJudged,
    EndExecution,
    FinishExecution,
    JudgeBlocks,
    LostBlock,
    ShapePage,
    Unstarted,
    VerificationEnded,
)
from wyrd.errors import code_named
from wyrd.wire.verification import ExecutionStatus

_LOCAL_JUDGING_SECONDS = 5.0
_JUDGING_SECONDS = 45.0
"""Below the time-outs of the local and of the normal activity, with room for recording."""


class VerificationActivities:
    """Bound to one process's database and to the executions it has at hand."""

    def __init__(self, database: Database, bundles: Bundles, known: KnownExecutions, *, api_url: str) -> None:
        self._database = database
        self._bundles = bundles
        self._known = known
        self._api_url = api_url

    @property
    def quick(self) -> list[Any]:
        """What the `wyrd` queue runs, mostly as local activities."""
        return [self.judge_blocks, self.finish_execution, self.end_execution, self.load_shape_page]

    @activity.defn(name=contracts.JUDGE_BLOCKS)
    async def judge_blocks(self, argument: JudgeBlocks) -> BlocksJudged:
        known = await self._known.load(argument)
        context = known.context
        await self._known.pin(known)
        ends = await _judged(context, argument.blocks, argument.states)
        return BlocksJudged(letters="".join(await context.ledger.save(ends)))

    @activity.defn(name=contracts.FINISH_EXECUTION)
    async def finish_execution(self, argument: FinishExecution) -> VerificationEnded:
        known = await self._known.load(argument)
        context = known.context
        await self._known.pin(known)
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
        document = result_document(known.names, context, outcome, ended_at)
        result = await off_loop(context, json.dumps, document)
        batches = await off_loop(context, result_batches, known.names, context, outcome, ended_at)
        kept = json.dumps(kept_inputs(context.evidence.inputs, context.capture)) if context.forgets else None
        judged = Judged.of(context.execution_id, known.names, outcome, ended_at)
        dispatches = await self._database.write(
            _record, context, known.names, judged, result, kept, batches, self._api_url
        )
        self._known.forget(context.execution_id)
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
        tenant = Tenant(argument.tenant_id, argument.tenant_slug)
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
        self._known.forget(argument.execution_id)

    @activity.defn(name=contracts.LOAD_SHAPE_PAGE)
    async def load_shape_page(self, argument: ShapePage) -> str:
        context = (await self._known.load(argument)).context
        text = json.dumps(context.bundle.plan.shape.document(), separators=(",", ":"))
        size = argument.characters
        return text[argument.page * size : (argument.page + 1) * size]


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


def _letter(states: States, block: int) -> str:
    steps = len(states.steps)
    return states.steps[block] if block < steps else states.requirements[block - steps]


def _lost_end(context: ExecutionContext, lost: LostBlock) -> BlockDocument:
    failure = loss(lost.kind)
    if context.bundle.plan.shape.is_step(lost.block):
        return step_failure(lost.block, failure, [])
    return requirement_failure(lost.block, failure)
