"""Operators: what each means, what each refuses to judge, and the laws that hold for all of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.failure import ReasonKind
from engine.operators import OPERATORS, judge, prepare
from engine.operators.vectors import cosine, js, kl, wasserstein
from engine.outcomes import Outcome
from engine.values import NotJudgeable, equal, key
from wyrd.cards.comparison import NEEDS_EXPECTED, PARAMETERS, SCALAR_OPERATORS

P, F, U = Outcome.PASSED, Outcome.FAILED, Outcome.INCONCLUSIVE
NO: dict[str, Any] = {}

EXAMPLES: dict[str, Any] = {
    "min": 0,
    "max": 10,
    "inclusive": True,
    "tolerance": 0.1,
    "pct": 0.1,
    "sigma": 2.0,
    "mean": 5.0,
    "std_dev": 1.0,
    "lower_pct": 0.1,
    "upper_pct": 0.9,
    "metric": "js",
    "threshold": 0.5,
    "pattern": "^a",
    "expected": 3,
}


def parameters_of(operator: str) -> dict[str, Any]:
    members = {name: EXAMPLES[name] for name in PARAMETERS.get(operator, {})}
    return members | ({"expected": "number"} if operator == "is_type" else {})


def operand_of(operator: str) -> Any:
    if operator in {"in", "not_in", "is_subset", "is_superset", "is_disjoint", "all_of", "any_of", "none_of"}:
        return [1, 2]
    if operator in {"divergence_less_than", "cosine_similarity_at_least"}:
        return [0.5, 0.5]
    if operator in {"contains", "not_contains", "contains_ignore_case", "starts_with", "ends_with"}:
        return "a"
    return 5 if operator in NEEDS_EXPECTED else None


def test_every_operator_a_card_may_name_exists_and_no_other() -> None:
    assert set(OPERATORS) == SCALAR_OPERATORS | set(PARAMETERS)
    assert len(OPERATORS) == 56


def ranged(low: float, high: float, inclusive: bool = True) -> dict[str, Any]:
    return {"min": low, "max": high, "inclusive": inclusive}


TABLE: list[tuple[str, dict[str, Any], Any, Any, Outcome]] = [
    ("equals", NO, 1, 1.0, P),
    ("equals", NO, 1, True, F),
    ("equals", NO, [1, {"a": 0}], [1.0, {"a": False}], F),
    ("equals", NO, {"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, P),
    ("equals", NO, None, None, P),
    ("equals", NO, None, 0, F),
    ("equals", NO, 2**53, float(2**53), P),
    ("equals", NO, float(2**53), 2**53 + 1, F),
    ("not_equals", NO, "a", "b", P),
    ("not_equals", NO, [1], [1.0], F),
    ("greater_than", NO, float(2**53), 2**53 + 1, P),
    ("greater_than", NO, 5, 5, F),
    ("greater_than_or_equals", NO, 5, 5, P),
    ("less_than", NO, 10**400, 1e308, P),
    ("less_than_or_equals", NO, 5, 5.0, P),
    ("is_positive", NO, None, 1e-300, P),
    ("is_positive", NO, None, 0, F),
    ("is_negative", NO, None, -1, P),
    ("is_zero", NO, None, -0.0, P),
    ("in_range", ranged(0, 1), None, 1, P),
    ("in_range", ranged(0, 1, False), None, 1, F),
    ("not_in_range", ranged(0, 1), None, 1, F),
    ("not_in_range", ranged(0, 1, False), None, 1, P),
    ("in_range", ranged(2, 1), None, 1, U),
    ("not_in_range", ranged(2, 1), None, 1, U),
    ("approximately_equals", {"tolerance": 0.1}, 1.0, 1.1, P),
    ("approximately_equals", {"tolerance": 0.1}, 1, 1.11, F),
    ("within_abs_tolerance", {"tolerance": 0}, 2**53, 2**53 + 1, F),
    ("within_abs_tolerance", {"tolerance": 1}, 10**400, 10**400 + 1, P),
    ("within_abs_tolerance", {"tolerance": -1}, 1, 1, F),
    ("within_pct_tolerance", {"pct": 0.1}, -100, -110, P),
    ("within_pct_tolerance", {"pct": 0.1}, 100, 110.01, F),
    ("within_pct_tolerance", {"pct": 0.5}, 0, 0, P),
    ("within_pct_tolerance", {"pct": 0.5}, 0, 1e-9, F),
    ("within_std_dev", {"sigma": 2, "mean": 10, "std_dev": 1.5}, None, 13, P),
    ("within_std_dev", {"sigma": 2, "mean": 10, "std_dev": 1.5}, None, 13.1, F),
    ("within_std_dev", {"sigma": 2, "mean": 10, "std_dev": -1}, None, 10, U),
    ("between_percentiles", {"lower_pct": 0.25, "upper_pct": 0.75}, None, 0.75, P),
    ("between_percentiles", {"lower_pct": 0.25, "upper_pct": 0.75}, None, 0.8, F),
    ("between_percentiles", {"lower_pct": 0.75, "upper_pct": 0.25}, None, 0.5, U),
    ("between_percentiles", {"lower_pct": 0, "upper_pct": 75}, None, 0.5, U),
    ("between_percentiles", {"lower_pct": 0.25, "upper_pct": 0.75}, None, 50, U),
    ("contains", NO, "", "", P),
    ("contains", NO, "b", "abc", P),
    ("contains", NO, "b", ["b"], U),
    ("not_contains", NO, "b", "aBc", P),
    ("contains_ignore_case", NO, "STRASSE", "Hauptstraße 1", P),
    ("starts_with", NO, "ab", "abc", P),
    ("ends_with", NO, "ab", "abc", F),
    ("matches_regex", {"pattern": "b+"}, None, "abbc", P),
    ("matches_regex", {"pattern": r"\p{Greek}"}, None, "λ", P),
    ("not_matches_regex", {"pattern": "b+"}, None, "abbc", F),
    ("is_email", NO, None, "a@b.c", P),
    ("is_email", NO, None, "a@b", F),
    ("is_email", NO, None, "@b.c", F),
    ("is_email", NO, None, "a b@c.d", F),
    ("is_email", NO, None, "a.b", F),
    ("is_url", NO, None, "https://example.com", P),
    ("is_url", NO, None, "git+ssh://x", P),
    ("is_url", NO, None, "example.com", F),
    ("is_url", NO, None, "http://", F),
    ("is_url", NO, None, "1http://x", F),
    ("is_url", NO, None, "mailto:a@b.c", F),
    ("is_uuid", NO, None, "67e55044-10b1-426f-9247-bb680e5fe0c8", P),
    ("is_uuid", NO, None, "67E5504410B1426F9247BB680E5FE0C8", P),
    ("is_uuid", NO, None, "{67e55044-10b1-426f-9247-bb680e5fe0c8}", P),
    ("is_uuid", NO, None, "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8", P),
    ("is_uuid", NO, None, "67e5504-410b1-426f-9247-bb680e5fe0c8", F),
    ("is_uuid", NO, None, "67e55044_10b1_426f_9247_bb680e5fe0c8", F),
    ("is_ipv4", NO, None, "127.0.0.1", P),
    ("is_ipv4", NO, None, "127.0.0.01", F),
    ("is_ipv4", NO, None, "256.0.0.1", F),
    ("is_ipv6", NO, None, "::ffff:1.2.3.4", P),
    ("is_ipv6", NO, None, "fe80::1%eth0", F),
    ("is_ipv6", NO, None, "1.2.3.4", F),
    ("is_json", NO, None, ' {"a": [1, null]} ', P),
    ("is_json", NO, None, "{'a': 1}", F),
    ("is_json", NO, None, '{"a":1,"a":2}', F),
    ("is_json", NO, None, "", F),
    ("is_json", NO, None, "[" * 70 + "]" * 70, U),
    ("has_min_length", {"min": 2}, None, "é😀", P),
    ("has_min_length", {"min": 3}, None, "é😀", F),
    ("has_max_length", {"max": 1}, None, "😀", P),
    ("has_max_length", {"max": 0}, None, ["a"], U),
    ("length", {"expected": 2}, None, [1, 2], P),
    ("length", {"expected": 2}, None, {"a": 1}, F),
    ("length", {"expected": 1}, None, "😀", P),
    ("length", {"expected": 1}, None, 1, U),
    ("length_greater_than", {"min": 2}, None, "ab", F),
    ("length_greater_than", {"min": 2}, None, "abc", P),
    ("length_less_than", {"max": 2}, None, {}, P),
    ("length_less_than", {"max": 2}, None, [1, 2], F),
    ("is_empty", NO, None, "", P),
    ("is_empty", NO, None, [0], F),
    ("is_empty", NO, None, None, U),
    ("is_non_empty", NO, None, {"a": None}, P),
    ("is_non_empty", NO, None, "", F),
    ("in", NO, [1, "a"], 1.0, P),
    ("in", NO, [1, "a"], True, F),
    ("in", NO, [[1]], [1.0], P),
    ("in", NO, "abc", "a", U),
    ("not_in", NO, [1, None], None, F),
    ("is_subset", NO, [1, 2], [1.0, 1], P),
    ("is_subset", NO, [1], [1, 2], F),
    ("is_superset", NO, [1], [2, 1], P),
    ("is_superset", NO, [1, 3], [2, 1], F),
    ("is_disjoint", NO, [1], [True, "1"], P),
    ("is_disjoint", NO, [1], [1.0], F),
    ("all_of", NO, ["a", "b"], ["b", "a", "c"], P),
    ("all_of", NO, ["a", "b"], ["a"], F),
    ("any_of", NO, ["a", "b"], ["c", "b"], P),
    ("any_of", NO, ["a"], [], F),
    ("none_of", NO, ["a"], ["b"], P),
    ("none_of", NO, ["a"], ["a"], F),
    ("unique_values", NO, None, [1, True, "1", [1], None], P),
    ("unique_values", NO, None, [{"a": 1}, {"a": 1.0}], F),
    ("is_truthy", NO, None, [None], P),
    ("is_truthy", NO, None, 0.0, F),
    ("is_truthy", NO, None, "false", P),
    ("is_falsy", NO, None, None, P),
    ("is_falsy", NO, None, {}, P),
    ("is_null", NO, None, None, P),
    ("is_null", NO, None, 0, F),
    ("is_not_null", NO, None, "", P),
    ("is_string", NO, None, 1, F),
    ("is_number", NO, None, True, F),
    ("is_number", NO, None, 10**400, P),
    ("is_boolean", NO, None, False, P),
    ("is_object", NO, None, [], F),
    ("is_type", {"expected": "bool"}, None, True, P),
    ("is_type", {"expected": "number"}, None, True, F),
    ("is_type", {"expected": "null"}, None, None, P),
    ("is_type", {"expected": "array"}, None, [], P),
    ("divergence_less_than", {"metric": "kl", "threshold": 0.01}, [0.5, 0.5], [0.5, 0.5], P),
    ("divergence_less_than", {"metric": "wasserstein", "threshold": 1}, [0, 1], [1, 0], F),
    ("divergence_less_than", {"metric": "wasserstein", "threshold": 1.1}, [0, 1], [1, 0], P),
    ("divergence_less_than", {"metric": "kl", "threshold": 1}, [], [], U),
    ("divergence_less_than", {"metric": "kl", "threshold": 1}, [1], [0.5, 0.5], U),
    ("divergence_less_than", {"metric": "kl", "threshold": 1}, [0.5, 0.5], [-1, 2], U),
    ("divergence_less_than", {"metric": "js", "threshold": 1}, [0.5, 0.5], [True, 0], U),
    ("divergence_less_than", {"metric": "js", "threshold": 1}, [0.5], [10**400], U),
    ("cosine_similarity_at_least", {"threshold": 1.0}, [0.1, 0.2, 0.3], [0.1, 0.2, 0.3], P),
    ("cosine_similarity_at_least", {"threshold": 1.0}, [1e-200, 0], [3e200, 0], P),
    ("cosine_similarity_at_least", {"threshold": 0.1}, [0, 0], [1, 1], F),
    ("cosine_similarity_at_least", {"threshold": 0}, [0, 0], [1, 1], P),
    ("cosine_similarity_at_least", {"threshold": 0}, [1], [1, 1], U),
]


@pytest.mark.parametrize(("operator", "parameters", "expected", "observed", "outcome"), TABLE)
def test_what_each_operator_means(
    operator: str, parameters: dict[str, Any], expected: Any, observed: Any, outcome: Outcome
) -> None:
    found = judge(operator, parameters, expected, observed)
    assert found.outcome is outcome, found.reason
    assert (found.kind is None) is (outcome is not U)


def test_the_table_speaks_of_every_operator() -> None:
    assert {operator for operator, *_ in TABLE} == set(OPERATORS)


def test_divergences_follow_their_formulas() -> None:
    p, q = [0.2, 0.8], [0.5, 0.5]
    assert kl(p, q) == pytest.approx(0.2 * math.log(0.4) + 0.8 * math.log(1.6), abs=1e-9)
    middle = [0.35, 0.65]
    assert js(p, q) == pytest.approx((kl(p, middle) + kl(q, middle)) / 2)
    assert wasserstein([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]) == 2.0
    assert kl([1.0, 0.0], [0.0, 1.0]) == pytest.approx(math.log(1e12), rel=1e-6)
    assert cosine([1.0, 1.0], [1.0, 0.0]) == pytest.approx(math.sqrt(0.5))


def test_a_type_the_operator_does_not_take_is_inconclusive_and_both_types_are_named() -> None:
    found = judge("greater_than", {}, 5, "7")
    assert found == (U, ReasonKind.TYPE_MISMATCH, "greater_than needs a number, got string")
    found = judge("contains", {}, "a", ["a"])
    assert found == (U, ReasonKind.TYPE_MISMATCH, "contains needs a string, got array")
    found = judge("in", {}, "abc", "a")
    assert found.kind is ReasonKind.OPERAND_INVALID
    assert "array" in found.reason
    assert "string" in found.reason


@pytest.mark.parametrize("operator", sorted(NEEDS_EXPECTED))
@pytest.mark.parametrize("observed", [1, "a", [1.0, 2.0], None])
def test_a_null_operand_is_inconclusive_where_it_may_not_be_null(operator: str, observed: Any) -> None:
    found = judge(operator, parameters_of(operator), None, observed)
    assert found.outcome is U
    assert found.kind is ReasonKind.OPERAND_INVALID


@pytest.mark.parametrize("operator", sorted(OPERATORS))
@pytest.mark.parametrize("observed", [math.nan, math.inf, -math.inf])
def test_p10_nan_and_infinity_are_inconclusive_for_every_operator(operator: str, observed: float) -> None:
    found = judge(operator, parameters_of(operator), operand_of(operator), observed)
    assert found.outcome is U
    assert found.kind is ReasonKind.TYPE_MISMATCH


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("not_equals", [1, 2]), ("equals", [1, 2]), ("in", [[1, 2]]), ("not_in", [[1, 2]]), ("none_of", [5])],
)
def test_p10_nan_inside_a_value_is_inconclusive_too(operator: str, expected: Any) -> None:
    assert judge(operator, {}, expected, [1, math.nan]).outcome is U


@pytest.mark.parametrize(
    ("operator", "parameters", "expected"),
    [
        ("greater_than", {}, math.nan),
        ("not_equals", {}, [math.nan]),
        ("approximately_equals", {"tolerance": math.nan}, 1),
        ("in_range", {"min": math.nan, "max": 1, "inclusive": True}, None),
        ("not_in_range", {"min": 0, "max": math.inf, "inclusive": True}, None),
    ],
)
def test_p10_an_operand_that_is_not_finite_judges_nothing(
    operator: str, parameters: dict[str, Any], expected: Any
) -> None:
    found = judge(operator, parameters, expected, 0.5)
    assert (found.outcome, found.kind) == (U, ReasonKind.OPERAND_INVALID)


@pytest.mark.parametrize(
    ("operator", "expected", "observed", "outcome"),
    [
        ("is_subset", [1], [], P),
        ("all_of", [], [1], P),
        ("none_of", [], [1], P),
        ("any_of", [], [1], F),
        ("unique_values", None, [], P),
        ("contains", "", "abc", P),
    ],
)
def test_p12_vacuous_operators_keep_their_mathematical_meaning(
    operator: str, expected: Any, observed: Any, outcome: Outcome
) -> None:
    assert judge(operator, {}, expected, observed).outcome is outcome


@pytest.mark.parametrize(
    "text",
    [
        "a guaranteed\u00a0refund",
        "a guaranteed\nrefund",
        "a guar\u200banteed refund",
        "A GUARANTEED REFUND",
        "a guaranteed  refund",
    ],
)
def test_p37_strings_compare_by_code_point(text: str) -> None:
    assert judge("not_contains", {}, "guaranteed refund", text).outcome is P
    assert judge("contains", {}, "guaranteed refund", text).outcome is F


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a": NaN}', "1e999"])
def test_p43_nan_is_not_json(text: str) -> None:
    assert judge("is_json", {}, None, text).outcome is F


def test_p47_regexes_take_linear_time_and_what_the_engine_refuses_judges_nothing() -> None:
    assert judge("matches_regex", {"pattern": "^(a+)+$"}, None, "a" * 100_000 + "X").outcome is F
    assert judge("matches_regex", {"pattern": "(a|a)*$"}, None, "a" * 100_000 + "X").outcome is P
    assert judge("matches_regex", {"pattern": "(.*a){20}"}, None, "a" * 40 + "X").outcome is P
    for pattern in ("a{1000}{1000}", "(?=x)", r"(a)\1", "a" * 4097, "("):
        for operator in ("matches_regex", "not_matches_regex"):
            found = judge(operator, {"pattern": pattern}, None, "a")
            assert (found.outcome, found.kind) == (U, ReasonKind.OPERAND_INVALID)


def test_reasons_name_values_shortly() -> None:
    assert judge("greater_than", {}, 5, 7).reason == "7 is greater than 5"
    assert judge("equals", {}, "paid", "open").reason == '"open" does not equal "paid"'
    long = judge("contains", {}, "y" * 5000, "x" * 5000).reason
    assert len(long) < 400
    assert judge("equals", {}, 1, 10**4000).reason.startswith("an integer of ")
    assert len(judge("is_empty", {}, None, [["x" * 1000]] * 50).reason) < 200


def test_a_subject_keeps_the_value_out_of_every_reason() -> None:
    secret = "hunter2"
    for operator in sorted(OPERATORS):
        ask = prepare(operator, parameters_of(operator), operand_of(operator), subject="the value")
        for observed in (secret, [secret], {secret: 1}, [0.25, 0.75]):
            assert secret not in ask(observed).reason


def test_an_unknown_operator_or_a_missing_parameter_judges_nothing() -> None:
    assert judge("is_sorted", {}, None, [1]).kind is ReasonKind.OPERAND_INVALID
    assert judge("in_range", {"min": 1}, None, 1).kind is ReasonKind.OPERAND_INVALID


def test_sets_of_colliding_integers_are_judged_in_linear_time() -> None:
    colliding = [n * (2**61 - 1) for n in range(20_000)]
    assert judge("is_subset", {}, colliding, colliding).outcome is P


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(
    scalars
    | st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, False, 2**53, 2**53 + 1, float(2**53), 1e23, 10**23]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)
NEGATIONS = [
    ("equals", "not_equals"),
    ("contains", "not_contains"),
    ("in", "not_in"),
    ("in_range", "not_in_range"),
    ("matches_regex", "not_matches_regex"),
    ("is_truthy", "is_falsy"),
    ("is_null", "is_not_null"),
    ("is_empty", "is_non_empty"),
    ("any_of", "none_of"),
    ("any_of", "is_disjoint"),
]
OPPOSITE = {P: F, F: P, U: U}


@settings(max_examples=400)
@given(names=st.sampled_from(NEGATIONS), expected=values, observed=values)
def test_a_negation_is_the_opposite_and_undecided_together(
    names: tuple[str, str], expected: Any, observed: Any
) -> None:
    operator, negation = names
    parameters = parameters_of(operator)
    found, opposite = (judge(name, parameters, expected, observed) for name in (operator, negation))
    assert opposite.outcome is OPPOSITE[found.outcome]
    assert opposite.kind is found.kind


@given(values, values, values)
def test_json_equality_is_an_equivalence(a: Any, b: Any, c: Any) -> None:
    assert equal(a, a)
    assert equal(a, b) == equal(b, a)
    if equal(a, b) and equal(b, c):
        assert equal(a, c)


@given(values, values)
def test_keys_are_the_same_exactly_for_equal_values(a: Any, b: Any) -> None:
    assert (key(a) == key(b)) is equal(a, b)


def test_a_boolean_is_never_a_number_at_any_depth() -> None:
    assert not equal([{"a": 1}], [{"a": True}])
    assert not equal(0, False)
    with pytest.raises(NotJudgeable):
        equal(math.nan, math.nan)


@settings(max_examples=800)
@given(operator=st.sampled_from(sorted(OPERATORS)), expected=values, observed=values)
def test_no_operator_raises_whatever_it_is_given(operator: str, expected: Any, observed: Any) -> None:
    found = judge(operator, parameters_of(operator), expected, observed)
    assert found.reason
    assert (found.outcome is U) is (found.kind is not None)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.integers(), st.integers())
def test_order_is_total_and_ranges_agree_with_it(observed: float, low: int, high: int) -> None:
    above = judge("greater_than_or_equals", {}, low, observed).outcome
    below = judge("less_than_or_equals", {}, high, observed).outcome
    inside = judge("in_range", ranged(low, high), None, observed).outcome
    expected = U if low > high else P if above is below is P else F
    assert inside is expected
