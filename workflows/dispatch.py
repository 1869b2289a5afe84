"""One dispatch: deliver what an Operator sends, within its deadline, or record that it was given up."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from workflows import calls, contracts
    from workflows.contracts import Deliver, DispatchEnded, DispatchStart, EndDispatch


@workflow.defn(name=contracts.DISPATCH_WORKFLOW)
class DispatchWorkflow:
    """A delivery that fails fails the workflow too, so that people see it."""

    @workflow.run
    async def run(self, start: DispatchStart) -> DispatchEnded:
        of = {
            "tenant_id": start.tenant_id,
            "tenant_slug": start.tenant_slug,
            "dispatch_id": start.dispatch_id,
        }
        deadline = workflow.info().start_time + timedelta(seconds=start.seconds)
        left = (deadline - workflow.now()).total_seconds()
        code, message = "deadline_exceeded", "the delivery did not end before its deadline"
        if left > 0:
            try:
                return await calls.deliver(Deliver(deadline=deadline.timestamp(), **of), seconds=left)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                cause = error.cause
                if isinstance(cause, ApplicationError) and cause.details:
                    # The activity recorded the end itself.
                    raise ApplicationError(cause.message, type=cause.type, non_retryable=True) from None
        await calls.end_dispatch(EndDispatch(code=code, message=message, **of))
        raise ApplicationError(message, type=code, non_retryable=True)
