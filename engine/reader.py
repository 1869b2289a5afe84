"""What a block reads: its references, resolved against evidence, step ends and requirement ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.evidence import Evidence
from engine.failure import BlockFailure, ReasonKind
from engine.plan import Plan
from engine.references import ReadRoot, value_at
from engine.states import States, explain_rule
from wyrd.cards import Reference


@dataclass(frozen=True)
class Reader:
    """Everything that blocks may read at one moment of one execution.

    `outputs` holds the outputs of succeeded steps that were loaded, by step number, or why one cannot
    be read; `reasons` the reasons of step requirements that were loaded, by requirement number.
    """

    plan: Plan
    evidence: Evidence
    states: States
    outputs: Mapping[int, Any]
    reasons: Mapping[int, str]

    def root_at(self, block: int) -> ReadRoot:
        """`root`, as seen from one block."""
        return partial(self.root, block)

    def required(self, slot: str) -> bool:
        return bool(getattr(self.plan.spec.inputs[slot], "required", True))

    def root(self, block: int, reference: Reference) -> Any:
        """The value of the reference without its selectors. Raises `BlockFailure` where there is none."""
        if reference.root == "inputs":
            return self.evidence.value(reference.name)
        if reference.root == "requirement":
            requirement = self.plan.requirement(block).spec
            return requirement.id if reference.facet == "id" else requirement.statement
        step = self.plan.step_index[reference.name]
        if reference.requirement is not None:
            number = self.plan.requirement_index[reference.requirement]
            if reference.facet == "outcome":
                return self.states.outcome(number).value
            return self._reason(reference, number)
        if reference.facet == "status":
            return self.states.step_status(step)
        if step not in self.outputs:
            status = self.states.step_status(step)
            kind = ReasonKind.STEP_SKIPPED if status == "skipped" else ReasonKind.STEP_FAILED
            raise BlockFailure(kind, f"step {reference.name} {status}, so it has no output to read")
        output = self.outputs[step]
        if isinstance(output, BlockFailure):
            raise output
        return output

    def _reason(self, reference: Reference, number: int) -> str:
        shape = self.plan.shape
        block = shape.requirement_block(number)
        if self.states.ruled(shape, block):
            return explain_rule(shape, self.states, block)[1]
        if number not in self.reasons:
            raise BlockFailure(ReasonKind.MISSING_EVIDENCE, f"{reference.text} is missing: none was recorded")
        return self.reasons[number]

    def value(self, reference: Reference, block: int) -> Any:
        """The value the reference reads. Raises `BlockFailure`, MISSING_EVIDENCE naming the path."""
        return value_at(reference, self.root_at(block))
