"""From the outcomes of all requirements to the one verdict of an execution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from engine.outcomes import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Counts:
    """How many requirements ended in which way; these stand beside every verdict."""

    passed: int
    failed: int
    inconclusive: int
    not_applicable: int

    @property
    def applicable(self) -> int:
        return self.passed + self.failed + self.inconclusive

    def document(self) -> dict[str, int]:
        """The JSON form, as results carry it."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "inconclusive": self.inconclusive,
            "not_applicable": self.not_applicable,
            "applicable": self.applicable,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict, one sentence that says why, and the counts it rests on.

    `rate` is passed ÷ applicable, between 0 and 1, or None where nothing was applicable.
    """

    verdict: Verdict
    reason: str
    counts: Counts
    rate: float | None


def decide(outcomes: Iterable[Outcome], threshold: float | None = None) -> Decision:
    """Reach the verdict under `all` (`threshold` None) or `pass_rate` (0 < threshold ≤ 1).

    Requirements that are not applicable are ignored; with none left nothing was judged, and the
    verdict is inconclusive. Raises ValueError for a threshold outside its range and TypeError
    for anything that is not an `Outcome`.
    """
    tally = dict.fromkeys(Outcome, 0)
    for outcome in outcomes:
        if type(outcome) is not Outcome:
            raise TypeError(f"decide takes outcomes, got {type(outcome).__name__}")
        tally[outcome] += 1
    passed, failed, inconclusive, not_applicable = tally.values()
    counts = Counts(passed, failed, inconclusive, not_applicable)
    if threshold is not None and not 0 < threshold <= 1:
        raise ValueError("a pass_rate threshold is above 0 and at most 1")
    if not counts.applicable:
        return Decision(Verdict.INCONCLUSIVE, _nothing(counts), counts, None)
    verdict, reason = _all(counts) if threshold is None else _pass_rate(counts, threshold)
    return Decision(verdict, reason, counts, passed / counts.applicable)


def _nothing(counts: Counts) -> str:
    if not counts.not_applicable:
        return "nothing to judge: the Verifier has no requirements"
    return f"nothing to judge: {_some(counts.not_applicable)} not applicable"


def _all(counts: Counts) -> tuple[Verdict, str]:
    if counts.failed:
        return Verdict.FAILED, f"{counts.failed} of {_many(counts.applicable)} failed"
    if counts.inconclusive:
        return Verdict.INCONCLUSIVE, f"{counts.inconclusive} of {_many(counts.applicable)} inconclusive"
    return Verdict.PASSED, f"{counts.passed} of {_many(counts.applicable)} passed"


def _pass_rate(counts: Counts, threshold: float) -> tuple[Verdict, str]:
    # The threshold is the decimal its author wrote: 8 of 10 reaches 0.8, though the binary
    # number nearest to 0.8 lies above 8/10.
    written = Fraction(repr(threshold))
    found = f"{counts.passed} of {_many(counts.applicable)} passed"
    if Fraction(counts.passed, counts.applicable) >= written:
        return Verdict.PASSED, f"{found}, which reaches the pass rate of {threshold!r}"
    below = f"{found}, below the pass rate of {threshold!r}"
    if counts.inconclusive:
        return Verdict.INCONCLUSIVE, f"{below}, and {counts.inconclusive} inconclusive"
    return Verdict.FAILED, below


def _many(count: int) -> str:
    return "1 requirement" if count == 1 else f"{count} requirements"


def _some(count: int) -> str:
    return "the one requirement is" if count == 1 else f"all {count} requirements are"
