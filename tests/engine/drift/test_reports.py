"""SPC, custom metrics and whole reports: what a window with faults says, and false alarms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drift.baseline import (
    Baseline,
    BaselineRefused,
    alarm_warnings,
    false_alarm_rate,
    false_alarms,
    fit,
    judge,
)
from engine.drift.psi import CategoryBins, PsiFeature
from engine.drift.samples import Samples, samples_of_rows
from engine.drift.spc import c4, fit_spc, judge_spc
from engine.outcomes import Outcome
from tests.engine.drift.checks import custom_check, psi_check, spc_check
from wyrd.cards.drift import PsiProfile


def rows(feature: str, values: Any) -> list[dict[str, Any]]:
    return [{feature: value} for value in values]


def window(feature: str, values: Any) -> Samples:
    return samples_of_rows(rows(feature, values), [feature])


NUMBERS = psi_check("score")
FITTED = fit(NUMBERS, window("score", np.arange(1000.0).tolist()))


def test_p12_p26_an_empty_window_is_inconclusive_for_every_method() -> None:
    chart = fit(spc_check("score"), window("score", np.arange(100.0).tolist()))
    for check, baseline in ((NUMBERS, FITTED), (spc_check("score"), chart), (custom_check(), None)):
        report = judge(check, baseline, window("score", []))
        assert report.verdict == "Inconclusive"
        assert report.finding().outcome is Outcome.INCONCLUSIVE
        assert all(feature.score is None for feature in report.features)


@pytest.mark.parametrize("fault", [None, float("nan"), float("inf"), "text", True])
def test_p26_one_bad_value_makes_the_whole_report_inconclusive_and_names_its_record(fault: Any) -> None:
    values = [*np.arange(1000.0).tolist(), fault]
    report = judge(NUMBERS, FITTED, window("score", values))
    assert report.document() == {"method": "Psi", "features": {}, "verdict": "Inconclusive"}
    assert "row 1001" in report.finding().reason


def test_p26_a_record_that_lacks_one_of_two_features_is_named() -> None:
    check = psi_check("a", "b")
    whole = samples_of_rows([{"a": float(i), "b": float(i)} for i in range(200)], ["a", "b"])
    lacking = samples_of_rows([{"a": 1.0, "b": 2.0} for _ in range(150)] + [{"a": 1.0}], ["a", "b"])
    report = judge(check, fit(check, whole), lacking)
    assert not report.features
    assert "row 151 lacks the feature b" in report.finding().reason


def test_p26_a_null_in_the_baseline_is_refused_by_name() -> None:
    with pytest.raises(BaselineRefused, match="row 3"):
        fit(NUMBERS, window("score", [1.0, 2.0, None]))


def test_p29_rates_of_false_alarms_agree_with_a_simulation_of_real_windows() -> None:
    feature = PsiFeature(CategoryBins(list("abcde")), np.array([960, 10, 10, 10, 10, 0]))
    generator = np.random.default_rng(7)
    expected = feature.counts / feature.counts.sum()
    cases = [
        *(("Fixed", 100, 0.59), ("ChiSquare", 100, 0.84), ("Fixed", 200, 0.15)),
        *(("ChiSquare", 200, 0.44), ("Fixed", 500, 0.003), ("ChiSquare", 500, 0.09)),
    ]
    for kind, size, published in cases:
        threshold = {"kind": kind, "value": 0.2} if kind == "Fixed" else {"kind": kind, "alpha": 0.05}
        profile = psi_check("f", threshold=threshold).profile
        assert isinstance(profile, PsiProfile)
        rate = false_alarm_rate(feature, profile, size)
        limit = 0.2 if kind == "Fixed" else 9.487729036781154 / size
        drawn = generator.multinomial(size, expected, 50_000) / size + 1e-10
        scores = ((expected + 1e-10 - drawn) * np.log((expected + 1e-10) / drawn)).sum(axis=1)
        assert rate == pytest.approx(float((scores > limit).mean()), abs=0.02)
        assert rate == pytest.approx(published, abs=0.02)


def test_p29_bins_of_which_a_window_would_hold_fewer_than_five_are_named_beside_the_rate() -> None:
    check = psi_check("label", categorical=["label"])
    labels = ["a"] * 960 + [label for label in "bcde" for _ in range(10)]
    baseline = fit(check, window("label", labels))
    for size, rare in ((400, [1, 2, 3, 4]), (500, [])):
        told = judge(check, baseline, window("label", ["a"] * size)).features[0].evidence
        assert told is not None
        assert told["rare_bins"] == rare
        assert told["false_alarm_rate"] == pytest.approx(0.012 if rare else 0.003, abs=0.02)


def test_p29_thresholds_that_cry_wolf_are_warned_about() -> None:
    check = psi_check("label", categorical=["label"])
    labels = ["a"] * 960 + [label for label in "bcde" for _ in range(10)]
    warned = alarm_warnings(false_alarms(check, fit(check, window("label", labels))))
    assert len(warned) == 1
    assert warned[0].startswith("label: ")
    assert alarm_warnings(false_alarms(NUMBERS, FITTED)) == []


@given(st.integers(2, 40), st.integers(20, 30), st.integers(0, 2**32))
def test_spc_limits_equal_the_formula(size: int, subgroups: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(5, 2, size * subgroups)
    fitted = fit_spc(values, size)
    groups = [values[i * size : (i + 1) * size] for i in range(subgroups)]
    means = [sum(group) / size for group in groups]
    deviations = [
        math.sqrt(sum((value - mean) ** 2 for value in group) / (size - 1))
        for group, mean in zip(groups, means, strict=True)
    ]
    mean, deviation = sum(means) / subgroups, sum(deviations) / subgroups
    unbias = math.sqrt(2 / (size - 1)) * math.gamma(size / 2) / math.gamma((size - 1) / 2)
    assert c4(size) == pytest.approx(unbias, rel=1e-12)
    reach = 3 * deviation / (unbias * math.sqrt(size))
    assert fitted.mean_upper == pytest.approx(mean + reach, rel=1e-12)
    assert fitted.mean_lower == pytest.approx(mean - reach, rel=1e-12, abs=1e-12)
    spread = 3 * math.sqrt(1 - unbias**2) / unbias
    assert fitted.deviation_upper == pytest.approx(deviation * (1 + spread), rel=1e-11)
    assert fitted.deviation_lower == pytest.approx(max(0.0, deviation * (1 - spread)), rel=1e-9, abs=1e-11)


def test_spc_signals_are_statistics_outside_their_limits() -> None:
    generator = np.random.default_rng(3)
    fitted = fit_spc(generator.normal(0, 1, 500), 5)
    calm = judge_spc("f", fitted, np.zeros(5) + np.array([-0.5, 0.2, 0.0, 0.4, -0.1]))
    assert (calm.verdict, calm.score) == ("NoDrift", 0.0)
    moved = judge_spc("f", fitted, np.array([9.0, 9.5, 10.0, 9.1, 9.9]))
    assert moved.verdict == "Drift"
    assert moved.evidence is not None
    assert moved.evidence["signals"][0]["chart"] == "mean"


def test_spc_refuses_what_is_left_over() -> None:
    with pytest.raises(BaselineRefused, match="19 complete subgroups"):
        fit(spc_check("score"), window("score", np.arange(99.0).tolist()))
    with pytest.raises(BaselineRefused, match="1 of 5"):
        fit(spc_check("score"), window("score", np.arange(101.0).tolist()))
    chart = fit(spc_check("score"), window("score", np.arange(100.0).tolist()))
    assert judge(spc_check("score"), chart, window("score", [1.0] * 7)).verdict == "Inconclusive"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([12.0, 12.0], "NoDrift"), ([12.5, 12.0], "Drift"), ([8.0], "NoDrift"), ([7.9], "Drift")],
)
def test_a_custom_metric_drifts_when_its_mean_is_further_off_than_allowed(
    values: list[float], verdict: str
) -> None:
    report = judge(custom_check(), None, window("score", values))
    assert report.verdict == verdict
    expected = {"Drift": Outcome.FAILED, "NoDrift": Outcome.PASSED}[verdict]
    assert report.finding().outcome is expected


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=50), st.randoms(use_true_random=False))
def test_a_mean_does_not_depend_on_the_order_of_rows(values: list[float], shuffler: Any) -> None:
    first = judge(custom_check(), None, window("score", values)).document()
    shuffler.shuffle(values)
    assert judge(custom_check(), None, window("score", values)).document() == first


def test_the_largest_numbers_have_a_mean() -> None:
    report = judge(custom_check(baseline=0.0), None, window("score", [1.7e308, 1.7e308]))
    assert report.verdict == "Drift"


def test_baselines_survive_their_documents() -> None:
    chart = fit(spc_check("score"), window("score", np.arange(100.0).tolist()))
    for baseline in (FITTED, chart):
        assert Baseline.of_document(baseline.document()).document() == baseline.document()
