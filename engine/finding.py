"""What judging one check gives: the part of a requirement's result that the check decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.failure import BlockFailure, ReasonKind
from engine.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """How a check came out.

    `kind` stands beside the reason of every inconclusive one. `actual` is what was read, already
    captured; `actual_present` tells a null from nothing. `citations` are valid ones in their JSON
    form, `detail` is data of the check's own kind.
    """

    outcome: Outcome
    reason: str
    kind: ReasonKind | None = None
    actual: Any = None
    actual_present: bool = False
    citations: tuple[dict[str, Any], ...] = ()
    detail: dict[str, Any] | None = field(default=None)


def undecided(failure: BlockFailure) -> CheckFinding:
    """The finding of a check whose evidence, judge or code failed it.

    What only a skipped step could have supplied makes the check not applicable; anything else
    leaves it inconclusive.
    """
    skipped = failure.kind is ReasonKind.STEP_SKIPPED
    outcome = Outcome.NOT_APPLICABLE if skipped else Outcome.INCONCLUSIVE
    return CheckFinding(outcome, failure.reason, failure.kind)
