"""The shape of a plan: its blocks as numbers, what each waits for, and how long it may take.

A workflow orchestrates by this alone; contents of Cards and evidence never enter it. Blocks are
numbered: steps first, in declared order, then requirements (a step's own ones, in the order of
their steps, before the whole-Verifier ones), then the `when` of each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

PURE_CHECKS = frozenset({"assert", "trace"})
"""Checks that are judged in the pure batch; every other check is a block of its own."""


@dataclass(frozen=True, slots=True)
class StepShape:
    """`after`: steps that must have ended before it starts. `when_reads`, `reads`: steps whose output
    its condition and its action need. `limit`: seconds one attempt may take."""

    id: str
    kind: str
    has_when: bool
    after: tuple[int, ...]
    when_reads: tuple[int, ...]
    reads: tuple[int, ...]
    limit: float
    retries: int


@dataclass(frozen=True, slots=True)
class RequirementShape:
    """`step`: the step it belongs to, or -1. `reads`: steps whose output its check needs."""

    id: str
    kind: str
    step: int
    reads: tuple[int, ...]
    limit: float

    @property
    def pure(self) -> bool:
        return self.kind in PURE_CHECKS


@dataclass(frozen=True)
class Shape:
    """Blocks by number: first the steps, then the requirements, then one `when` for each step."""

    steps: tuple[StepShape, ...]
    requirements: tuple[RequirementShape, ...]

    def requirement_block(self, index: int) -> int:
        return len(self.steps) + index

    def when_block(self, step: int) -> int:
        return len(self.steps) + len(self.requirements) + step

    def is_step(self, block: int) -> bool:
        return block < len(self.steps)

    def is_when(self, block: int) -> bool:
        return block >= len(self.steps) + len(self.requirements)

    def step_of_when(self, block: int) -> int:
        return block - len(self.steps) - len(self.requirements)

    def requirement(self, block: int) -> RequirementShape:
        return self.requirements[block - len(self.steps)]

    @cached_property
    def own_requirements(self) -> tuple[tuple[int, ...], ...]:
        """For each step, the indexes of its requirements."""
        own: list[list[int]] = [[] for _ in self.steps]
        for index, requirement in enumerate(self.requirements):
            if requirement.step >= 0:
                own[requirement.step].append(index)
        return tuple(tuple(indexes) for indexes in own)

    def label(self, block: int) -> str:
        """The name people read in the Temporal UI: `read-letter (extract)`."""
        if self.is_step(block):
            return f"{self.steps[block].id} ({self.steps[block].kind})"
        if self.is_when(block):
            return f"{self.steps[self.step_of_when(block)].id} (when)"
        return f"{self.requirement(block).id} ({self.requirement(block).kind})"

    def document(self) -> list[Any]:
        """Compact JSON form, for the workflow's argument."""
        return [
            [
                [
                    s.id,
                    s.kind,
                    s.has_when,
                    list(s.after),
                    list(s.when_reads),
                    list(s.reads),
                    s.limit,
                    s.retries,
                ]
                for s in self.steps
            ],
            [[r.id, r.kind, r.step, list(r.reads), r.limit] for r in self.requirements],
        ]

    @classmethod
    def of_document(cls, document: list[Any]) -> Shape:
        steps, requirements = document
        return cls(
            tuple(
                StepShape(i, k, w, tuple(a), tuple(wr), tuple(rd), limit, retries)
                for i, k, w, a, wr, rd, limit, retries in steps
            ),
            tuple(RequirementShape(i, k, step, tuple(rd), limit) for i, k, step, rd, limit in requirements),
        )
