"""The plan: a Verifier compiled into numbered blocks, once per exact Card version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.shape import RequirementShape, Shape, StepShape
from wyrd.cards import (
    AgentAction,
    AgentCheck,
    AssertCheck,
    CodeAction,
    CodeCheck,
    Condition,
    DriftCheck,
    ExtractAction,
    Reference,
    Requirement,
    Step,
    TraceCheck,
    VerifierSpec,
)

STEP_SECONDS = {"extract": 60.0, "code": 5.0, "agent": 120.0}
"""Time of one attempt of a step that sets no `timeout_seconds`."""

CHECK_SECONDS = {"assert": 5.0, "trace": 15.0, "code": 5.0, "agent": 120.0, "drift": 60.0}
"""Time of one attempt of a check."""

Block = (
    ExtractAction | AgentAction | CodeAction | AssertCheck | TraceCheck | AgentCheck | CodeCheck | DriftCheck
)


@dataclass(frozen=True)
class PlannedRequirement:
    """A requirement in block order. `step` is the id of the step it belongs to, or None; `check` is
    the check as authored."""

    spec: Requirement
    step: str | None
    check: dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is run: the spec, its blocks in order, and the shape a workflow orchestrates by."""

    spec: VerifierSpec
    shape: Shape
    requirements: tuple[PlannedRequirement, ...]
    step_index: dict[str, int]
    requirement_index: dict[str, int]

    def step(self, block: int) -> Step:
        return self.spec.steps[block]

    def requirement(self, block: int) -> PlannedRequirement:
        return self.requirements[block - len(self.spec.steps)]

    def references(self, block: int) -> list[Reference]:
        """Everything the block reads, in authored order."""
        if self.shape.is_when(block):
            when = self.spec.steps[self.shape.step_of_when(block)].when
            return [] if when is None else [when.path]
        if self.shape.is_step(block):
            return references_of(self.spec.steps[block].action)
        return references_of(self.requirement(block).spec.check)


def references_of(block: Block | Condition) -> list[Reference]:
    """The references an action, a check or a condition reads, in authored order."""
    match block:
        case ExtractAction():
            return [block.from_]
        case AgentAction() | AgentCheck():
            return [*block.inputs.values(), *block.workspace.values()]
        case CodeAction() | CodeCheck():
            return list(block.inputs.values())
        case AssertCheck():
            return [reference for reference in (block.path, block.each) if reference is not None]
        case TraceCheck() | DriftCheck():
            return [block.on]
        case Condition():
            return [block.path]


def compile_plan(spec: VerifierSpec) -> Plan:
    """Number the blocks and say what each waits for. The spec has passed the declaration rules."""
    index = {step.id: number for number, step in enumerate(spec.steps)}
    planned = [
        PlannedRequirement(requirement, step.id, _authored(requirement))
        for step in spec.steps
        for requirement in step.requirements
    ]
    planned += [
        PlannedRequirement(requirement, None, _authored(requirement)) for requirement in spec.requirements
    ]
    shape = Shape(
        tuple(_step_shape(step, index) for step in spec.steps),
        tuple(_requirement_shape(requirement, index) for requirement in planned),
    )
    return Plan(
        spec=spec,
        shape=shape,
        requirements=tuple(planned),
        step_index=index,
        requirement_index={requirement.spec.id: number for number, requirement in enumerate(planned)},
    )


def _authored(requirement: Requirement) -> dict[str, Any]:
    return requirement.check.model_dump(mode="json", exclude_unset=True, by_alias=True)


def _step_shape(step: Step, index: dict[str, int]) -> StepShape:
    reads = references_of(step.action)
    when_reads = [] if step.when is None else references_of(step.when)
    after = {index[name] for name in step.depends_on} | _steps_of((*reads, *when_reads), index)
    return StepShape(
        id=step.id,
        kind=step.action.kind,
        has_when=step.when is not None,
        after=tuple(sorted(after)),
        when_reads=_outputs_of(when_reads, index),
        reads=_outputs_of(reads, index),
        limit=float(step.timeout_seconds or STEP_SECONDS[step.action.kind]),
        retries=step.retries,
    )


def _requirement_shape(planned: PlannedRequirement, index: dict[str, int]) -> RequirementShape:
    check = planned.spec.check
    return RequirementShape(
        id=planned.spec.id,
        kind=check.kind,
        step=-1 if planned.step is None else index[planned.step],
        reads=_outputs_of(references_of(check), index),
        limit=CHECK_SECONDS[check.kind],
    )


def _steps_of(references: Iterable[Reference], index: dict[str, int]) -> set[int]:
    return {index[reference.name] for reference in references if reference.root == "steps"}


def _outputs_of(references: Iterable[Reference], index: dict[str, int]) -> tuple[int, ...]:
    found = {
        index[reference.name]
        for reference in references
        if reference.root == "steps" and reference.facet == "output"
    }
    return tuple(sorted(found))
