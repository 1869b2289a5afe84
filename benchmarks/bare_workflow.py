"""The floor: a workflow that does nothing but one local activity."""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow


@activity.defn
async def nothing(argument: str) -> str:
    return argument


@workflow.defn
class BareWorkflow:
    @workflow.run
    async def run(self, argument: str) -> str:
        result: str = await workflow.execute_local_activity(
            nothing, argument, start_to_close_timeout=timedelta(seconds=10)
        )
        return result
