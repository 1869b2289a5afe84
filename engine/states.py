"""How far every block of one execution has come: one letter a block.

Small letters are ends that a block reached itself; capital letters are ends that the rules for
skips and failures decided without running it. The text form goes with every activity.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.failure import ReasonKind
from engine.outcomes import Outcome
from engine.shape import Shape

PENDING = "-"
SUCCEEDED = "s"
FAILED = "f"
SKIPPED = "k"
TRUE = "t"
"""A `when` that holds; one that does not ends its step as skipped."""

# By their first letters; naming each here would let this module make one that nobody judged.
_OUTCOMES = {outcome.value[0]: outcome for outcome in Outcome}
_LETTERS = {outcome: letter for letter, outcome in _OUTCOMES.items()}
_STATUS_WORDS = {SUCCEEDED: "succeeded", FAILED: "failed", SKIPPED: "skipped"}


def letter_of(outcome: Outcome) -> str:
    return _LETTERS[outcome]


class States:
    """Mutable, owned by the interpreter; activities get a copy made from its text."""

    __slots__ = ("requirements", "steps")

    def __init__(self, steps: Iterable[str], requirements: Iterable[str]) -> None:
        self.steps = list(steps)
        self.requirements = list(requirements)

    @classmethod
    def fresh(cls, shape: Shape) -> States:
        return cls(PENDING * len(shape.steps), PENDING * len(shape.requirements))

    @classmethod
    def of_text(cls, text: str) -> States:
        steps, requirements = text.split("|")
        return cls(steps, requirements)

    @property
    def text(self) -> str:
        return "".join(self.steps) + "|" + "".join(self.requirements)

    def step_status(self, index: int) -> str:
        """`succeeded`, `failed` or `skipped`, as `steps.<id>.status` reads."""
        return _STATUS_WORDS[self.steps[index].lower()]

    def outcome(self, index: int) -> Outcome:
        return _OUTCOMES[self.requirements[index].lower()]

    def failed(self, step: int) -> bool:
        return self.steps[step].lower() == FAILED

    def skipped(self, step: int) -> bool:
        return self.steps[step].lower() == SKIPPED

    def ruled(self, shape: Shape, block: int) -> bool:
        """Whether the rules ended the block without running it."""
        letter = self.steps[block] if shape.is_step(block) else self.requirements[block - len(shape.steps)]
        return letter.isupper()


def rule_for_reads(states: States, reads: Iterable[int]) -> str | None:
    """What reading those steps' outputs means before anything runs: failed wins over skipped."""
    skipped = False
    for step in reads:
        if states.failed(step):
            return FAILED
        skipped = skipped or states.skipped(step)
    return SKIPPED if skipped else None


def explain_rule(shape: Shape, states: States, block: int) -> tuple[ReasonKind, str]:
    """Kind and sentence of an end that the rules decided."""
    if shape.is_step(block):
        step = shape.steps[block]
        reads: tuple[int, ...] = (*step.when_reads, *step.reads)
    else:
        requirement = shape.requirement(block)
        reads = requirement.reads
        if requirement.step >= 0 and states.skipped(requirement.step):
            return ReasonKind.STEP_SKIPPED, f"step {shape.steps[requirement.step].id} was skipped"
    for index in reads:
        if states.failed(index):
            return ReasonKind.STEP_FAILED, f"step {shape.steps[index].id} failed, so it has no output to read"
    for index in reads:
        if states.skipped(index):
            return (
                ReasonKind.STEP_SKIPPED,
                f"step {shape.steps[index].id} was skipped, so it has no output to read",
            )
    return ReasonKind.INTERNAL, "no rule explains this end"
