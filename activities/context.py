"""One execution as its blocks see it: who, since when, which Verifier, which evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from activities.bundle import Bundle
from activities.ledger import Ledger
from engine.capture import Capture
from engine.evidence import Evidence
from engine.reader import Reader
from engine.states import States
from store.caller import Tenant


@dataclass(frozen=True)
class ScheduledWindow:
    """What a scheduled execution judges: samples about the subject that were ingested in [start, end)."""

    verifier_uid: str
    subject_uid: str
    start: datetime
    end: datetime

    @classmethod
    def of_row(cls, row: Any) -> ScheduledWindow | None:
        if row.window_start is None:
            return None
        return cls(row.verifier_uid, row.subject_uid, row.window_start, row.window_end)


@dataclass(frozen=True)
class ExecutionContext:
    """What every block of one execution shares. `started_at` is when it was accepted, and what clocks in
    the sandbox return."""

    tenant: Tenant
    execution_id: str
    started_at: datetime
    bundle: Bundle
    evidence: Evidence
    ledger: Ledger
    scheduled: ScheduledWindow | None = None

    @property
    def capture(self) -> Capture:
        """How much results keep of what blocks read."""
        return self.bundle.capture

    @property
    def forgets(self) -> bool:
        """Whether the evidence is dropped when the execution ends."""
        return self.capture is not Capture.FULL

    async def reader(self, blocks: Iterable[int], states: str) -> Reader:
        """A reader for those blocks, with the outputs and reasons that they read loaded."""
        plan = self.bundle.plan
        steps: set[int] = set()
        requirements: set[int] = set()
        for block in blocks:
            for reference in plan.references(block):
                if reference.root != "steps":
                    continue
                if reference.requirement is not None:
                    requirements.add(plan.requirement_index[reference.requirement])
                elif reference.facet == "output":
                    steps.add(plan.step_index[reference.name])
        outputs = await self.ledger.outputs(steps) if steps else {}
        reasons = await self.ledger.reasons(requirements) if requirements else {}
        return Reader(plan, self.evidence, States.of_text(states), outputs, reasons)
