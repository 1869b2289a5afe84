"""One slot of a schedule: open its window, judge it.

Which window it is follows from when the Schedule meant to start it, not from the clock: a slot
that runs late, after an outage, judges the window that was its own.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ActivityError, ChildWorkflowError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from workflows import calls, contracts
    from workflows.contracts import OfBinding, OpenWindow

_MEANT_FOR = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")


@workflow.defn(name=contracts.SCHEDULED_WINDOW_WORKFLOW)
class ScheduledWindowWorkflow:
    """Started by the Schedule of a binding, by `run-now` and by `backfill`."""

    @workflow.run
    async def run(self, binding: OfBinding) -> None:
        meant = workflow.info().typed_search_attributes.get(_MEANT_FOR)
        moment = workflow.now() if meant is None else meant
        question = OpenWindow(
            tenant_id=binding.tenant_id,
            tenant_slug=binding.tenant_slug,
            binding_id=binding.binding_id,
            scheduled_at=moment.timestamp(),
            execution_id=calls.new_execution_id(),
        )
        opened = await calls.open_window(question)
        while opened.step == "wait":
            await workflow.sleep(opened.seconds)
            opened = await calls.open_window(question)
        if opened.prepared is None:
            return
        try:
            await calls.run_verification(binding.tenant_id, binding.tenant_slug, opened.prepared)
        except WorkflowAlreadyStartedError:
            return
        except (ChildWorkflowError, ActivityError):
            workflow.logger.warning("the window's judgement ended without a verdict")
