"""Trace checks: what a JSONPath selects, and the bounds on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.capture import Capture
from engine.failure import BlockFailure, ReasonKind
from engine.finding import CheckFinding
from engine.outcomes import Outcome
from engine.traces import judge_trace, select_spans
from wyrd.cards.checks import TraceCheck
from wyrd.cards.references import Reference


def span(name: str, **attributes: Any) -> dict[str, Any]:
    return {
        "trace_id": "5b8efff798038103d269b633813fc60c",
        "span_id": "eee19b7ec3c1b174",
        "parent_span_id": None,
        "name": name,
        "kind": "internal",
        "start_time": "2026-10-19T10:00:00.000000001Z",
        "end_time": "2026-10-19T10:00:00.250000001Z",
        "duration_ms": 250,
        "status": "ok",
        "attributes": attributes,
        "events": [],
        "links": [],
    }


TRACE = {
    "trace_id": "5b8efff798038103d269b633813fc60c",
    "spans": [span("chat", tokens=90), span("tool.refund", amount=25), span("tool.lookup", amount=5)],
}


def reads(document: Any) -> Callable[[Reference], Any]:
    return lambda reference: document


def judge(selector: str, operator: Any, expected: Any = None, document: Any = TRACE) -> CheckFinding:
    check = TraceCheck.model_validate(
        {
            "kind": "trace",
            "on": "inputs.trace",
            "span_selector": selector,
            "operator": operator,
            "expected": expected,
        }
    )
    return judge_trace(check, reads(document), Capture.FULL)


def test_one_match_is_the_value() -> None:
    found = judge("$.spans[?@.name == 'chat'].attributes.tokens", "less_than", 100)
    assert (found.outcome, found.actual) == (Outcome.PASSED, 90)


def test_several_matches_are_an_array() -> None:
    found = judge("$.spans[?search(@.name, '^tool')].attributes.amount", "equals", [25, 5])
    assert (found.outcome, found.actual) == (Outcome.PASSED, [25, 5])


@pytest.mark.parametrize("operator", ["is_null", "is_empty", "not_equals", "is_not_null"])
def test_no_match_is_missing_evidence_whatever_the_operator(operator: str) -> None:
    found = judge("$.spans[?@.name == 'nothing']", operator)
    assert (found.outcome, found.kind) == (Outcome.INCONCLUSIVE, ReasonKind.MISSING_EVIDENCE)


@pytest.mark.parametrize(
    "selector", ["$.spans[?]", "$.spans[?nope(@.a)]", "$spans", "$.", "$[?((((1==1))]", "$[?length(@.*)>1]"]
)
def test_a_selector_that_does_not_parse_is_inconclusive(selector: str) -> None:
    with pytest.raises(BlockFailure) as raised:
        select_spans(selector, TRACE)
    assert raised.value.kind is ReasonKind.OPERAND_INVALID


def test_no_trace_is_missing_evidence() -> None:
    def nothing(reference: Reference) -> Any:
        raise BlockFailure(ReasonKind.MISSING_EVIDENCE, "no span of that trace was recorded")

    check = TraceCheck.model_validate(
        {"kind": "trace", "on": "inputs.trace", "span_selector": "$", "operator": "is_null"}
    )
    assert judge_trace(check, nothing).kind is ReasonKind.MISSING_EVIDENCE


def test_a_selector_that_visits_too_much_is_cut_off() -> None:
    spans: dict[str, Any] = {"spans": [span(f"s{n}", n=n) for n in range(1000)]}
    deep: Any = []
    for _ in range(90):
        deep = [deep]
    for selector, document in [
        ("$.spans[?$..zz]", spans),
        ("$..[?$..[?$..zz]]", spans),
        ("$..*..*..*..*..*", deep),
    ]:
        with pytest.raises(BlockFailure) as raised:
            select_spans(selector, document)
        assert raised.value.kind is ReasonKind.LIMIT_EXCEEDED


def test_p47_patterns_in_selectors_run_on_the_linear_engine() -> None:
    document = {"spans": [{"name": "a" * 10_000 + "X"}]}
    for pattern, matches in [("(a+)+$", False), ("(a|a)*X", True)]:
        selector = f"$.spans[?search(@.name, '{pattern}')].name"
        if matches:
            assert len(select_spans(selector, document)) == 1
        else:
            with pytest.raises(BlockFailure):
                select_spans(selector, document)


@pytest.mark.parametrize(
    ("function", "pattern", "text", "matches"),
    [
        ("match", "a.b", "axb", True),
        ("match", "a.b", "xaxb", False),
        ("match", "a.b", "a\rb", False),
        ("match", "a.b", "a\nb", False),
        ("match", "a|ab", "ab", True),
        ("search", "a.b", "xaxbx", True),
        ("search", "[.]", "ab", False),
        ("search", "[a&&b]", "&", True),
        ("search", r"\\p{Lu}", "aBc", True),
        ("search", r"(a)\\1", "aa", False),
        ("match", "", "", True),
    ],
)
def test_match_and_search_follow_i_regexp(function: str, pattern: str, text: str, matches: bool) -> None:
    document = [{"t": text}, {"t": 5}]
    selector = f"$[?{function}(@.t, '{pattern}')]"
    if matches:
        assert select_spans(selector, document) == [{"t": text}]
    else:
        with pytest.raises(BlockFailure) as raised:
            select_spans(selector, document)
        assert raised.value.kind is ReasonKind.MISSING_EVIDENCE
