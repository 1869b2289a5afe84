"""Slot schemas: the dialects, the corners of JSON Schema, and bounded work."""

from __future__ import annotations

import socket
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.schema_formats import FORMATS
from engine.slots import MAX_FAULTS, SchemaRefused, compile_schema, slot_faults

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"


def fits(schema: Any, value: Any) -> bool:
    return not slot_faults(schema, value)


@pytest.mark.parametrize(
    ("schema", "value", "fit"),
    [
        ({"type": "integer"}, 25.0, True),
        ({"type": "integer"}, 25.5, False),
        ({"type": "integer"}, True, False),
        ({"type": "number"}, False, False),
        ({"type": "integer"}, 10**400, True),
        ({"format": "date"}, "not-a-date", False),
        ({"format": "date"}, "2026-10-19", True),
        ({"format": "date"}, "20261019", False),
        ({"format": "date"}, 5, True),
        ({"multipleOf": 0.01}, 19.99, True),
        ({"multipleOf": 0.01}, 19.995, False),
        ({"multipleOf": 0.01}, 1e308, True),
        ({"multipleOf": 3}, 10**400 + 2, True),
        ({"multipleOf": 3}, True, True),
        ({"pattern": "^(a+)+$"}, "a" * 40 + "X", False),
        ({"pattern": "b"}, "abc", True),
        ({"enum": [1, "a"]}, True, False),
        ({"enum": [1, "a"]}, 1.0, True),
        ({"const": {"a": [0]}}, {"a": [False]}, False),
        ({"uniqueItems": True}, [1, True, "1"], True),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], False),
        (True, None, True),
        (False, None, False),
        (None, object(), True),
        ({"exclusiveMinimum": 1}, 1, False),
        ({"exclusiveMinimum": 2**53}, 2**53 + 1, True),
    ],
)
def test_p45_corners_of_json_schema(schema: Any, value: Any, fit: bool) -> None:
    assert fits(schema, value) is fit


def test_p45_no_reference_out_of_the_schema_opens_a_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        faults = slot_faults({"$ref": f"http://127.0.0.1:{port}/x.json"}, 1)
        assert faults == [("", "the slot's schema refers to a place that does not exist in it")]
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-04/schema#", "urn:mine", 4])
def test_p45_another_dialect_is_refused(dialect: Any) -> None:
    with pytest.raises(SchemaRefused):
        compile_schema({"$schema": dialect, "exclusiveMinimum": True})


def test_p45_nesting_without_end_is_a_fault_and_not_a_crash() -> None:
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    assert slot_faults({"items": {"$ref": "#"}}, deep)
    assert slot_faults({"$ref": "#"}, 1)


def test_schemas_that_ask_for_exponential_work_are_cut_off() -> None:
    nested: dict[str, Any] = {"properties": {"a": True}}
    for _ in range(40):
        nested = {"unevaluatedProperties": False, "allOf": [nested]}
    assert slot_faults(nested, {"a": 1}) == [("", "the slot's schema asks for too many steps on this value")]


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"^(a+)+$": True}, "additionalProperties": False},
        {"patternProperties": {"^(a+)+$": True}, "unevaluatedProperties": False},
        {"allOf": [{"patternProperties": {"^(a+)+$": True}}], "unevaluatedProperties": False},
        {"$schema": DRAFT_2019, "patternProperties": {"^(a+)+$": True}, "unevaluatedProperties": False},
        {"$schema": DRAFT_7, "patternProperties": {"^(a+)+$": True}, "additionalProperties": False},
        {"propertyNames": {"pattern": "^(a+)+$"}},
    ],
)
def test_p47_every_keyword_that_takes_a_pattern_is_linear(schema: Any) -> None:
    assert fits(schema, {"a" * 1000: 1})
    assert not fits(schema, {"a" * 1000 + "X": 1})


def test_p47_a_pattern_no_engine_of_ours_takes_matches_nothing() -> None:
    assert not fits({"pattern": "(?=x)"}, "x")


def test_patterns_speak_the_engines_own_syntax() -> None:
    assert fits({"pattern": r"^\p{Greek}+$"}, "λόγος")


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        ("date-time", "2026-10-19T10:00:00Z", "2026-10-19 10:00"),
        ("time", "10:00:00Z", "25:00:00Z"),
        ("duration", "P1DT2H", "1 day"),
        ("email", "a@b", "@"),
        ("idn-email", "ü@é", "ü"),
        ("hostname", "example.com", "-a.com"),
        ("idn-hostname", "exämple.com", "a..b\u3000"),
        ("ipv4", "1.2.3.4", "1.2.3"),
        ("ipv6", "::1", "1::2::3"),
        ("uri", "http://a/b", "not a uri"),
        ("uri-reference", "/b", "\\\\a"),
        ("iri", "http://é.example/ü", "ü ü"),
        ("iri-reference", "/ü", "\\ü"),
        ("uuid", "67e55044-10b1-426f-9247-bb680e5fe0c8", "67e55044"),
        ("uri-template", "http://a/{b}", "http://a/{b"),
        ("json-pointer", "/a~1b", "a"),
        ("relative-json-pointer", "1/a", "/a"),
        ("regex", "^a+$", "(?=x)"),
    ],
)
def test_formats_are_checked(format: str, good: str, bad: str) -> None:
    assert fits({"format": format}, good)
    assert slot_faults({"format": format}, bad) == [("", f"is not a valid {format}")]


def test_no_standard_format_is_unknown_here() -> None:
    standard = {
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname"),
        *("ipv4", "ipv6", "uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template"),
        *("json-pointer", "relative-json-pointer", "regex"),
    }
    assert standard <= set(FORMATS["Draft202012Validator"].checkers)
    assert standard <= set(FORMATS["Draft201909Validator"].checkers)
    assert standard - {"duration", "uuid"} <= set(FORMATS["Draft7Validator"].checkers)


@pytest.mark.parametrize("format", sorted(FORMATS["Draft202012Validator"].checkers))
def test_no_format_takes_an_endless_text(format: str) -> None:
    assert not fits({"format": format}, "a:/" * 1_000_000)


def test_faults_name_the_place_and_never_repeat_the_value() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"a/b": {"type": "array", "items": {"type": ["string", "null"], "maxLength": 3}}},
    }
    faults = slot_faults(schema, {"id": 1, "a/b": ["x", 5, "hunter2"]})
    assert sorted(faults) == [
        ("", 'lacks "name"'),
        ("/a~1b/1", "must be string or null, got number"),
        ("/a~1b/2", "breaks maxLength 3"),
    ]


def test_at_most_so_many_faults_are_reported() -> None:
    assert len(slot_faults({"items": {"type": "string"}}, [1] * 1000)) == MAX_FAULTS


def test_a_schema_is_compiled_once_however_it_is_written() -> None:
    assert compile_schema({"type": "integer", "minimum": 1}) is compile_schema(
        {"minimum": 1.0, "type": "integer"}
    )


def test_a_large_array_of_distinct_objects_is_compared_in_linear_time() -> None:
    assert fits({"uniqueItems": True}, [{"a": n} for n in range(50_000)])


@pytest.mark.parametrize(
    ("schema", "value", "fit"),
    [
        ({"properties": {"a": True}, "unevaluatedProperties": False}, {"a": 1}, True),
        ({"properties": {"a": True}, "unevaluatedProperties": False}, {"b": 1}, False),
        (
            {"anyOf": [{"properties": {"a": {"type": "string"}}}, True], "unevaluatedProperties": False},
            {"a": 1},
            False,
        ),
        (
            {"anyOf": [{"properties": {"a": {"type": "string"}}}], "unevaluatedProperties": False},
            {"a": "x"},
            True,
        ),
        (
            {
                "$ref": "#/$defs/x",
                "$defs": {"x": {"properties": {"a": True}}},
                "unevaluatedProperties": False,
            },
            {"a": 1},
            True,
        ),
        (
            {"if": {"required": ["a"]}, "then": {"properties": {"a": True}}, "unevaluatedProperties": False},
            {"a": 1},
            True,
        ),
        (
            {"if": {"required": ["a"]}, "else": {"properties": {"b": True}}, "unevaluatedProperties": False},
            {"b": 1},
            True,
        ),
        (
            {
                "dependentSchemas": {"a": {"properties": {"a": True, "b": True}}},
                "unevaluatedProperties": False,
            },
            {"a": 1, "b": 1},
            True,
        ),
        ({"allOf": [{"unevaluatedProperties": True}], "unevaluatedProperties": False}, {"a": 1}, True),
        ({"unevaluatedProperties": {"type": "string"}}, {"a": 1}, False),
        ({"not": {"properties": {"a": {"type": "string"}}}, "unevaluatedProperties": False}, {"a": 1}, False),
        ({"prefixItems": [True], "unevaluatedItems": False}, [1], True),
        ({"prefixItems": [True], "unevaluatedItems": False}, [1, 2], False),
        ({"contains": {"type": "string"}, "unevaluatedItems": False}, ["a", "b"], True),
        ({"contains": {"type": "string"}, "unevaluatedItems": False}, ["a", 1], False),
        ({"allOf": [{"items": True}], "unevaluatedItems": False}, [1, 2], True),
        ({"$schema": DRAFT_2019, "items": [True], "unevaluatedItems": False}, [1], True),
        ({"$schema": DRAFT_2019, "items": [True], "unevaluatedItems": False}, [1, 2], False),
        (
            {"$schema": DRAFT_2019, "items": [True], "additionalItems": True, "unevaluatedItems": False},
            [1, 2],
            True,
        ),
        ({"$schema": DRAFT_2019, "contains": True, "unevaluatedItems": False}, [1], False),
        (
            {
                "$schema": DRAFT_2019,
                "properties": {"a": {"$recursiveRef": "#"}},
                "unevaluatedProperties": False,
            },
            {"a": {"b": 1}},
            False,
        ),
    ],
)
def test_unevaluated_members_and_items(schema: Any, value: Any, fit: bool) -> None:
    assert fits(schema, value) is fit


names = st.sampled_from(["a", "b", "ab"])
leaves = st.sampled_from(
    [
        True,
        {"type": "string"},
        {"type": "object"},
        {"type": "array"},
        {"required": ["a"]},
        {"minLength": 1},
        {"const": 1},
        {"enum": [1, "a", None]},
        {"$ref": "#/$defs/x"},
    ]
)


def _combine(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(names, inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
            "additionalProperties": inner | st.just(False),
            "unevaluatedProperties": inner | st.just(False),
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "items": inner | st.just(False),
            "unevaluatedItems": inner | st.just(False),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentSchemas": st.dictionaries(names, inner, max_size=2),
            "uniqueItems": st.booleans(),
        },
    )


schemas = st.recursive(leaves, _combine, max_leaves=8).filter(lambda schema: isinstance(schema, dict))
values = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, "", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(schemas, values)
def test_ours_agrees_with_the_library_where_the_library_is_safe(schema: dict[str, Any], value: Any) -> None:
    whole = {**schema, "$defs": {"x": {"properties": {"a": True}}}}
    assert fits(whole, value) is jsonschema.Draft202012Validator(whole).is_valid(value)
