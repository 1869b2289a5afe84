"""decide: from outcomes to the one verdict."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decide import decide
from engine.outcomes import Outcome, Verdict

P, F, U, N = Outcome.PASSED, Outcome.FAILED, Outcome.INCONCLUSIVE, Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([P, P], Verdict.PASSED),
        ([P, N], Verdict.PASSED),
        ([P, U], Verdict.INCONCLUSIVE),
        ([P, U, F], Verdict.FAILED),
        ([U, N], Verdict.INCONCLUSIVE),
    ],
)
def test_under_all_one_failure_outweighs_everything(outcomes: list[Outcome], verdict: Verdict) -> None:
    assert decide(outcomes).verdict is verdict


@pytest.mark.parametrize(
    ("outcomes", "verdict", "rate"),
    [
        ([P] + [U] * 9, Verdict.INCONCLUSIVE, 0.1),
        ([P] * 8 + [U] * 2, Verdict.PASSED, 0.8),
        ([P] * 7 + [U] * 3, Verdict.INCONCLUSIVE, 0.7),
        ([P] * 7 + [F] * 3, Verdict.FAILED, 0.7),
        ([P] * 7 + [N] * 3, Verdict.PASSED, 1.0),
    ],
)
def test_p11_inconclusive_requirements_stay_in_the_denominator(
    outcomes: list[Outcome], verdict: Verdict, rate: float
) -> None:
    decision = decide(outcomes, 0.8)
    assert decision.verdict is verdict
    assert decision.rate == pytest.approx(rate)
    assert decision.counts.document() == {
        "passed": outcomes.count(P),
        "failed": outcomes.count(F),
        "inconclusive": outcomes.count(U),
        "not_applicable": outcomes.count(N),
        "applicable": len(outcomes) - outcomes.count(N),
    }


@pytest.mark.parametrize("threshold", [None, 0.1, 1.0])
@pytest.mark.parametrize("outcomes", [[], [N], [N, N]])
def test_p12_nothing_to_judge_is_inconclusive(outcomes: list[Outcome], threshold: float | None) -> None:
    decision = decide(outcomes, threshold)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.reason.startswith("nothing to judge")
    assert decision.rate is None


@pytest.mark.parametrize("threshold", [math.nan, math.inf, 0, -0.5, 1.0001])
def test_p10_a_threshold_that_is_none_decides_nothing(threshold: float) -> None:
    with pytest.raises(ValueError):
        decide([P], threshold)


@pytest.mark.parametrize(
    ("passed", "total", "threshold"), [(8, 10, 0.8), (7, 10, 0.7), (29, 100, 0.29), (1, 1, 1.0)]
)
def test_the_threshold_is_the_decimal_that_was_written(passed: int, total: int, threshold: float) -> None:
    assert decide([P] * passed + [F] * (total - passed), threshold).verdict is Verdict.PASSED
    assert decide([P] * (passed - 1) + [F] * (total - passed + 1), threshold).verdict is Verdict.FAILED


@pytest.mark.parametrize("impostor", ["passed", Verdict.PASSED, True, None])
def test_only_outcomes_are_decided_over(impostor: object) -> None:
    with pytest.raises(TypeError):
        decide([P, impostor])  # type: ignore[list-item]


@given(st.lists(st.sampled_from(Outcome)), st.none() | st.decimals("0.001", "1", places=3))
def test_a_verdict_follows_from_the_counts_alone(outcomes: list[Outcome], written: object) -> None:
    threshold = None if written is None else float(str(written))
    decision = decide(outcomes, threshold)
    assert decide(reversed(outcomes), threshold) == decision
    assert decide([*outcomes, N], threshold).verdict is decision.verdict
    passed, applicable = outcomes.count(P), len(outcomes) - outcomes.count(N)
    if decision.verdict is Verdict.PASSED:
        assert applicable
        assert Fraction(passed, applicable) >= Fraction(str(written or 1))
    if decision.verdict is Verdict.FAILED:
        assert F in outcomes
    if F not in outcomes and applicable:
        assert decision.verdict is not Verdict.FAILED
