"""Baselines: fitted once from the data a Verifier names, kept as a document, compared with windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.drift.psi import (
    LEAST_VALUES,
    PsiFeature,
    fit_labels,
    fit_numbers,
    judge_feature,
    simulated_scores,
    threshold_of,
)
from engine.drift.report import DriftReport, FeatureReport
from engine.drift.samples import Numbers, Samples, SamplesUnusable
from engine.drift.spc import SpcFeature, fit_spc, judge_spc
from engine.failure import ReasonKind
from wyrd.cards.drift import CustomProfile, DistributionSignal, DriftCheck, PsiProfile, SpcProfile

SIMULATED_WINDOWS = 4000
"""Enough for a rate to be within two points of the true one."""
SIMULATED_SIZES = (100, 200, 500, 1000, 5000)
"""Window sizes, in values, at which false alarms are simulated when a baseline is fitted."""
ALARMING = 0.05
"""A rate of false alarms above this is worth a warning."""


class BaselineRefused(Exception):
    """The data cannot be a baseline. `str()` says why, with the record or feature at fault."""


@dataclass(frozen=True)
class Baseline:
    """One drift check's baseline: a document a feature, by name."""

    method: str
    features: Mapping[str, PsiFeature | SpcFeature]

    def document(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "features": {name: feature.document() for name, feature in self.features.items()},
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Baseline:
        kind = PsiFeature if document["method"] == "Psi" else SpcFeature
        return cls(
            document["method"],
            {name: kind.of_document(feature) for name, feature in document["features"].items()},
        )


def needs_baseline(check: DriftCheck) -> bool:
    """Whether the check compares with fitted data; a custom metric's baseline is a number of its Card."""
    return isinstance(check.signal, DistributionSignal)


def fit(check: DriftCheck, samples: Samples) -> Baseline:
    """Fit the baseline of a PSI or SPC check. Raises `BaselineRefused`."""
    signal, profile = check.signal, check.profile
    assert isinstance(signal, DistributionSignal)
    if not len(samples):
        raise BaselineRefused("the baseline has no rows")
    fitted: dict[str, PsiFeature | SpcFeature] = {}
    for name in signal.features:
        try:
            if isinstance(profile, PsiProfile):
                fitted[name] = (
                    fit_labels(samples.labels(name))
                    if name in profile.categorical_features
                    else fit_numbers(samples.numbers(name), profile.binning_strategy)
                )
            else:
                assert isinstance(profile, SpcProfile)
                fitted[name] = fit_spc(samples.numbers(name), profile.sample_size)
        except (SamplesUnusable, ValueError) as error:
            raise BaselineRefused(f"{name}: {error}") from None
    return Baseline(check.method, fitted)


def judge(check: DriftCheck, baseline: Baseline | None, window: Samples) -> DriftReport:
    """Compare a window with the baseline by the check's method. Never raises for what a window holds."""
    profile = check.profile
    if isinstance(profile, CustomProfile):
        return _custom(profile, window)
    signal = check.signal
    assert isinstance(signal, DistributionSignal)
    assert baseline is not None
    reports: list[FeatureReport] = []
    try:
        for name in signal.features:
            fitted = baseline.features[name]
            if isinstance(fitted, SpcFeature):
                reports.append(judge_spc(name, fitted, window.numbers(name)))
                continue
            assert isinstance(profile, PsiProfile)
            categorical = name in profile.categorical_features
            values = window.labels(name) if categorical else window.numbers(name)
            rate = None
            if len(values) >= LEAST_VALUES:
                rate = false_alarm_rate(fitted, profile, len(values))
            reports.append(judge_feature(name, fitted, values, profile.threshold, rate))
    except SamplesUnusable as unusable:
        return DriftReport(check.method, unusable=str(unusable))
    return DriftReport(check.method, reports)


def false_alarm_rate(feature: PsiFeature, profile: PsiProfile, size: int) -> float | None:
    """The share of windows of `size` values that would drift although they come from the baseline.

    Simulated with a fixed seed: windows are drawn from the baseline's own proportions. None where
    the threshold does not exist.
    """
    limit = threshold_of(profile.threshold, feature.occupied, size)
    if limit is None:
        return None
    scores = simulated_scores(feature.proportions, size, SIMULATED_WINDOWS)
    return float(np.count_nonzero(scores > limit)) / SIMULATED_WINDOWS


def false_alarms(check: DriftCheck, baseline: Baseline) -> dict[str, dict[str, float | None]]:
    """Rates of false alarms by feature and window size, for the status of a fitted PSI baseline."""
    profile = check.profile
    if not isinstance(profile, PsiProfile):
        return {}
    return {
        name: {str(size): false_alarm_rate(feature, profile, size) for size in SIMULATED_SIZES}
        for name, feature in baseline.features.items()
        if isinstance(feature, PsiFeature)
    }


def alarm_warnings(rates: Mapping[str, Mapping[str, float | None]]) -> Sequence[str]:
    """A sentence for each feature whose threshold would often call an unchanged window drifted."""
    found = []
    for name, by_size in rates.items():
        loud = [(size, rate) for size, rate in by_size.items() if rate is not None and rate > ALARMING]
        if loud:
            size, rate = loud[-1]
            found.append(
                f"{name}: {rate:.0%} of unchanged windows of {size} values would be called drifted;"
                " use larger windows, a higher threshold or fewer rare bins"
            )
    return found


def _custom(profile: CustomProfile, window: Samples) -> DriftReport:
    """The mean of one metric against the number that its Card names."""
    name = profile.metric_name
    try:
        values = window.numbers(name)
    except SamplesUnusable as unusable:
        return DriftReport("Custom", unusable=str(unusable))
    if not len(values):
        return DriftReport("Custom", [FeatureReport(name, "Inconclusive", why="the window has no values")])
    # Exact sums do not depend on the order of the rows; halves of the largest doubles do not overflow.
    mean = _exact_mean(values)
    score = abs(mean - profile.baseline_value)
    if not np.isfinite(score):
        why = "the mean is beyond what a number can hold"
        report = FeatureReport(name, "Inconclusive", why=why, kind=ReasonKind.LIMIT_EXCEEDED)
        return DriftReport("Custom", [report])
    verdict: Any = "Drift" if score > profile.alert_threshold else "NoDrift"
    evidence = {"mean": mean, "baseline_value": profile.baseline_value, "window_values": len(values)}
    return DriftReport(
        "Custom", [FeatureReport(name, verdict, score, float(profile.alert_threshold), evidence)]
    )


def _exact_mean(values: Numbers) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum(values / len(values))
