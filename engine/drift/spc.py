"""Control charts of subgroup means and standard deviations (Shewhart's X-bar and S charts).

c4(n) = sqrt(2 / (n - 1)) * gamma(n / 2) / gamma((n - 1) / 2) unbiases the standard deviation of
n normal values. Limits are the grand mean +- 3 s/(c4 sqrt n), and s (1 +- 3 sqrt(1 - c4^2)/c4),
the lower one not below 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.drift.report import FeatureReport
from engine.drift.samples import Numbers
from engine.failure import ReasonKind

LEAST_SUBGROUPS = 20
_EXACT_SIZES = 300
"""Subgroups up to this size take gamma itself, which is finite for them."""
NAMED_SIGNALS = 100


@dataclass(frozen=True)
class SpcFeature:
    """One feature's baseline: subgroup size, centres and limits of both charts."""

    sample_size: int
    subgroups: int
    mean: float
    mean_lower: float
    mean_upper: float
    deviation: float
    deviation_lower: float
    deviation_upper: float

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> SpcFeature:
        return cls(**document)


def c4(size: int) -> float:
    """The expected sample standard deviation of `size` standard normal values."""
    return 1 - _below_one(size)


def _below_one(size: int) -> float:
    """1 - c4. Large subgroups by the asymptotic series, since logarithms of gammas cancel there."""
    if size <= _EXACT_SIZES:
        return 1 - math.sqrt(2 / (size - 1)) * math.gamma(size / 2) / math.gamma((size - 1) / 2)
    x = 2 / (size - 1)
    series = (1 / 8, -1 / 128, -5 / 1024, 21 / 32768, 399 / 262144, -869 / 4194304)
    return sum(term * x**power for power, term in enumerate(series, start=1))


def fit_spc(values: Numbers, sample_size: int) -> SpcFeature:
    """The charts of a baseline in observation order.

    Raises ValueError for fewer than 20 complete subgroups, for values left over, and for values so
    large that a limit is no finite number.
    """
    subgroups, rest = divmod(len(values), sample_size)
    if subgroups < LEAST_SUBGROUPS:
        raise ValueError(
            f"the baseline has {subgroups} complete subgroups of {sample_size},"
            f" and at least {LEAST_SUBGROUPS} are needed"
        )
    if rest:
        raise ValueError(f"the baseline's last subgroup has {rest} of {sample_size} values")
    means, deviations = _statistics(values, sample_size)
    try:
        mean, deviation = math.fsum(means) / subgroups, math.fsum(deviations) / subgroups
    except (OverflowError, ValueError):
        mean = deviation = math.inf
    unbias, short = c4(sample_size), _below_one(sample_size)
    reach = 3 * deviation / (unbias * math.sqrt(sample_size))
    spread = 3 * math.sqrt(short * (2 - short)) / unbias
    if not math.isfinite(abs(mean) + reach + deviation * (1 + spread)):
        raise ValueError("the values are too large for their limits to be numbers")
    return SpcFeature(
        sample_size=sample_size,
        subgroups=subgroups,
        mean=mean,
        mean_lower=mean - reach,
        mean_upper=mean + reach,
        deviation=deviation,
        deviation_lower=max(0.0, deviation * (1 - spread)),
        deviation_upper=deviation * (1 + spread),
    )


def judge_spc(feature: str, baseline: SpcFeature, values: Numbers) -> FeatureReport:
    """Chart a window in observation order. A statistic outside its limits is a signal; any is Drift."""
    subgroups, rest = divmod(len(values), baseline.sample_size)
    if not len(values):
        return FeatureReport(feature, "Inconclusive", why="the window has no values")
    if rest:
        why = f"the window's last subgroup has {rest} of {baseline.sample_size} values"
        return FeatureReport(feature, "Inconclusive", why=why)
    means, deviations = _statistics(values, baseline.sample_size)
    if not (np.isfinite(means).all() and np.isfinite(deviations).all()):
        why = "a subgroup's statistics are beyond what a number can hold"
        return FeatureReport(feature, "Inconclusive", why=why, kind=ReasonKind.LIMIT_EXCEEDED)
    charts = {
        "mean": (means, baseline.mean_lower, baseline.mean_upper),
        "deviation": (deviations, baseline.deviation_lower, baseline.deviation_upper),
    }
    signals = [
        {"chart": chart, "subgroup": int(index), "value": float(statistics[index])}
        for chart, (statistics, lower, upper) in charts.items()
        for index in np.flatnonzero((statistics < lower) | (statistics > upper))
    ]
    evidence = {
        **baseline.document(),
        "window_subgroups": subgroups,
        "signals": signals[:NAMED_SIGNALS],
        "signal_count": len(signals),
        "means": [float(value) for value in means[:NAMED_SIGNALS]],
        "deviations": [float(value) for value in deviations[:NAMED_SIGNALS]],
    }
    return FeatureReport(feature, "Drift" if signals else "NoDrift", float(len(signals)), 0.0, evidence)


def _statistics(values: Numbers, sample_size: int) -> tuple[Numbers, Numbers]:
    groups = values.reshape(-1, sample_size)
    with np.errstate(over="ignore", invalid="ignore"):
        return groups.mean(axis=1), groups.std(axis=1, ddof=1)
