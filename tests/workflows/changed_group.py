"""The workflow of a group as somebody might change it by mistake: one more activity, and no patch marker."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import contracts
    from workflows.contracts import GroupDue, GroupStart, Of
    from workflows.group import GroupWorkflow


@workflow.defn(name=contracts.GROUP_WORKFLOW)
class ChangedGroupWorkflow(GroupWorkflow):
    @workflow.init
    def __init__(self, start: GroupStart) -> None:
        super().__init__(start)

    @workflow.signal(name=contracts.GROUP_DUE)
    def due(self, told: GroupDue) -> None:
        super().due(told)

    @workflow.run
    async def run(self, start: GroupStart) -> None:
        await workflow.execute_activity(
            contracts.AWAIT_END, Of(), start_to_close_timeout=timedelta(seconds=10)
        )
        await super().run(start)
