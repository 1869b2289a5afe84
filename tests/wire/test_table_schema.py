"""Columns of a table from a JSON Schema, and which columns a table cannot have."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from wyrd.errors import WyrdError
from wyrd.wire.bifrost import DataType, FieldSpec, NestedType
from wyrd.wire.table_schema import (
    MAX_COLUMNS,
    MAX_NESTING,
    RESERVED_COLUMNS,
    TIMESTAMP_UTC,
    canonical_fields,
    checked_fields,
    fields_of_json_schema,
)


def column(schema: Any, *, required: bool = True, **more: Any) -> FieldSpec:
    document = {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else [], **more}
    (field,) = fields_of_json_schema(document)
    return field


def listed(data_type: DataType, nullable: bool = False) -> NestedType:
    return NestedType(List=FieldSpec(name="item", data_type=data_type, nullable=nullable))


def spec(data_type: Any, name: str = "x", **more: Any) -> FieldSpec:
    return FieldSpec.model_validate({"name": name, "data_type": data_type, **more})


@pytest.mark.parametrize(
    ("schema", "data_type"),
    [
        ({"type": "string"}, "Utf8"),
        ({"type": "string", "format": "uuid"}, "Utf8"),
        ({"type": "string", "format": "date-time"}, TIMESTAMP_UTC),
        ({"type": "string", "format": "date"}, "Date32"),
        ({"type": "integer"}, "Int64"),
        ({"type": "number"}, "Float64"),
        ({"type": "boolean"}, "Bool"),
        ({"enum": ["a", "b"]}, "Utf8"),
        ({"const": 3}, "Int64"),
        ({"type": "array", "items": {"type": "string"}}, listed("Utf8")),
        ({"type": "array", "items": {"type": ["integer", "null"]}}, listed("Int64", nullable=True)),
        ({"type": "object"}, "Variant"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
            "Variant",
        ),
        ({"type": "array"}, "Variant"),
        ({"type": "array", "items": {}}, "Variant"),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, "Variant"),
        ({"type": ["string", "integer"]}, "Variant"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "Variant"),
        ({"enum": ["a", 1]}, "Variant"),
        ({"allOf": [{"type": "string"}]}, "Utf8"),
    ],
)
def test_a_required_property_becomes_a_column_that_is_not_null(schema: Any, data_type: DataType) -> None:
    assert column(schema) == FieldSpec(name="x", data_type=data_type, nullable=False)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "null"}, {"type": "string"}]},
        {"enum": ["a", None]},
    ],
)
def test_a_type_that_takes_null_is_nullable_even_when_it_is_required(schema: Any) -> None:
    assert column(schema) == FieldSpec(name="x", data_type="Utf8", nullable=True)


def test_what_is_not_required_is_nullable_and_so_is_what_takes_anything() -> None:
    assert column({"type": "integer"}, required=False).nullable
    assert column({}) == FieldSpec(name="x", data_type="Variant", nullable=True)
    assert column(True) == FieldSpec(name="x", data_type="Variant", nullable=True)


def test_an_object_with_properties_becomes_a_struct_of_its_members() -> None:
    found = column(
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}
    ).data_type
    assert found == NestedType(
        Struct=[
            FieldSpec(name="a", data_type="Int64"),
            FieldSpec(name="b", data_type="Variant", nullable=True),
        ]
    )


class Customer(BaseModel):
    name: str
    tags: list[str] = []


class Ticket(BaseModel):
    ticket_id: str
    customer: Customer
    previous: Customer | None
    opened: datetime
    due: date | None = None
    price: Decimal
    level: Literal["low", "high"]
    extra: dict[str, Any]
    others: list[Customer]


def test_a_pydantic_models_schema_is_read_with_its_references() -> None:
    found = {field.name: field for field in fields_of_json_schema(Ticket.model_json_schema())}
    customer = NestedType(
        Struct=[
            FieldSpec(name="name", data_type="Utf8"),
            FieldSpec(name="tags", data_type=listed("Utf8"), nullable=True),
        ]
    )
    assert found["customer"] == FieldSpec(name="customer", data_type=customer)
    assert found["previous"] == FieldSpec(name="previous", data_type=customer, nullable=True)
    assert found["opened"].data_type == TIMESTAMP_UTC
    assert found["due"] == FieldSpec(name="due", data_type="Date32", nullable=True)
    assert found["price"].data_type == "Variant"
    assert found["level"].data_type == "Utf8"
    assert found["extra"].data_type == "Variant"
    assert found["others"].data_type == listed(customer)


class Node(BaseModel):
    value: str
    next: Node | None = None


def refused(schema: Any) -> WyrdError:
    with pytest.raises(WyrdError) as caught:
        fields_of_json_schema(schema)
    return caught.value


@pytest.mark.parametrize(
    "schema",
    [
        Node.model_json_schema(),
        {"type": "object", "properties": {"x": {"$ref": "#"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"type": "object", "properties": {"x": {"$ref": "https://example.com/schema"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/Missing"}}},
        {"type": "object", "properties": {"x": False}},
        {"type": "object", "properties": {"x": {"type": "text"}}},
        {"type": "object", "properties": {"x": {"type": {"a": 1}}}},
        {"type": "object", "properties": {"x": {"anyOf": []}}},
        {"type": "object", "properties": {}},
        {"type": "object"},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {"x": {"type": "string"}}, "required": "x"},
        {"type": "object", "properties": {"Upper": {"type": "string"}}},
        {"type": "object", "properties": {"a" * 64: {"type": "string"}}},
        {"type": "object", "properties": {"with space": {"type": "string"}}},
        {"type": "object", "properties": {f"c{i}": {"type": "string"} for i in range(MAX_COLUMNS + 1)}},
        [],
    ],
)
def test_a_schema_that_is_no_tables_is_refused_as_unreadable(schema: Any) -> None:
    error = refused(schema)
    assert error.code == "WYRD_VALA_400_SCHEMA_PARSE"
    assert error.details == {"detail": error.detail}


def test_a_name_used_twice_is_no_recursion() -> None:
    both = {"$ref": "#/$defs/A"}
    schema = {
        "type": "object",
        "properties": {"x": both, "y": both},
        "$defs": {"A": {"type": "object", "properties": {"q": {"type": "string"}}}},
    }
    assert [field.name for field in fields_of_json_schema(schema)] == ["x", "y"]


def test_references_that_double_at_every_step_are_refused_within_their_budget() -> None:
    definitions: dict[str, Any] = {"L40": {"type": "string"}}
    for level in range(40):
        one = {"$ref": f"#/$defs/L{level + 1}"}
        definitions[f"L{level}"] = {"type": "object", "properties": {"a": one, "b": one}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/L0"}}, "$defs": definitions}
    assert refused(schema).code == "WYRD_VALA_400_SCHEMA_PARSE"


@pytest.mark.parametrize("depth", [MAX_NESTING + 2, 5000])
def test_a_schema_that_is_nested_too_deeply_is_refused(depth: int) -> None:
    inner: Any = {"type": "string"}
    for _ in range(depth):
        inner = {"type": "array", "items": inner}
    assert refused({"type": "object", "properties": {"x": inner}}).code == "WYRD_VALA_400_SCHEMA_PARSE"


@pytest.mark.parametrize("name", [*sorted(RESERVED_COLUMNS), "wyrd_anything"])
def test_a_column_that_wyrd_writes_is_reserved(name: str) -> None:
    error = refused({"type": "object", "properties": {name: {"type": "string"}}})
    assert (error.code, error.details) == ("WYRD_VALA_400_BIFROST_RESERVED_COLUMN", {"column": name})


@pytest.mark.parametrize(
    "data_type",
    [
        "UInt64",
        {"Timestamp": {"unit": "Nanosecond", "tz": "+00:00"}},
        {"Time64": {"unit": "Nanosecond"}},
        {
            "Map": {
                "key": {"name": "key", "data_type": "Int64"},
                "value": {"name": "value", "data_type": "Utf8"},
            }
        },
    ],
)
def test_a_type_that_iceberg_cannot_hold_is_unsupported_at_registration(data_type: Any) -> None:
    for field in (spec(data_type), spec({"List": {"name": "item", "data_type": data_type}})):
        with pytest.raises(WyrdError) as caught:
            checked_fields([field])
        assert caught.value.code == "WYRD_VALA_400_BIFROST_UNSUPPORTED_TYPE"
        assert caught.value.details["field"].startswith("x")
        assert caught.value.details["data_type"]


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [spec("Utf8"), spec("Int64")],
        [spec({"Struct": []})],
        [spec({"Struct": [{"name": "a", "data_type": "Utf8"}, {"name": "A", "data_type": "Utf8"}]})],
        [spec({"Struct": [{"name": "a b", "data_type": "Utf8"}]})],
        [spec({"Decimal128": {"precision": 39, "scale": 2}})],
        [spec({"Decimal128": {"precision": 5, "scale": 6}})],
        [spec({"FixedSizeBinary": {"len": 0}})],
        [spec({"Timestamp": {"unit": "Second"}, "Time32": {"unit": "Second"}})],
        [FieldSpec(name="x", data_type=NestedType())],
    ],
)
def test_columns_that_do_not_make_a_table_are_refused(fields: list[FieldSpec]) -> None:
    with pytest.raises(WyrdError) as caught:
        checked_fields(fields)
    assert caught.value.code == "WYRD_VALA_400_SCHEMA_PARSE"


def test_equal_tables_are_equal_whatever_their_order_spelling_and_metadata() -> None:
    one = [spec("Utf8", "a"), spec({"List": {"name": "item", "data_type": "Utf8"}}, "b")]
    other = [
        spec(
            {"List": {"name": "element", "data_type": "LargeUtf8"}}, "b", metadata={"PARQUET:field_id": "7"}
        ),
        spec("LargeUtf8", "a"),
    ]
    assert canonical_fields(one) == canonical_fields(other)
    assert canonical_fields(one) != canonical_fields([spec("Utf8", "a", nullable=True), one[1]])
