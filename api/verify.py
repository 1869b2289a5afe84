"""verify: run a Verifier in the request, answer within 60 seconds, store the record afterwards."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from activities.context import ExecutionContext
from activities.inline import judge_inline
from activities.judging import off_loop
from activities.ledger import MemoryLedger
from activities.record import ExecutionNames, result_document
from activities.traces import TraceEvidence
from activities.workshop import LazyWorkshop
from api.acceptance import Acceptance
from api.records import EndedExecution, VerifyRecords
from api.targets import Bound, Targets
from engine.evidence import Evidence
from engine.result import kept_inputs
from store.caller import Caller, Permission
from store.database import utc_now
from store.executions import NewExecution, new_execution_id
from wyrd.errors import Code, WyrdError
from wyrd.wire.verification import ExecuteRequest, ExecutionStatus

JUDGING_SECONDS = 58.0
"""What blocks may use of the deadline: one cut off by it is inconclusive, and the answer ordinary."""

ANSWER_SECONDS = 60.0

Gone = Callable[[], Awaitable[None]]
"""Returns when the caller has hung up."""


class Verify:
    """The verify route's one operation. Limits are in seconds; tests shorten them."""

    def __init__(
        self,
        acceptance: Acceptance,
        targets: Targets,
        workshop: LazyWorkshop,
        records: VerifyRecords,
        traces: TraceEvidence,
        *,
        judging_seconds: float = JUDGING_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._acceptance = acceptance
        self._targets = targets
        self._workshop = workshop
        self._records = records
        self._traces = traces
        self._judging_seconds = judging_seconds
        self._answer_seconds = answer_seconds

    async def run(
        self, caller: Caller, asked: ExecuteRequest, gone: Gone
    ) -> tuple[dict[str, Any], EndedExecution]:
        """The result document, and the record to store once it was answered: with the answer's own
        text as its `result`, so that what is stored is what was said.

        Raises the refusals of acceptance, and `WYRD_VERIFICATION_504_EXECUTION_TIMED_OUT` when
        there is no verdict after 60 seconds.

        When the caller hangs up the execution is cancelled and recorded as such.
        """
        began = time.monotonic()
        caller.require(Permission.VERIFY)
        bound = await self._targets.resolve(caller, asked.verifier_card_uid, asked.card_uid)
        spec = bound.bundle.plan.spec
        accepted = await self._acceptance.accept(caller, bound.target, spec, asked)
        evidence = Evidence(spec, accepted)
        context = ExecutionContext(
            tenant=caller.tenant,
            execution_id=new_execution_id(),
            started_at=utc_now(),
            bundle=bound.bundle,
            evidence=evidence,
            ledger=MemoryLedger(len(spec.steps)),
        )
        judging = self._judge(caller, context, began + self._judging_seconds)
        try:
            if bound.bundle.pure and not evidence.unpinned():
                outcome = await judging
            else:
                outcome = await _within(judging, began + self._answer_seconds, gone)
        except TimeoutError:
            raise self._timed_out(caller, asked, bound, context) from None
        except HungUp:
            self._records.keep(_ended(caller, asked, bound, context, ExecutionStatus.CANCELLED))
            raise
        completed = ExecutionStatus.COMPLETED
        ended = await off_loop(context, _ended, caller, asked, bound, context, completed, outcome["verdict"])
        return result_document(_names(caller, bound, asked), context, outcome, ended.ended_at), ended

    async def _judge(self, caller: Caller, context: ExecutionContext, deadline: float) -> dict[str, Any]:
        await self._traces.pin(context, caller.principal_id, wait=deadline - time.monotonic())
        runner = None if context.bundle.pure else (await self._workshop.get()).runner
        return await judge_inline(runner, context, deadline)

    def _timed_out(
        self, caller: Caller, asked: ExecuteRequest, bound: Bound, context: ExecutionContext
    ) -> WyrdError:
        error = WyrdError(
            Code.VERIFICATION_504_EXECUTION_TIMED_OUT,
            f"there was no verdict after {self._answer_seconds:g} seconds",
            execution_id=context.execution_id,
        )
        told = (error.code, error.detail)
        self._records.keep(_ended(caller, asked, bound, context, ExecutionStatus.TIMED_OUT, error=told))
        return error


def _ended(
    caller: Caller,
    asked: ExecuteRequest,
    bound: Bound,
    context: ExecutionContext,
    status: ExecutionStatus,
    verdict: str | None = None,
    error: tuple[str, str] | None = None,
) -> EndedExecution:
    inputs = json.dumps(kept_inputs(context.evidence.inputs, context.capture))
    return EndedExecution(
        tenant=caller.tenant,
        new=new_execution(
            caller, asked, bound, context.execution_id, "verify", inputs, context.started_at, ANSWER_SECONDS
        ),
        status=status,
        ended_at=utc_now(),
        verdict=verdict,
        error=error,
        groups=bound.target.groups,
    )


def new_execution(
    caller: Caller,
    asked: ExecuteRequest,
    bound: Bound,
    execution_id: str,
    source: str,
    inputs: str,
    created_at: Any,
    timeout_seconds: float,
) -> NewExecution:
    """The row of an execution that a caller asked for."""
    target = bound.target
    binding = target.bindings[0]
    return NewExecution(
        execution_id=execution_id,
        source=source,
        verifier_uid=asked.verifier_card_uid,
        verifier=target.verifier.pinned,
        subject_uid=asked.card_uid,
        subject=target.subject.pinned,
        owner_uid=binding.owner_uid,
        owner=target.owner.pinned,
        binding_id=binding.binding_id,
        principal_id=caller.principal_id,
        run_id=asked.run_id,
        group_id=asked.group_id,
        inputs=inputs,
        timeout_seconds=timeout_seconds,
        created_at=created_at,
        session_id=asked.session_id,
    )


def _names(caller: Caller, bound: Bound, asked: ExecuteRequest) -> ExecutionNames:
    target = bound.target
    return ExecutionNames(
        verifier=target.verifier,
        subject=target.subject,
        owner=target.owner,
        source="verify",
        workflow_id=None,
        binding_id=target.bindings[0].binding_id,
        run_id=asked.run_id,
        group_id=asked.group_id,
        principal_id=caller.principal_id,
        session_id=asked.session_id,
    )


class HungUp(Exception):
    """The caller left before there was an answer."""


async def _within(judging: Any, deadline: float, gone: Gone) -> dict[str, Any]:
    """The outcome, unless the deadline or the caller's leaving comes first."""
    work = asyncio.create_task(judging)
    watch = asyncio.ensure_future(gone())
    try:
        await asyncio.wait(
            [work, watch],
            timeout=max(0.0, deadline - time.monotonic()),
            return_when=asyncio.FIRST_COMPLETED,
        )
        if work.done():
            outcome: dict[str, Any] = work.result()
            return outcome
        raise HungUp if watch.done() else TimeoutError
    finally:
        watch.cancel()
        if not work.done():
            work.cancel()
