"""The drift check: a distribution or metric over a window against its baseline."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Tag

from wyrd.cards.card_ref import PureLink
from wyrd.cards.identifiers import Count32
from wyrd.cards.references import Reference
from wyrd.cards.shapes import TAG, Lenient, Strict, tagged


class DistributionSignal(Lenient):
    """Features whose distribution is compared with the baseline Data Card."""

    kind: Literal["Distribution"]
    features: list[str]
    baseline_ref: PureLink


class MetricSignal(Lenient):
    """One metric whose mean is compared with a number."""

    kind: Literal["Metric"]
    name: str


class StatisticalCondition(Lenient):
    kind: Literal["Statistical"]


class AboveCondition(Lenient):
    kind: Literal["Above"]
    limit: float


class BelowCondition(Lenient):
    kind: Literal["Below"]
    limit: float


class OutsideCondition(Lenient):
    kind: Literal["Outside"]
    lower: float
    upper: float


class EqualWidthBins(Lenient):
    kind: Literal["EqualWidth"]
    n_bins: Count32


class QuantileBins(Lenient):
    kind: Literal["Quantile"]
    n_bins: Count32


class ChiSquareThreshold(Lenient):
    kind: Literal["ChiSquare"]
    alpha: float


class NormalThreshold(Lenient):
    kind: Literal["Normal"]
    alpha: float


class FixedThreshold(Lenient):
    kind: Literal["Fixed"]
    value: float


Bins: TypeAlias = Annotated[
    Annotated[EqualWidthBins, Tag(TAG + "EqualWidth")] | Annotated[QuantileBins, Tag(TAG + "Quantile")],
    tagged("kind"),
]
Threshold: TypeAlias = Annotated[
    Annotated[ChiSquareThreshold, Tag(TAG + "ChiSquare")]
    | Annotated[NormalThreshold, Tag(TAG + "Normal")]
    | Annotated[FixedThreshold, Tag(TAG + "Fixed")],
    tagged("kind"),
]


class PsiProfile(Lenient):
    kind: Literal["Psi"]
    binning_strategy: Bins
    threshold: Threshold
    categorical_features: list[str] = []


class SpcProfile(Strict):
    kind: Literal["Spc"]
    sample_size: Count32


class CustomProfile(Lenient):
    kind: Literal["Custom"]
    metric_name: str
    baseline_value: float
    alert_threshold: float


Signal: TypeAlias = Annotated[
    Annotated[DistributionSignal, Tag(TAG + "Distribution")] | Annotated[MetricSignal, Tag(TAG + "Metric")],
    tagged("kind"),
]
DriftCondition: TypeAlias = Annotated[
    Annotated[StatisticalCondition, Tag(TAG + "Statistical")]
    | Annotated[AboveCondition, Tag(TAG + "Above")]
    | Annotated[BelowCondition, Tag(TAG + "Below")]
    | Annotated[OutsideCondition, Tag(TAG + "Outside")],
    tagged("kind"),
]
Profile: TypeAlias = Annotated[
    Annotated[PsiProfile, Tag(TAG + "Psi")]
    | Annotated[SpcProfile, Tag(TAG + "Spc")]
    | Annotated[CustomProfile, Tag(TAG + "Custom")],
    tagged("kind"),
]


class DriftCheck(Strict):
    """Window evidence judged by a method and the profile of that method."""

    kind: Literal["drift"]
    on: Reference
    method: Literal["Psi", "Spc", "Custom"]
    signal: Signal
    condition: DriftCondition
    profile: Profile | None = None
    description: str | None = None
