"""The population stability index of a feature, over bins fitted to its baseline.

Score = sum over bins of (p + e - (q + e)) * ln((p + e) / (q + e)), e = 1e-10, p the baseline's
proportion, q the window's. Numeric bins run from minus to plus infinity, each open on its left
and closed on its right; categories have one bin a label, sorted, and a reserved one for unseen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri

from engine.drift.report import FeatureReport
from engine.drift.samples import Labels, Numbers
from wyrd.cards.drift import (
    Bins,
    ChiSquareThreshold,
    EqualWidthBins,
    FixedThreshold,
    Threshold,
)

EPSILON = 1e-10
LEAST_VALUES = 100
"""Values of a feature below which a window is not judged."""
RARE = 5
"""Values expected in a bin below which its share is noise more than signal."""
NAMED_LABELS = 20
MOST_LABELS = 1000
"""Labels of a categorical feature, as many as numeric bins may be; identifiers are no categories."""

_COMPARED_EDGES = 32

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class NumericBins:
    """Interior edges, ascending; there is one bin more than edges."""

    edges: Sequence[float]

    def count(self, values: Numbers) -> Counts:
        if len(self.edges) > _COMPARED_EDGES:
            places = np.searchsorted(np.asarray(self.edges, dtype=np.float64), values, side="left")
            return np.bincount(places, minlength=len(self.edges) + 1).astype(np.int64)
        # Comparing with an edge takes a fraction of what looking a place up does.
        up_to = [0, *(int(np.count_nonzero(values <= edge)) for edge in self.edges), len(values)]
        return np.asarray([high - low for low, high in itertools.pairwise(up_to)], dtype=np.int64)

    def document(self) -> dict[str, Any]:
        return {"kind": "numeric", "edges": list(self.edges)}


@dataclass(frozen=True)
class CategoryBins:
    """The baseline's labels, sorted. The last bin, without a label, takes every other value."""

    labels: Sequence[str]

    def count(self, values: Labels) -> Counts:
        index = {label: place for place, label in enumerate(self.labels)}
        other = len(self.labels)
        places = np.fromiter((index.get(value, other) for value in values), np.intp, len(values))
        return np.bincount(places, minlength=other + 1).astype(np.int64)

    def unseen(self, values: Labels) -> list[str]:
        """Labels of the window that the baseline does not know, sorted."""
        return sorted(set(values) - set(self.labels))

    def document(self) -> dict[str, Any]:
        return {"kind": "categorical", "labels": list(self.labels)}


@dataclass(frozen=True)
class PsiFeature:
    """One feature's baseline: its bins, and how many baseline values each holds."""

    bins: NumericBins | CategoryBins
    counts: Counts

    @property
    def proportions(self) -> Numbers:
        shares: Numbers = self.counts / self.counts.sum()
        return shares

    @property
    def occupied(self) -> int:
        """Bins that hold baseline values: the reserved one is never among them."""
        return int(np.count_nonzero(self.counts))

    def document(self) -> dict[str, Any]:
        return {**self.bins.document(), "counts": [int(count) for count in self.counts]}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> PsiFeature:
        bins: NumericBins | CategoryBins
        if document["kind"] == "numeric":
            bins = NumericBins([float(edge) for edge in document["edges"]])
        else:
            bins = CategoryBins(list(document["labels"]))
        return cls(bins, np.asarray(document["counts"], dtype=np.int64))


def fit_numbers(values: Numbers, strategy: Bins) -> PsiFeature:
    """Bins and counts of a numeric feature's baseline; `values` are finite and at least one.

    Raises ValueError for values whose quantiles are no finite numbers.
    """
    edges: Numbers
    if isinstance(strategy, EqualWidthBins):
        low, high = float(values.min()), float(values.max())
        places = np.arange(1, strategy.n_bins)
        reach = (high - low) * strategy.n_bins
        if math.isfinite(reach):
            # Multiplied before it is divided: an edge that is a round number is one exactly.
            edges = low + places * (high - low) / strategy.n_bins
        else:
            # The range of the largest doubles is beyond what a double holds; their weighted mean is not.
            edges = low * (1 - places / strategy.n_bins) + high * (places / strategy.n_bins)
        if low == high:
            edges = np.empty(0)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            edges = np.quantile(values, np.arange(1, strategy.n_bins) / strategy.n_bins, method="linear")
    if not np.isfinite(edges).all():
        raise ValueError("the values are too large for their quantiles to be numbers")
    bins = NumericBins([float(edge) for edge in np.unique(edges)])
    return PsiFeature(bins, bins.count(values))


def fit_labels(values: Labels) -> PsiFeature:
    """Bins and counts of a categorical feature's baseline. Raises ValueError for too many labels."""
    labels = set(values)
    if len(labels) > MOST_LABELS:
        raise ValueError(f"the baseline has {len(labels)} labels, and at most {MOST_LABELS} are compared")
    bins = CategoryBins(sorted(labels))
    return PsiFeature(bins, bins.count(values))


def score_of(baseline: Numbers, window: Numbers) -> float:
    """PSI of two lists of proportions. Summed without rounding in between, so in any order."""
    expected, observed = baseline + EPSILON, window + EPSILON
    return math.fsum((expected - observed) * np.log(expected / observed))


def simulated_scores(baseline: Numbers, size: int, windows: int) -> Numbers:
    """Scores of windows drawn from the baseline's own proportions, with a fixed seed."""
    drawn = np.random.Generator(np.random.PCG64(0)).multinomial(size, baseline, windows)
    expected, observed = baseline + EPSILON, drawn / size + EPSILON
    scores: Numbers = ((expected - observed) * np.log(expected / observed)).sum(axis=1)
    return scores


def threshold_of(threshold: Threshold, occupied: int, values: int) -> float | None:
    """The score above which a window drifts, for so many bins and values; None where a statistical
    threshold has no degree of freedom.

    ChiSquare: the (1 - alpha) quantile of chi-square with B - 1 degrees, over m. Normal: its
    approximation (B - 1)/m + z(1 - alpha) * sqrt(2(B - 1))/m.
    """
    if isinstance(threshold, FixedThreshold):
        return float(threshold.value)
    degrees = occupied - 1
    if degrees < 1:
        return None
    if isinstance(threshold, ChiSquareThreshold):
        return float(chdtri(degrees, threshold.alpha)) / values
    return degrees / values + float(ndtri(1 - threshold.alpha)) * math.sqrt(2 * degrees) / values


def judge_feature(
    feature: str,
    baseline: PsiFeature,
    values: Any,
    threshold: Threshold,
    false_alarm_rate: float | None = None,
) -> FeatureReport:
    """Compare one feature's window with its baseline. A score above the threshold is Drift.

    `values` are `Numbers` for numeric bins and `Labels` for categories.
    """
    size = len(values)
    if size < LEAST_VALUES:
        why = f"the window has {size} values, and at least {LEAST_VALUES} are needed"
        return FeatureReport(feature, "Inconclusive", why=why)
    counts = baseline.bins.count(values)
    limit = threshold_of(threshold, baseline.occupied, size)
    if limit is None:
        why = "the baseline fills one bin, which leaves a statistical threshold no degree of freedom"
        return FeatureReport(feature, "Inconclusive", why=why)
    score = score_of(baseline.proportions, counts / size)
    evidence = _evidence(baseline, counts, values)
    if false_alarm_rate is not None:
        evidence["false_alarm_rate"] = false_alarm_rate
    return FeatureReport(feature, "Drift" if score > limit else "NoDrift", score, limit, evidence)


def _evidence(baseline: PsiFeature, counts: Counts, values: Any) -> dict[str, Any]:
    size = len(values)
    expected, observed = baseline.proportions, counts / size
    bins: list[dict[str, Any]] = [
        {
            **place,
            "baseline_count": int(baseline.counts[index]),
            "baseline_proportion": float(expected[index]),
            "window_count": int(counts[index]),
            "window_proportion": float(observed[index]),
        }
        for index, place in enumerate(_places(baseline.bins))
    ]
    rare = [index for index, share in enumerate(expected) if 0 < share * size < RARE]
    found: dict[str, Any] = {
        "bins": bins,
        "baseline_values": int(baseline.counts.sum()),
        "window_values": size,
        "rare_bins": rare,
        "epsilon": EPSILON,
    }
    if isinstance(baseline.bins, CategoryBins):
        unseen = baseline.bins.unseen(values)
        found["unseen_labels"] = unseen[:NAMED_LABELS]
        found["unseen_label_count"] = len(unseen)
    return found


def _places(bins: NumericBins | CategoryBins) -> list[dict[str, Any]]:
    """What each bin covers; an infinite edge is null, and so is the label of the reserved bin."""
    if isinstance(bins, CategoryBins):
        return [*({"label": label} for label in bins.labels), {"label": None}]
    edges: list[float | None] = [None, *bins.edges, None]
    return [{"above": low, "up_to": high} for low, high in itertools.pairwise(edges)]
