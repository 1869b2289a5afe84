"""Fitting the baselines of one Verifier version, once, after its declaration."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import calls, contracts
    from workflows.contracts import FitBaselines


@workflow.defn(name=contracts.BASELINE_WORKFLOW)
class BaselineWorkflow:
    """Durable, so that a crash in the middle of a large file costs a repetition and nothing else."""

    @workflow.run
    async def run(self, start: FitBaselines) -> None:
        await calls.fit_baselines(start)
