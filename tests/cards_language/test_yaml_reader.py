"""YAML 1.2 core, positions, limits: P48 and P50, and any bytes at all."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cards_language.tree import assertion, checked, verifier
from wyrd.cards import check
from wyrd.cards.yaml_reader import MAX_ALIASED, YamlRefused, read_documents


def value(text: str) -> Any:
    return read_documents(text.encode())[0].value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("y", "y"),
        ("12:30", "12:30"),
        ("0123", "0123"),
        ("2026-10-19", "2026-10-19"),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("0o10", 8),
        ("0x10", 16),
        ("1.10", 1.1),
        ("-7", -7),
        ("true", True),
        ("~", None),
        ("null", None),
        ("", None),
        ("'null'", "null"),
        (".nan", None),
        ("-.inf", None),
        ("!!str 1", "1"),
        ("!!int '1'", 1),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_p48_scalars_follow_the_yaml_1_2_core_schema(text: str, wanted: Any) -> None:
    found = value(f"a: {text}")["a"]
    assert found == wanted
    assert type(found) is type(wanted)


def test_p48_on_is_a_text_key() -> None:
    assert value("on: 1") == {"on": 1}


@pytest.mark.parametrize("key", ["1", "true", "null", "~", "[a]", "{a: 1}", "1.5"])
def test_p48_keys_that_are_not_text_are_refused(key: str) -> None:
    with pytest.raises(YamlRefused, match="key must be text"):
        value(f"? {key}\n: 1")


def test_p48_a_version_written_as_a_number_is_refused_with_quote_it(tmp_path: Path) -> None:
    text = assertion("operator: is_null").replace("version: 1.0.0", "version: 1.10")
    report = checked(tmp_path, text)
    assert not report.ok
    fault = report.errors[0]
    assert "quote it" in fault.message
    assert fault.field == "metadata.version"
    assert fault.line == 3


def test_p48_words_of_yaml_1_1_are_names_and_operands(tmp_path: Path) -> None:
    report = checked(tmp_path, assertion("operator: equals, expected: no"))
    assert report.ok


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2",
        "a: {b: inputs.x[0]}",
        "a:\n  - b\n c: d",
        "a:\n\tb: c",
        'a: "\\q"',
        "a: *nothing",
        "a: &a [*a]",
        "a: !foo b",
        "a: 1\na: 2",
        "a: 18446744073709551616",
        "a: " + "9" * 5000,
        "a: 1e999",
        "%YAML 9.9\n---\na: 1",
        "a: \x00",
        "a: !!int b",
        "- " * 200,
        "[" * 10_000,
        "{a: " * 10_000,
        "---\n" * 2_000,
        "".join(f"---\na: &a [{'1, ' * 999}1]\nb: [{'*a, ' * 30}*a]\n" for _ in range(3)),
    ],
)
def test_p50_every_yaml_fault_is_answered_with_line_and_column(text: str) -> None:
    with pytest.raises(YamlRefused) as refused:
        value(text)
    assert refused.value.faults
    assert all(fault.line >= 1 and fault.column >= 1 for fault in refused.value.faults)


def test_p50_an_alias_bomb_is_refused_before_it_is_walked() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(YamlRefused, match="beyond the limit"):
        value("\n".join(lines))


def test_p50_ordinary_aliases_are_expanded() -> None:
    assert value("a: &x {b: [1]}\nc: *x") == {"a": {"b": [1]}, "c": {"b": [1]}}


def test_p50_aliases_may_stand_for_no_more_than_the_budget() -> None:
    few = "x: &x [" + "1, " * 999 + "1]\ny: [" + ", ".join(["*x"] * (MAX_ALIASED // 1001)) + "]"
    assert len(value(few)["y"]) == MAX_ALIASED // 1001
    many = "x: &x [" + "1, " * 999 + "1]\ny: [" + ", ".join(["*x"] * (MAX_ALIASED // 1001 + 1)) + "]"
    with pytest.raises(YamlRefused):
        value(many)


def test_p50_deep_nesting_through_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 200)]
    with pytest.raises(YamlRefused, match="deeper"):
        value("\n".join(lines))


def test_p50_a_merge_key_is_an_ordinary_key(tmp_path: Path) -> None:
    assert value("b: &b {x: 1}\na: {<<: *b}") == {"b": {"x": 1}, "a": {"<<": {"x": 1}}}
    report = checked(tmp_path, verifier("inputs: &i {v: {type: json}}\n<<: *i\n"))
    assert [(one.field, one.context and one.context.get("member")) for one in report.errors] == [("<<", "<<")]


def test_a_repeated_key_names_its_mapping_and_the_place_of_the_second() -> None:
    with pytest.raises(YamlRefused) as refused:
        value("a:\n  - b: 1\n    b: 2\n")
    fault = refused.value.faults[0]
    assert (fault.path, fault.line, fault.column) == (("a", 0), 3, 5)


def test_every_value_fault_of_a_file_is_told() -> None:
    with pytest.raises(YamlRefused) as refused:
        value("a: 1\na: 2\nb: !foo x\n1: 2\n")
    assert [fault.line for fault in refused.value.faults] == [2, 3, 4]


@pytest.mark.parametrize("data", [b"\xff\xfea\x00:\x00", "a: é".encode("latin-1"), "a: b".encode("utf-16")])
def test_text_that_is_not_utf_8_is_refused(data: bytes) -> None:
    with pytest.raises(YamlRefused, match="not UTF-8"):
        read_documents(data)


def test_a_position_is_that_of_the_member() -> None:
    document = read_documents(b"a:\n  b:\n    - c: 1\n    - d: 2\n")[0]
    assert document.locate(("a", "b", 1, "d")) == (4, 7)
    assert document.locate(("a", "nothing", "x")) == (1, 1)


def read_or_refusal(data: bytes) -> list[Any]:
    """The documents, or the faults: one of them is never empty."""
    try:
        return list(read_documents(data))
    except YamlRefused as refused:
        return list(refused.faults)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert read_or_refusal(data)


_TOKENS = [
    "a",
    "b",
    ":",
    " ",
    "\n",
    "  ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&x ",
    "*x",
    "!file ",
    "|",
    "'",
    '"',
    "? ",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_TOKENS), max_size=60))
def test_any_yaml_like_text_is_read_or_refused(parts: list[str]) -> None:
    assert read_or_refusal("".join(parts).encode())


_LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["inputs.a", "steps.s.output", "json", "media", "pdf", "x", "", "./other.yaml"]),
)
_WORDS = """inputs steps requirements decide id statement check kind type schema formats path each operator
expected on agent action from when source inline entrypoint prompt execution_route verifier verified_by
runs_on on_failure components alias ref tables name version sibling signal profile method condition
features provider model messages role content channel"""
_NAMES = st.sampled_from(_WORDS.split())
_TREES = st.recursive(
    _LEAF,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=5)),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["Verifier", "Agent", "Service", "Prompt", "Operator", "Trigger", "Source", "Data"]),
    _TREES,
)
def test_any_spec_is_accepted_or_refused_with_a_place(kind: str, spec: Any) -> None:
    card = {
        "apiVersion": "wyrd/v1",
        "kind": kind,
        "metadata": {"name": "some-card", "version": "1.0.0"},
        "spec": spec,
    }
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "card.json")
        target.write_text(json.dumps(card), encoding="utf-8")
        report = check(target)
    assert report.ok or all(one.message for one in report.errors)
    assert report.to_document()["ok"] is report.ok
