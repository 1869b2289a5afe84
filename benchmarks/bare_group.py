"""The floor of signals: a workflow that only counts them and waits."""

from __future__ import annotations

from temporalio import workflow


@workflow.defn
class BareGroup:
    def __init__(self) -> None:
        self._signals = 0
        self._over = False

    @workflow.signal
    def due(self, moment: float) -> None:
        self._signals += 1

    @workflow.signal
    def over(self) -> None:
        self._over = True

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: self._over)
        return self._signals
