"""Assertions: reading through references, `each`, `when`, and what is kept of what was read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.assertion import holds, judge_assert, judge_each, judge_path
from engine.capture import ACTUAL_LIMIT, Capture, capture
from engine.failure import BlockFailure, ReasonKind
from engine.finding import CheckFinding
from engine.outcomes import Outcome
from engine.references import select, spread
from wyrd.cards.checks import AssertCheck
from wyrd.cards.comparison import Operator
from wyrd.cards.references import WILDCARD, Reference
from wyrd.wire.canonical import digest


def evidence(**slots: Any) -> Callable[[Reference], Any]:
    def read(reference: Reference) -> Any:
        if reference.name not in slots:
            raise BlockFailure(ReasonKind.MISSING_EVIDENCE, f"inputs.{reference.name} was not supplied")
        return slots[reference.name]

    return read


def path(
    text: str, operator: Any, expected: Any = None, mode: Capture = Capture.FULL, **slots: Any
) -> CheckFinding:
    return judge_path(Reference.parse(text), Operator.of(operator), expected, evidence(**slots), mode)


def each(
    text: str, operator: Any, expected: Any = None, mode: Capture = Capture.FULL, **slots: Any
) -> CheckFinding:
    return judge_each(Reference.parse(text), Operator.of(operator), expected, evidence(**slots), mode)


def test_a_path_is_followed_to_its_value() -> None:
    found = path("inputs.order.lines[1].price", "greater_than", 5, order={"lines": [{}, {"price": 7}]})
    assert found.outcome is Outcome.PASSED
    assert found.reason == "7 is greater than 5"
    assert (found.actual, found.actual_present) == (7, True)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("inputs.order.total", "inputs.order.total"),
        ("inputs.order.lines[2]", "inputs.order.lines[2]"),
        ("inputs.order.lines[0].price.cents", "inputs.order.lines[0].price.cents"),
        ("inputs.order.lines.first", "inputs.order.lines.first"),
        ("inputs.order.lines.0", "inputs.order.lines.0"),
        ("inputs.order[0]", "inputs.order[0]"),
        ("inputs.order.name[0]", "inputs.order.name[0]"),
        ("inputs.order.none.child", "inputs.order.none.child"),
        ("inputs.order.lines[18446744073709551615]", "inputs.order.lines[18446744073709551615]"),
        ("inputs.nothing", "inputs.nothing"),
    ],
)
def test_a_place_that_does_not_exist_is_missing_evidence_and_named(text: str, named: str) -> None:
    order = {"lines": [{"price": 1}], "name": "Ada", "none": None}
    for operator in ("is_null", "is_not_null", "not_equals"):
        found = path(text, operator, order=order)
        assert (found.outcome, found.kind) == (Outcome.INCONCLUSIVE, ReasonKind.MISSING_EVIDENCE)
        assert named in found.reason
        assert not found.actual_present


def test_an_omitted_optional_slot_reads_null() -> None:
    found = path("inputs.note", "is_null", note=None)
    assert found.outcome is Outcome.PASSED
    assert (found.actual, found.actual_present) == (None, True)


def test_what_a_skipped_step_owes_is_not_applicable_and_what_a_failed_one_owes_inconclusive() -> None:
    def skipped(reference: Reference) -> Any:
        raise BlockFailure(ReasonKind.STEP_SKIPPED, "step a was skipped")

    def failed(reference: Reference) -> Any:
        raise BlockFailure(ReasonKind.STEP_FAILED, "step a failed")

    reference, operator = Reference.parse("steps.a.output.x"), Operator.of("is_null")
    for judge in (judge_path, judge_each):
        assert judge(reference, operator, None, skipped).outcome is Outcome.NOT_APPLICABLE
        assert judge(reference, operator, None, failed).outcome is Outcome.INCONCLUSIVE


def test_p13_null_empty_and_absent_items_give_three_different_results() -> None:
    null = each("inputs.rows[*].email", "is_not_null", rows=[{"email": None}, {"email": None}])
    assert null.outcome is Outcome.FAILED
    assert "2 of 2 items" in null.reason
    assert "inputs.rows[0].email, inputs.rows[1].email" in null.reason

    empty = each("inputs.rows[*].email", "is_not_null", rows=[{"email": ""}])
    assert empty.outcome is Outcome.PASSED
    assert each("inputs.rows[*].email", "is_non_empty", rows=[{"email": ""}]).outcome is Outcome.FAILED

    absent = each("inputs.rows[*].email", "is_not_null", rows=[{}])
    assert (absent.outcome, absent.kind) == (Outcome.INCONCLUSIVE, ReasonKind.MISSING_EVIDENCE)
    assert "inputs.rows[0].email" in absent.reason


@pytest.mark.parametrize("text", ["inputs.items[*]", "inputs.items", "inputs.items[*].name"])
def test_p12_no_items_are_not_applicable_and_never_a_pass(text: str) -> None:
    found = each(text, "is_string", items=[])
    assert (found.outcome, found.kind) == (Outcome.NOT_APPLICABLE, ReasonKind.NOTHING_TO_JUDGE)
    assert found.reason.startswith("nothing to judge")


def test_nested_wildcards_with_only_empty_arrays_have_no_items() -> None:
    orders: list[dict[str, list[Any]]] = [{"lines": []}, {"lines": []}]
    assert (
        each("inputs.orders[*].lines[*].price", "is_number", orders=orders).outcome is Outcome.NOT_APPLICABLE
    )


def test_one_failing_item_outweighs_inconclusive_ones_and_three_paths_are_named() -> None:
    found = each("inputs.n[*]", "greater_than", 10, n=[1, 2, "x", 3, 4, 50])
    assert found.outcome is Outcome.FAILED
    assert found.kind is None
    assert found.reason.startswith("4 of 6 items failed, at inputs.n[0], inputs.n[1], inputs.n[3], …")
    assert found.detail == {"items": 6, "passed": 1, "failed": 4, "inconclusive": 1}


def test_one_inconclusive_item_keeps_the_requirement_inconclusive() -> None:
    found = each("inputs.n[*]", "greater_than", 0, n=[1, "x", 3])
    assert (found.outcome, found.kind) == (Outcome.INCONCLUSIVE, ReasonKind.TYPE_MISMATCH)
    assert "1 of 3 items" in found.reason
    assert "inputs.n[1]" in found.reason


def test_items_are_what_the_last_wildcard_ranges_over() -> None:
    orders = [{"lines": [{"p": 1}, {"p": 2}]}, {"lines": [{"p": 3}]}]
    found = each("inputs.orders[*].lines[*].p", "greater_than", 0, orders=orders)
    assert found.reason == "3 of 3 items passed"
    assert found.actual == [1, 2, 3]


@pytest.mark.parametrize("broken", [{}, {"lines": None}, {"lines": {"p": 1}}, 5])
def test_an_array_missing_before_a_wildcard_is_one_inconclusive_item(broken: Any) -> None:
    found = each("inputs.orders[*].lines[*].p", "greater_than", 0, orders=[{"lines": [{"p": 1}] * 3}, broken])
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.detail == {"items": 4, "passed": 3, "failed": 0, "inconclusive": 1}
    assert "inputs.orders[1].lines" in found.reason


@pytest.mark.parametrize("value", [None, {"a": 1}, "abc", 5])
@pytest.mark.parametrize("text", ["inputs.x", "inputs.x[*]"])
def test_each_over_something_that_is_no_array_is_inconclusive(text: str, value: Any) -> None:
    found = each(text, "is_null", x=value)
    assert (found.outcome, found.kind) == (Outcome.INCONCLUSIVE, ReasonKind.TYPE_MISMATCH)


def test_an_assert_check_takes_its_path_or_its_each() -> None:
    check = {"kind": "assert", "operator": "equals", "expected": 1}
    read = evidence(x=[1, 1])
    over = AssertCheck.model_validate({**check, "each": "inputs.x"})
    at = AssertCheck.model_validate({**check, "path": "inputs.x"})
    assert judge_assert(over, read).outcome is Outcome.PASSED
    assert judge_assert(at, read).outcome is Outcome.FAILED


def test_a_when_holds_or_not_or_fails_its_step_with_the_reason() -> None:
    reference, operator = Reference.parse("inputs.n"), Operator.of("greater_than")
    assert holds(reference, operator, 1, evidence(n=2)) is True
    assert holds(reference, operator, 1, evidence(n=1)) is False
    for read, kind in (
        (evidence(), ReasonKind.MISSING_EVIDENCE),
        (evidence(n="x"), ReasonKind.TYPE_MISMATCH),
    ):
        with pytest.raises(BlockFailure) as raised:
            holds(reference, operator, 1, read)
        assert raised.value.kind is kind


@pytest.mark.parametrize(
    "value",
    ["x" * 100_000, "\x00" * 5000, '"' * 5000, ["é" * 10] * 5000, {"a" * 5000: 1}, "😀" * 2000, 10**4200],
)
def test_actual_is_cut_to_four_kibibytes_with_a_marker(value: Any) -> None:
    kept = capture(value, Capture.FULL)
    assert len(json.dumps(kept.value, ensure_ascii=False, separators=(",", ":")).encode()) <= ACTUAL_LIMIT
    assert kept.value["cut"]["size_bytes"] > ACTUAL_LIMIT
    assert json.dumps(value, ensure_ascii=False, separators=(",", ":")).startswith(kept.value["cut"]["start"])
    assert len(kept.value["cut"]["start"]) > 100


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_a_small_value_is_kept_as_it_is(value: Any) -> None:
    if len(json.dumps(value)) <= ACTUAL_LIMIT:
        assert capture(value, Capture.FULL) == (value, True)


def test_hash_keeps_a_digest_redact_keeps_nothing_and_neither_changes_the_outcome() -> None:
    full, hashed, redacted = (
        path("inputs.s", "equals", "public", mode, s="hunter2")
        for mode in (Capture.FULL, Capture.HASH, Capture.REDACT)
    )
    assert full.outcome is hashed.outcome is redacted.outcome is Outcome.FAILED
    assert "hunter2" in full.reason
    assert full.actual == "hunter2"
    assert hashed.actual == {"sha256": digest("hunter2")}
    assert not redacted.actual_present
    for found in (hashed, redacted):
        assert "hunter2" not in repr(found)


def test_items_are_captured_like_values() -> None:
    found = each("inputs.s[*]", "equals", "public", Capture.REDACT, s=["hunter2"])
    assert "hunter2" not in repr(found)


keys = st.text("abc", min_size=1, max_size=2)
documents = st.recursive(
    st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
)


@given(documents, st.lists(keys | st.integers(0, 3) | st.just(WILDCARD), max_size=5))
def test_the_items_of_each_are_the_places_that_exist(document: Any, selectors: list[Any]) -> None:
    for item in spread(document, selectors, "inputs.x"):
        if item.failure is None:
            reference = Reference.parse(item.path)
            assert select(document, reference.selectors, "inputs.x") is item.value
        else:
            assert item.failure.kind in {ReasonKind.MISSING_EVIDENCE, ReasonKind.TYPE_MISMATCH}
