"""One execution of one Verifier: run its blocks, record its result.

This module is what the workflow sandbox loads anew for every execution, so it stays small; the
Runner it drives is passed through.
"""

from __future__ import annotations

import asyncio
import contextlib

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from engine.interpret import interpret
    from workflows import calls, contracts
    from workflows.contracts import EndExecution, VerificationEnded, VerificationStart
    from workflows.runner import WorkflowRunner, shape_of
    from wyrd.errors import Code


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
                await self._react(start, ended)
                workflow.upsert_search_attributes([contracts.VERDICT.value_set(ended.verdict)])
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
        shape = await shape_of(start)
        runner = WorkflowRunner(start, shape)
        await interpret(shape, runner)
        return runner.ended

    async def _react(self, start: VerificationStart, ended: VerificationEnded) -> None:
        """Start the deliveries that were recorded with the result; they go on by themselves."""
        for unstarted in ended.dispatches:
            # The worker's duty may have been quicker, after a crash of whoever ran this.
            with contextlib.suppress(WorkflowAlreadyStartedError):
                await calls.start_dispatch(start, unstarted)

    async def _end(self, start: VerificationStart, status: str, code: Code | None, message: str) -> None:
        await calls.end_execution(
            EndExecution(
                tenant_id=start.tenant_id,
                tenant_slug=start.tenant_slug,
                execution_id=start.execution_id,
                status=status,
                code=None if code is None else str(code),
                message=message,
            )
        )


def _cause(error: ActivityError) -> str:
    return str(error.cause or error)[:300]
