"""PSI: figures of the published contract, and agreement with an independent computation."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from engine.drift.psi import (
    CategoryBins,
    NumericBins,
    PsiFeature,
    fit_labels,
    fit_numbers,
    judge_feature,
    score_of,
    threshold_of,
)
from engine.drift.samples import label_array
from wyrd.cards.drift import (
    ChiSquareThreshold,
    EqualWidthBins,
    FixedThreshold,
    NormalThreshold,
    QuantileBins,
)

FIXED = FixedThreshold(kind="Fixed", value=0.2)
finite = st.floats(-1e6, 1e6, allow_nan=False)


def labelled(**counts: int) -> Any:
    return label_array([label for label, count in counts.items() for _ in range(count)])


def plain_psi(expected: list[float], observed: list[float]) -> float:
    """The formula, term by term."""
    return sum(
        ((p + 1e-10) - (q + 1e-10)) * math.log((p + 1e-10) / (q + 1e-10))
        for p, q in zip(expected, observed, strict=True)
    )


def equal_width(count: int) -> EqualWidthBins:
    return EqualWidthBins(kind="EqualWidth", n_bins=count)


def quantile(count: int) -> QuantileBins:
    return QuantileBins(kind="Quantile", n_bins=count)


def test_p23_an_empty_bin_adds_the_same_small_number_to_both_sides() -> None:
    assert score_of(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == pytest.approx(11.512925465, abs=1e-9)
    told = judge_feature("f", fit_labels(labelled(a=50, b=50)), labelled(a=100), FIXED)
    assert told.evidence is not None
    assert told.evidence["epsilon"] == 1e-10


@pytest.mark.parametrize(
    ("window", "score"),
    [
        ({"a": 25, "b": 25, "c": 50}, 11.5129),
        ({"a": 100}, 11.5129),
        ({"a": 50, "b": 49, "c": 1}, 0.1844),
        ({"a": 500, "b": 499, "c": 1}, 0.0161),
    ],
)
def test_p25_unseen_labels_go_to_the_reserved_bin(window: dict[str, int], score: float) -> None:
    report = judge_feature("f", fit_labels(labelled(a=50, b=50)), labelled(**window), FIXED)
    assert report.score == pytest.approx(score, abs=5e-5)
    assert report.evidence is not None
    assert report.evidence["unseen_labels"] == (["c"] if "c" in window else [])


def test_p25_a_real_label_named_other_does_not_meet_the_reserved_bin() -> None:
    baseline = fit_labels(labelled(other=50, a=50))
    assert isinstance(baseline.bins, CategoryBins)
    counts = baseline.bins.count(label_array(["other", "a", "new", "new"]))
    assert list(counts) == [1, 1, 2]


def test_p25_labels_that_look_alike_stay_apart() -> None:
    twins = ["1", "1.0", "", "e\u0301", "\u00e9"]
    assert isinstance(fit_labels(label_array(twins)).bins, CategoryBins)
    assert fit_labels(label_array(twins)).occupied == len(twins)


def test_p26_p29_fewer_than_a_hundred_values_are_inconclusive_without_a_score() -> None:
    baseline = fit_numbers(np.arange(1000.0), equal_width(10))
    for size in (0, 1, 99):
        report = judge_feature("f", baseline, np.full(size, 5000.0), FIXED)
        assert (report.verdict, report.score) == ("Inconclusive", None)
    assert judge_feature("f", baseline, np.full(100, 5000.0), FIXED).verdict == "Drift"


def test_p30_a_score_equal_to_its_threshold_is_no_drift() -> None:
    baseline = fit_labels(labelled(a=50, b=50))
    window = labelled(a=60, b=40)
    score = judge_feature("f", baseline, window, FIXED).score
    assert score is not None
    at = FixedThreshold(kind="Fixed", value=score)
    below = FixedThreshold(kind="Fixed", value=math.nextafter(score, 0))
    assert judge_feature("f", baseline, window, at).verdict == "NoDrift"
    assert judge_feature("f", baseline, window, below).verdict == "Drift"


def test_constant_data_is_one_bin() -> None:
    for strategy in (equal_width(10), quantile(10)):
        assert fit_numbers(np.full(200, 3.0), strategy).occupied == 1


def test_a_statistical_threshold_over_one_bin_is_inconclusive() -> None:
    baseline = fit_numbers(np.full(200, 3.0), equal_width(10))
    chi = ChiSquareThreshold(kind="ChiSquare", alpha=0.05)
    assert judge_feature("f", baseline, np.full(200, 3.0), chi).verdict == "Inconclusive"


def test_bins_are_open_on_the_left_and_closed_on_the_right() -> None:
    assert list(NumericBins([1.0, 2.0]).count(np.array([1.0, 1.5, 2.0, 2.5]))) == [1, 2, 1]


def test_the_widest_range_of_doubles_still_has_finite_edges() -> None:
    fitted = fit_numbers(np.array([-1.7e308, 0.0, 1.7e308]), equal_width(4))
    assert isinstance(fitted.bins, NumericBins)
    assert np.isfinite(fitted.bins.edges).all()
    assert len(fitted.bins.edges) == 3


@settings(deadline=None, max_examples=60)
@given(
    st.lists(finite, min_size=2, max_size=200),
    st.lists(finite, min_size=100, max_size=200),
    st.integers(2, 60),
    st.booleans(),
)
def test_scores_equal_an_independent_computation(
    baseline: list[float], window: list[float], count: int, by_quantile: bool
) -> None:
    fitted = fit_numbers(np.array(baseline), quantile(count) if by_quantile else equal_width(count))
    if by_quantile:
        edges = [float(np.quantile(baseline, i / count)) for i in range(1, count)]
    else:
        low, high = min(baseline), max(baseline)
        edges = [low + i * (high - low) / count for i in range(1, count)] if low < high else []
    edges = sorted(set(edges))

    def shares(values: list[float]) -> list[float]:
        bounds = [-math.inf, *edges, math.inf]
        return [sum(a < value <= b for value in values) / len(values) for a, b in itertools.pairwise(bounds)]

    report = judge_feature("f", fitted, np.array(window), FIXED)
    assert report.score == pytest.approx(plain_psi(shares(baseline), shares(window)), rel=1e-12, abs=1e-12)


@given(st.integers(2, 50), st.integers(100, 10_000), st.floats(0.001, 0.5))
def test_statistical_thresholds_are_those_of_the_distributions(bins: int, size: int, alpha: float) -> None:
    chi = threshold_of(ChiSquareThreshold(kind="ChiSquare", alpha=alpha), bins, size)
    normal = threshold_of(NormalThreshold(kind="Normal", alpha=alpha), bins, size)
    assert chi == pytest.approx(stats.chi2.isf(alpha, bins - 1) / size, rel=1e-12)
    expected = (bins - 1) / size + stats.norm.ppf(1 - alpha) * math.sqrt(2 * (bins - 1)) / size
    assert normal == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(st.lists(finite, min_size=100, max_size=300), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit_of_the_score(values: list[float], shuffler: Any) -> None:
    fitted = fit_numbers(np.array(values), quantile(10))
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    again = fit_numbers(np.array(shuffled), quantile(10))
    first = judge_feature("f", fitted, np.array(values), FIXED)
    assert again.document() == fitted.document()
    assert judge_feature("f", again, np.array(shuffled), FIXED).score == first.score


def test_an_edge_that_is_a_round_number_is_one_exactly() -> None:
    """29 of 0 to 100 lies in the bin that ends at 29; 0.29 * 100 would not be 29."""
    fitted = fit_numbers(np.arange(101.0), equal_width(100))
    assert isinstance(fitted.bins, NumericBins)
    assert list(fitted.bins.edges) == [float(edge) for edge in range(1, 100)]


def test_p30_an_effect_too_small_for_the_card_is_no_drift_however_many_rows() -> None:
    """A test of significance calls a shift of a hundredth drift, at a million rows."""
    drawn = np.random.Generator(np.random.PCG64(0))
    fitted = fit_numbers(drawn.normal(0, 1, 1_000_000), quantile(10))
    report = judge_feature("f", fitted, drawn.normal(0.01, 1, 1_000_000), FIXED)
    assert report.verdict == "NoDrift"
    assert report.score is not None
    assert report.score < 0.001


def test_labels_without_end_are_no_categories() -> None:
    with pytest.raises(ValueError, match="1001 labels"):
        fit_labels(label_array([f"id-{number}" for number in range(1001)]))


def test_a_baseline_survives_its_document() -> None:
    for fitted in (fit_labels(labelled(a=3, b=4)), fit_numbers(np.arange(50.0), quantile(7))):
        assert PsiFeature.of_document(fitted.document()).document() == fitted.document()
