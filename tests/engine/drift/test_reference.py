"""Whole reports agree to 1e-12 with what SciPy and NumPy make of the same data and the published rules."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from engine.drift.baseline import fit, judge
from engine.drift.samples import samples_of_rows
from engine.drift.spc import SpcFeature, judge_spc
from engine.outcomes import Outcome
from tests.engine.drift.checks import custom_check, psi_check, spc_check
from wyrd.cards.drift import DriftCheck, PsiProfile

CLOSE = 1e-12

# Ties, values at edges of bins, and values in general.
number = st.one_of(st.integers(-20, 20).map(float), st.floats(-1e6, 1e6, allow_nan=False))
label = st.sampled_from(["a", "b", "", "1", "1.0", "other", "é", "e\u0301"])
threshold = st.one_of(
    st.floats(1e-3, 1).map(lambda value: {"kind": "Fixed", "value": value}),
    st.floats(1e-3, 0.5).map(lambda alpha: {"kind": "ChiSquare", "alpha": alpha}),
    st.floats(1e-3, 0.5).map(lambda alpha: {"kind": "Normal", "alpha": alpha}),
)
binning = st.builds(
    lambda kind, count: {"kind": kind, "n_bins": count},
    st.sampled_from(["EqualWidth", "Quantile"]),
    st.integers(2, 60),
)


def rows(**columns: Any) -> Any:
    found = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return samples_of_rows(found, list(columns))


def binned(check: dict[str, Any], limit: dict[str, Any]) -> DriftCheck:
    """A PSI check of the number `x` and the category `kind`."""
    plain = psi_check("x", "kind", threshold=limit, categorical=["kind"])
    assert isinstance(plain.profile, PsiProfile)
    document = plain.model_dump(mode="json", by_alias=True)
    document["profile"]["binning_strategy"] = check
    return DriftCheck.model_validate(document)


def edges_of(values: list[float], check: dict[str, Any]) -> Any:
    count = check["n_bins"]
    if check["kind"] == "Quantile":
        return np.unique([np.quantile(values, place / count) for place in range(1, count)])
    low, high = min(values), max(values)
    return np.unique([low + place * (high - low) / count for place in range(1, count)] if low < high else [])


def limit_of(limit: dict[str, Any], occupied: int, size: int) -> float | None:
    if limit["kind"] == "Fixed":
        value: float = limit["value"]
        return value
    if occupied < 2:
        return None
    free = occupied - 1
    if limit["kind"] == "ChiSquare":
        return float(stats.chi2.ppf(1 - limit["alpha"], free)) / size
    return float(free + stats.norm.isf(limit["alpha"]) * np.sqrt(2 * free)) / size


def agree(told: dict[str, Any], expected: Any, observed: Any, limit: dict[str, Any]) -> None:
    """One feature's report against counts of its bins, the reserved one last and empty in the baseline."""
    p, q = (counts / counts.sum() + 1e-10 for counts in (expected, observed))
    # Jeffreys' divergence is the index, term by term.
    score = float((special.rel_entr(p, q) + special.rel_entr(q, p)).sum())
    bound = limit_of(limit, int((expected > 0).sum()), int(observed.sum()))
    if bound is None:
        assert (told["verdict"], told["score"]) == ("Inconclusive", None)
        return
    assert told["score"] == pytest.approx(score, rel=CLOSE, abs=CLOSE)
    assert told["threshold"] == pytest.approx(bound, rel=CLOSE, abs=CLOSE)
    if abs(score - bound) > CLOSE:
        assert told["verdict"] == ("Drift" if score > bound else "NoDrift")
    bins = told["evidence"]["bins"]
    assert [one["baseline_count"] for one in bins] == expected.tolist()
    assert [one["window_count"] for one in bins] == observed.tolist()
    assert sum(one["baseline_proportion"] for one in bins) == pytest.approx(1, abs=CLOSE)
    assert sum(one["window_proportion"] for one in bins) == pytest.approx(1, abs=CLOSE)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(number, label), min_size=2, max_size=120),
    st.lists(st.tuples(number, label | st.just("unseen")), min_size=100, max_size=120),
    binning,
    threshold,
)
def test_psi_of_numbers_and_of_categories(
    old: list[tuple[float, str]],
    new: list[tuple[float, str]],
    strategy: dict[str, Any],
    limit: dict[str, Any],
) -> None:
    check = binned(strategy, limit)
    (x, kinds), (y, seen) = zip(*old, strict=True), zip(*new, strict=True)
    report = judge(check, fit(check, rows(x=x, kind=kinds)), rows(x=y, kind=seen)).document()

    edges = edges_of(list(x), strategy)
    places = [np.digitize(values, edges, right=True) for values in (x, y)]
    numeric = [np.bincount(place, minlength=len(edges) + 1) for place in places]
    agree(report["features"]["x"], numeric[0], numeric[1], limit)
    if (evidence := report["features"]["x"].get("evidence")) is not None:
        bins = evidence["bins"]
        assert [one["above"] for one in bins] == [None, *edges.tolist()]
        assert [one["up_to"] for one in bins] == [*edges.tolist(), None]

    labels = sorted(set(kinds))
    counts = [np.array([Counter(values)[one] for one in labels]) for values in (kinds, seen)]
    whole = [
        np.append(found, total - found.sum()) for found, total in zip(counts, (len(x), len(y)), strict=True)
    ]
    agree(report["features"]["kind"], whole[0], whole[1], limit)
    verdicts = [one["verdict"] for one in report["features"].values()]
    worst = next((one for one in ("Drift", "Inconclusive") if one in verdicts), "NoDrift")
    assert report["verdict"] == worst


@settings(deadline=None, max_examples=40)
@given(
    st.integers(2, 12).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.lists(st.lists(number, min_size=size, max_size=size), min_size=20, max_size=24),
            st.lists(st.lists(number, min_size=size, max_size=size), min_size=1, max_size=8),
        )
    )
)
def test_control_charts(drawn: tuple[int, list[list[float]], list[list[float]]]) -> None:
    size, old, new = drawn
    check = spc_check("x", size=size)
    baseline = fit(check, rows(x=[value for group in old for value in group]))
    told = judge(check, baseline, rows(x=[value for group in new for value in group])).document()
    evidence = told["features"]["x"]["evidence"]
    scale = max(1.0, *(abs(value) for group in (*old, *new) for value in group))

    centre = statistics.fmean(statistics.fmean(group) for group in old)
    spread = statistics.fmean(statistics.stdev(group) for group in old)
    c4 = np.sqrt(2 / (size - 1)) * special.gamma(size / 2) / special.gamma((size - 1) / 2)
    reach, width = 3 * spread / (c4 * np.sqrt(size)), 3 * np.sqrt(1 - c4**2) / c4
    limits = {
        "mean_lower": centre - reach,
        "mean": centre,
        "mean_upper": centre + reach,
        "deviation_lower": max(0.0, spread * (1 - width)),
        "deviation": spread,
        "deviation_upper": spread * (1 + width),
    }
    for name, value in limits.items():
        assert evidence[name] == pytest.approx(value, rel=CLOSE, abs=CLOSE * scale), name
    outside = 0
    for chart, statistic in (("mean", statistics.fmean), ("deviation", statistics.stdev)):
        values = [statistic(group) for group in new]
        assert evidence[f"{chart}s"] == pytest.approx(values, rel=CLOSE, abs=CLOSE * scale)
        lower, upper = limits[f"{chart}_lower"], limits[f"{chart}_upper"]
        # At a limit the last bit decides, and the two computations may differ by it.
        assume(all(abs(value - limit) > CLOSE * scale for value in values for limit in (lower, upper)))
        at = [index for index, value in enumerate(values) if value < lower or value > upper]
        assert [one["subgroup"] for one in evidence["signals"] if one["chart"] == chart] == at
        outside += len(at)
    assert (told["features"]["x"]["score"], evidence["signal_count"]) == (outside, outside)
    assert told["verdict"] == ("Drift" if outside else "NoDrift")


@settings(deadline=None)
@given(st.lists(number, min_size=1, max_size=200), st.floats(-1e6, 1e6), st.floats(0, 1e6, exclude_min=True))
def test_the_mean_of_a_custom_metric(values: list[float], baseline: float, alert: float) -> None:
    check = custom_check(baseline, alert)
    told = judge(check, None, rows(score=values)).document()
    score = abs(float(np.mean(np.asarray(values, dtype=np.longdouble))) - baseline)
    scale = max(1.0, abs(baseline), *map(abs, values))
    (feature,) = told["features"].values()
    assert feature["score"] == pytest.approx(score, rel=CLOSE, abs=CLOSE * scale)
    assert feature["threshold"] == alert
    if abs(score - alert) > CLOSE * scale:
        assert told["verdict"] == ("Drift" if score > alert else "NoDrift")


def test_a_statistic_at_its_limit_is_no_signal_and_one_beyond_it_is() -> None:
    chart = SpcFeature(2, 20, 2.0, 1.0, 3.0, 1.0, 0.0, 2.0)
    for values, verdict in (
        ([1.0, 1.0], "NoDrift"),
        ([3.0, 3.0], "NoDrift"),
        ([np.nextafter(1.0, 0), np.nextafter(1.0, 0)], "Drift"),
        ([np.nextafter(3.0, 4), np.nextafter(3.0, 4)], "Drift"),
    ):
        assert judge_spc("x", chart, np.array(values)).verdict == verdict


@pytest.mark.parametrize(
    ("x", "y", "verdict", "outcome"),
    [
        ("moved", "usual", "Drift", Outcome.FAILED),
        ("moved", "one bin", "Drift", Outcome.FAILED),
        ("usual", "one bin", "Inconclusive", Outcome.INCONCLUSIVE),
        ("usual", "usual", "NoDrift", Outcome.PASSED),
    ],
)
def test_one_feature_that_drifts_outweighs_one_that_could_not_be_judged(
    x: str, y: str, verdict: str, outcome: Outcome
) -> None:
    check = psi_check("x", "y", threshold={"kind": "ChiSquare", "alpha": 0.05})
    usual = np.arange(200.0).tolist()
    baseline = fit(check, rows(x=usual, y=usual if y == "usual" else [1.0] * 200))
    report = judge(check, baseline, rows(x=usual if x == "usual" else [500.0] * 200, y=usual))
    assert report.verdict == verdict
    assert report.finding().outcome is outcome
