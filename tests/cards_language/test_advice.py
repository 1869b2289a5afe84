"""Warnings: what is accepted and will not do what its author means (P10, P12, P37, P45, P47)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cards_language.tree import assertion, checked, verifier
from wyrd.cards.rules.advice import LOOKALIKES


def rules(folder: Path, text: str) -> list[str | None]:
    report = checked(folder, text)
    assert report.ok, [one.message for one in report.errors]
    return [one.rule for one in report.warnings]


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
def test_p10_a_number_that_is_not_finite_is_refused_as_a_parameter(tmp_path: Path, number: str) -> None:
    report = checked(
        tmp_path, assertion(f"operator: {{kind: approximately_equals, tolerance: {number}}}, expected: 1")
    )
    assert [one.field for one in report.errors] == ["requirements[0].check"]


@pytest.mark.parametrize("number", [".nan", ".inf"])
def test_p10_expected_that_is_not_finite_is_read_as_null_with_a_warning(tmp_path: Path, number: str) -> None:
    report = checked(tmp_path, assertion(f"operator: equals, expected: {number}"))
    assert report.ok
    found = next(one for one in report.warnings if one.rule == "not_finite")
    assert found.field == "requirements[0].check.expected"
    assert found.line == 7


def test_p10_a_pass_rate_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    report = checked(tmp_path, verifier("decide: {pass_rate: {threshold: .nan}}\n"))
    assert [one.field for one in report.errors] == ["decide.pass_rate.threshold"]


@pytest.mark.parametrize(
    ("operator", "empty"),
    [
        ("contains", "''"),
        ("contains_ignore_case", "''"),
        ("starts_with", "''"),
        ("ends_with", "''"),
        ("all_of", "[]"),
        ("none_of", "[]"),
        ("not_in", "[]"),
        ("is_superset", "[]"),
        ("is_disjoint", "[]"),
    ],
)
def test_p12_an_empty_expected_that_can_never_fail_is_warned_of(
    tmp_path: Path, operator: str, empty: str
) -> None:
    report = checked(tmp_path, assertion(f"operator: {operator}, expected: {empty}"))
    assert report.ok
    assert any("can never fail" in one.message for one in report.warnings)


def test_p12_an_expected_that_can_fail_is_not_warned_of(tmp_path: Path) -> None:
    assert rules(tmp_path, assertion("operator: all_of, expected: [a]")) == []


def test_p12_no_requirements_is_warned_of(tmp_path: Path) -> None:
    assert rules(tmp_path, verifier("requirements: []\n")) == ["no_requirements"]


@pytest.mark.parametrize("how", ["", ", expected: null"])
def test_an_operand_that_may_not_be_null_is_warned_of(tmp_path: Path, how: str) -> None:
    assert rules(tmp_path, assertion(f"operator: greater_than{how}")) == ["expected"]
    assert rules(tmp_path, assertion(f"operator: equals{how}")) == []


def test_p37_not_contains_over_untreated_text_shows_the_five_strings(tmp_path: Path) -> None:
    report = checked(tmp_path, assertion("operator: not_contains, expected: guaranteed refund"))
    found = next(one for one in report.warnings if one.rule == "untreated_text")
    assert all(ascii(text) in found.message for text in LOOKALIKES)
    assert all("guaranteed refund" not in text for text in LOOKALIKES)


def test_p37_not_contains_over_a_code_step_is_not_warned_of(tmp_path: Path) -> None:
    spec = (
        "inputs: {v: {type: json}}\n"
        "steps: [{id: norm, action: {kind: code, entrypoint: f, source: {inline: x}, "
        "inputs: {v: inputs.v}}}]\n"
        "requirements: [{id: r, statement: s, check: {kind: assert, path: steps.norm.output, "
        "operator: not_contains, expected: x}}]\n"
    )
    assert rules(tmp_path, verifier(spec)) == []


def test_a_span_selector_that_does_not_parse_is_warned_of(tmp_path: Path) -> None:
    spec = (
        "inputs: {t: {type: trace}}\n"
        "requirements: [{{id: r, statement: s, check: {{kind: trace, on: inputs.t, "
        "span_selector: '{}', operator: is_not_null}}}}]\n"
    )
    head, _, tail = spec.partition("requirements")
    bad = head + "requirements" + tail.format("$.spans[?(@.name == ")
    report = checked(tmp_path, verifier(bad))
    assert not report.ok
    assert rules(tmp_path, verifier(head + "requirements" + tail.format("$.spans[x]"))) == ["span_selector"]
    assert rules(tmp_path, verifier(head + "requirements" + tail.format("$.spans[*].name"))) == []


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ("{$ref: 'http://127.0.0.1:9/x.json'}", "$ref"),
        ("{$schema: 'http://json-schema.org/draft-04/schema#', exclusiveMinimum: true}", "$schema"),
        ("{pattern: '(?=x)'}", "pattern"),
        ("{properties: {a: {pattern: '(a)\\1'}}}", "properties.a.pattern"),
        ("{type: money}", "type"),
        ("{patternProperties: {'(?!x)': {}}}", "patternProperties.(?!x)"),
    ],
)
def test_p45_a_schema_that_registration_refuses_is_warned_of(tmp_path: Path, schema: str, place: str) -> None:
    report = checked(tmp_path, assertion("operator: is_null", schema=schema))
    assert report.ok
    found = [one.field for one in report.warnings if str(one.code) == "WYRD_REGISTRY_400_INVALID_CARD_SPEC"]
    assert found == [f"inputs.v.schema.{place}"]


@pytest.mark.parametrize(
    "schema",
    [
        "{type: integer}",
        "{format: date}",
        "{multipleOf: 0.01}",
        "{pattern: '^(a+)+$'}",
        "{$ref: '#/$defs/a', $defs: {a: {type: string}}}",
        "{$schema: 'http://json-schema.org/draft-07/schema#', exclusiveMinimum: 1}",
        "{const: {$ref: 'http://example.org'}, examples: [{pattern: '(?=x)'}]}",
        "{properties: {pattern: {type: string}, $ref: {type: string}}}",
    ],
)
def test_p45_a_schema_that_is_fine_is_not_warned_of(tmp_path: Path, schema: str) -> None:
    assert rules(tmp_path, assertion("operator: is_null", schema=schema)) == []


@pytest.mark.parametrize("pattern", ["(?=x)", "(?<!x)y", r"(a)\1", "a{1000}{1000}", "(", "*", "x" * 4097])
def test_p47_a_pattern_that_is_not_linear_or_too_large_is_refused_with_its_place(
    tmp_path: Path, pattern: str
) -> None:
    body = f"operator: {{kind: matches_regex, pattern: '{pattern}'}}"
    report = checked(tmp_path, assertion(body))
    assert [(one.rule, one.field, one.line) for one in report.errors] == [
        ("operator", "requirements[0].check", 7)
    ]


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|a)*$", "(.*a){20}", r"\p{Greek}", "x" * 4096])
def test_p47_a_pattern_that_is_slow_elsewhere_is_accepted(tmp_path: Path, pattern: str) -> None:
    assert checked(tmp_path, assertion(f"operator: {{kind: matches_regex, pattern: '{pattern}'}}")).ok
