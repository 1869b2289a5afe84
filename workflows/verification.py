"""One execution of one Verifier: run its blocks, record its result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    RetryState,
    TimeoutError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from engine.interpret import interpret
    from engine.shape import Shape
    from workflows import contracts
    from workflows.contracts import (
        VERDICT,
        EndExecution,
        FinishExecution,
        JudgeBlocks,
        LostBlock,
        RunBlock,
        ShapePage,
        VerificationEnded,
        VerificationStart,
    )
    from wyrd.errors import Code
    from wyrd.wire.canonical import strict_loads

_LETTER_WHEN_LOST = {True: "f", False: "i"}


@workflow.defn(name=contracts.VERIFICATION_WORKFLOW)
class VerificationWorkflow:
    """Drives the interpreter; the limit and a cancel are recorded here, so that both have an end."""

    @workflow.run
    async def run(self, start: VerificationStart) -> VerificationEnded:
        work = asyncio.create_task(self._judge(start))
        try:
            await workflow.wait([work], timeout=start.timeout_seconds)
            if work.done():
                ended = await work
                workflow.upsert_search_attributes([VERDICT.value_set(ended.verdict)])
                return ended
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.shield(self._end(start, "cancelled", None, "the execution was cancelled"))
            raise
        except ActivityError as error:
            if is_cancelled_exception(error):
                await asyncio.shield(self._end(start, "cancelled", None, "the execution was cancelled"))
                raise
            message = f"the result could not be recorded: {_cause(error)}"
            await self._end(start, "errored", Code.VERIFICATION_502_DEPENDENCY_FAILED, message)
            raise ApplicationError(message, type=str(Code.VERIFICATION_502_DEPENDENCY_FAILED)) from error
        work.cancel()
        code = Code.VERIFICATION_504_EXECUTION_TIMED_OUT
        message = f"the execution took longer than {start.timeout_seconds:g} seconds"
        await self._end(start, "timed_out", code, message)
        raise ApplicationError(message, type=str(code), non_retryable=True)

    async def _judge(self, start: VerificationStart) -> VerificationEnded:
        shape = Shape.of_document(start.shape if start.shape is not None else await self._pages(start))
        runner = _WorkflowRunner(start, shape)
        await interpret(shape, runner)
        return runner.ended

    async def _pages(self, start: VerificationStart) -> list[object]:
        of = {
            "tenant_id": start.tenant_id,
            "tenant_slug": start.tenant_slug,
            "execution_id": start.execution_id,
        }
        pages = [await contracts.load_shape_page(ShapePage(page=page, **of)) for page in range(start.pages)]
        document: list[object] = strict_loads("".join(pages))
        return document

    async def _end(self, start: VerificationStart, status: str, code: Code | None, message: str) -> None:
        await contracts.end_execution(
            EndExecution(
                tenant_id=start.tenant_id,
                tenant_slug=start.tenant_slug,
                execution_id=start.execution_id,
                status=status,
                code=None if code is None else str(code),
                message=message,
            )
        )


class _WorkflowRunner:
    """The Runner that schedules activities."""

    def __init__(self, start: VerificationStart, shape: Shape) -> None:
        self._shape = shape
        self._of = {
            "tenant_id": start.tenant_id,
            "tenant_slug": start.tenant_slug,
            "execution_id": start.execution_id,
        }
        self._bound = start.timeout_seconds
        self._lost: list[LostBlock] = []
        self.ended = VerificationEnded()

    async def run(self, block: int, states: str) -> str:
        step = self._shape.is_step(block)
        shape = self._shape.steps[block] if step else self._shape.requirement(block)
        argument = RunBlock(
            block=block,
            kind=shape.kind,
            states=states,
            limit=shape.limit,
            retries=self._shape.steps[block].retries if step else 0,
            **self._of,
        )
        try:
            ended = await contracts.run_block(argument, label=self._shape.label(block), bound=self._bound)
            return ended.letter
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            cause = error.cause
            if isinstance(cause, ApplicationError) and cause.details:
                # The activity recorded the end itself, and failed so that people see it did.
                return str(cause.details[0])
            late = isinstance(cause, TimeoutError) or error.retry_state is RetryState.TIMEOUT
            kind = "timeout" if late else "internal"
            self._lost.append(LostBlock(block=block, kind=kind))
            return _LETTER_WHEN_LOST[step]

    async def judge(self, blocks: Sequence[int], states: str) -> str:
        judged = await contracts.judge_blocks(
            JudgeBlocks(blocks=list(blocks), states=states, **self._of), label=self._label(blocks)
        )
        return judged.letters

    async def finish(self, blocks: Sequence[int], states: str) -> None:
        self.ended = await contracts.finish_execution(
            FinishExecution(blocks=list(blocks), states=states, lost=self._lost, **self._of),
            label=f"{self._label(blocks)}decide and record",
        )

    def _label(self, blocks: Sequence[int]) -> str:
        if not blocks:
            return ""
        named = ", ".join(self._shape.label(block) for block in blocks[:3])
        return f"{named} and {len(blocks) - 3} more; " if len(blocks) > 3 else f"{named}; "


def _cause(error: ActivityError) -> str:
    return str(error.cause or error)[:300]
