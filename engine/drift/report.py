"""The report of a drift check, and what it says about the requirement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.failure import ReasonKind
from engine.finding import CheckFinding
from engine.outcomes import Outcome

DriftVerdict = Literal["Drift", "NoDrift", "Inconclusive"]

_OUTCOMES = {"Drift": Outcome.FAILED, "NoDrift": Outcome.PASSED, "Inconclusive": Outcome.INCONCLUSIVE}


@dataclass(frozen=True)
class FeatureReport:
    """How one feature came out. `score` and `threshold` are null where nothing could be computed;
    `why` says so in words."""

    feature: str
    verdict: DriftVerdict
    score: float | None = None
    threshold: float | None = None
    evidence: Mapping[str, Any] | None = None
    why: str | None = None
    kind: ReasonKind = ReasonKind.WINDOW_TOO_SMALL

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "feature": self.feature,
            "score": self.score,
            "threshold": self.threshold,
            "verdict": self.verdict,
        }
        if self.evidence is not None:
            found["evidence"] = dict(self.evidence)
        return found


@dataclass(frozen=True)
class DriftReport:
    """Drift if any feature drifts, else Inconclusive if any is, else NoDrift.

    `unusable` says why no feature was judged at all; the map is empty then.
    """

    method: Literal["Psi", "Spc", "Custom"]
    features: Sequence[FeatureReport] = field(default_factory=tuple)
    unusable: str | None = None
    kind: ReasonKind = ReasonKind.MISSING_EVIDENCE

    @property
    def verdict(self) -> DriftVerdict:
        verdicts = {feature.verdict for feature in self.features}
        if self.unusable is not None or not verdicts:
            return "Inconclusive"
        return "Drift" if "Drift" in verdicts else "Inconclusive" if "Inconclusive" in verdicts else "NoDrift"

    def document(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "features": {one.feature: one.document() for one in self.features},
            "verdict": self.verdict,
        }

    def finding(self) -> CheckFinding:
        """The requirement's part: Drift is failed, NoDrift passed, Inconclusive inconclusive."""
        outcome = _OUTCOMES[self.verdict]
        kind = None
        if outcome is Outcome.INCONCLUSIVE:
            undecided = next((one for one in self.features if one.verdict == "Inconclusive"), None)
            kind = self.kind if self.unusable is not None or undecided is None else undecided.kind
        return CheckFinding(outcome, self._reason(), kind, detail={"drift": self.document()})

    def _reason(self) -> str:
        if self.unusable is not None:
            return self.unusable
        if not self.features:
            return "nothing to judge"
        drifted = [one for one in self.features if one.verdict == "Drift"]
        if drifted:
            told = [f"{one.feature} ({_figures(one)})" for one in drifted[:3]]
            return f"{len(drifted)} of {len(self.features)} features drifted: {', '.join(told)}"
        undecided = [one for one in self.features if one.verdict == "Inconclusive"]
        if undecided:
            return f"{undecided[0].feature}: {undecided[0].why or 'it could not be judged'}"
        return f"none of {len(self.features)} features drifted"


def _figures(one: FeatureReport) -> str:
    if one.score is None or one.threshold is None:
        return "no score"
    return f"{one.score:.6g} against {one.threshold:.6g}"
