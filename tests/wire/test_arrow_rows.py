"""Rows as Arrow: what each column type takes, and what it refuses and where."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wyrd.errors import WyrdError
from wyrd.wire.arrow_fields import VARIANT_METADATA, arrow_schema, field_specs
from wyrd.wire.arrow_rows import rows_to_arrow
from wyrd.wire.bifrost import FieldSpec
from wyrd.wire.canonical import strict_loads
from wyrd.wire.row_faults import VariantLimits

ZONED = {"Timestamp": {"unit": "Microsecond", "tz": "+00:00"}}
PLAIN = {"Timestamp": {"unit": "Microsecond"}}
CLOCK = {"Time64": {"unit": "Microsecond"}}
MONEY = {"Decimal128": {"precision": 5, "scale": 2}}
CUSTOMER = {
    "Struct": [
        {"name": "name", "data_type": "Utf8"},
        {"name": "age", "data_type": "Int64", "nullable": True},
        {"name": "extra", "data_type": "Variant", "nullable": True},
    ]
}
CUSTOMERS = {"List": {"name": "item", "data_type": CUSTOMER}}
SCORES = {
    "Map": {
        "key": {"name": "key", "data_type": "Utf8"},
        "value": {"name": "value", "data_type": "Float64", "nullable": True},
    }
}

BERLIN = timezone(timedelta(hours=2))
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LEAST, MOST = -(2**63), 2**63 - 1


def spec(data_type: Any, *, name: str = "x", nullable: bool = False) -> FieldSpec:
    return FieldSpec.model_validate({"name": name, "data_type": data_type, "nullable": nullable})


def stored(data_type: Any, value: Any, **more: Any) -> Any:
    """The value as Arrow gives it back, beside a null so that no column is simpler than another."""
    field = spec(data_type, nullable=True)
    batch = rows_to_arrow([field], [{"x": value}, {}, {"x": value}], **more)
    batch.validate(full=True)
    assert batch.schema == arrow_schema([field])
    assert batch.column(0)[1].as_py() is None
    assert batch.column(0)[0] == batch.column(0)[2]
    return batch.column(0)[0].as_py()


def refused(data_type: Any, value: Any, good: Any = None) -> WyrdError:
    """The refusal of a value in the third row."""
    with pytest.raises(WyrdError) as caught:
        rows_to_arrow([spec(data_type, nullable=True)], [{"x": good}, {}, {"x": value}, {"x": value}])
    return caught.value


@pytest.mark.parametrize(
    ("data_type", "value", "kept"),
    [
        ("Int64", 25.0, 25),
        ("Int64", MOST, MOST),
        ("Int64", LEAST, LEAST),
        ("Int8", -128, -128),
        ("UInt32", 2**32 - 1, 2**32 - 1),
        ("Int64", numpy.int32(7), 7),
        ("Float64", 3, 3.0),
        ("Float64", 1e308, 1e308),
        ("Float64", numpy.float64(0.5), 0.5),
        ("Float32", 0.5, 0.5),
        ("Bool", True, True),
        ("Bool", numpy.bool_(False), False),
        ("Utf8", "grün\x00😀", "grün\x00😀"),
        ("Utf8", UUID(int=1), str(UUID(int=1))),
        ("Binary", b"\x00\xff", b"\x00\xff"),
        ("Binary", "AP8=", b"\x00\xff"),
        ({"FixedSizeBinary": {"len": 2}}, b"ab", b"ab"),
        ("Date32", "2024-02-29", date(2024, 2, 29)),
        ("Date32", date(1, 1, 1), date(1, 1, 1)),
        (ZONED, "2026-01-31T12:00:00Z", NOON),
        (ZONED, "2026-01-31t12:00:00z", NOON),
        (ZONED, "2026-01-31 14:00:00.000000+02:00", NOON),
        (ZONED, "2026-01-31T12:00:00.000000000Z", NOON),
        (ZONED, "2026-01-31T12:00:00.5Z", NOON + timedelta(milliseconds=500)),
        (ZONED, NOON.astimezone(BERLIN), NOON),
        (ZONED, "9999-12-31T23:59:59.999999Z", datetime.max.replace(tzinfo=UTC)),
        (PLAIN, "2026-01-31T12:00:00", NOON.replace(tzinfo=None)),
        (PLAIN, NOON.replace(tzinfo=None), NOON.replace(tzinfo=None)),
        (CLOCK, "12:00:01.5", time(12, 0, 1, 500000)),
        (CLOCK, time(1, 2), time(1, 2)),
        (MONEY, "-1.05", Decimal("-1.05")),
        (MONEY, 999, Decimal("999.00")),
        (MONEY, Decimal("1.5"), Decimal("1.50")),
        (CUSTOMER, {"name": "Ann"}, {"name": "Ann", "age": None, "extra": None}),
        (CUSTOMERS, [], []),
        (CUSTOMERS, [{"name": "Ann", "extra": [1]}], [{"name": "Ann", "age": None, "extra": "[1]"}]),
        ({"List": {"name": "item", "data_type": "Float64"}}, numpy.array([0.5, 1.5]), [0.5, 1.5]),
        (SCORES, {"a": 1, "b": None}, [("a", 1.0), ("b", None)]),
    ],
)
def test_a_value_of_the_type_is_kept_exactly(data_type: Any, value: Any, kept: Any) -> None:
    found = stored(data_type, value)
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("data_type", "value", "why"),
    [
        ("Int64", True, "is a boolean, not an integer"),
        ("Int64", 25.5, "is a number, not an integer"),
        ("Int64", "25", "is text, not an integer"),
        ("Int64", MOST + 1, "is out of range"),
        ("Int64", float("inf"), "is a number, not an integer"),
        ("Int8", 128, "is out of range"),
        ("UInt8", -1, "is out of range"),
        ("Float64", True, "is a boolean, not a number"),
        ("Float64", "1", "is text, not a number"),
        ("Float64", float("nan"), "is not a finite number"),
        ("Float64", float("-inf"), "is not a finite number"),
        ("Float64", 10**400, "is out of range"),
        ("Float64", 2**53 + 1, "is an integer that a float column cannot hold exactly"),
        ("Float32", 1e39, "is out of range"),
        ("Float32", 2**24 + 1, "is an integer that a float column cannot hold exactly"),
        ("Bool", 1, "is an integer, not a boolean"),
        ("Utf8", 1, "is an integer, not text"),
        ("Utf8", b"a", "is bytes, not text"),
        ("Utf8", "\ud800", "holds half of a surrogate pair"),
        ("Binary", "not base64", "is not bytes in standard base64"),
        ({"FixedSizeBinary": {"len": 2}}, b"abc", "has 3 bytes, not 2"),
        ("Date32", "2023-02-29", "is not a date that there is"),
        ("Date32", NOON, "is a date and time, not a date such as 2026-01-31"),
        (ZONED, "2026-01-31T12:00:00", "has no time zone"),
        (ZONED, NOON.replace(tzinfo=None), "has no time zone"),
        (ZONED, "2026-01-31", "is not a date and time as RFC 3339 writes it"),
        (ZONED, "2026-01-31T12:00Z", "is not a date and time as RFC 3339 writes it"),
        (ZONED, "2026-01-31T12:00:00+0200", "is not a date and time as RFC 3339 writes it"),
        (ZONED, "2026-01-31T12:00:00Z\n", "is not a date and time as RFC 3339 writes it"),
        (ZONED, "2026-02-30T12:00:00Z", "is not a date and time that there is"),
        (ZONED, "2026-01-31T23:59:60Z", "is not a date and time that there is"),
        (ZONED, "0000-01-01T00:00:00Z", "is not a date and time that there is"),
        (ZONED, "0001-01-01T00:00:00+05:00", "is out of range"),
        (ZONED, "2026-01-31T12:00:00.0000001Z", "has parts of a microsecond"),
        (ZONED, 1769860800, "is an integer, not a date and time"),
        (PLAIN, NOON, "has a time zone, and the column has none"),
        (CLOCK, "25:00:00", "is not a time that there is"),
        (CLOCK, time(1, 2, tzinfo=UTC), "not a time of day"),
        (MONEY, "1.005", "does not fit 5 digits with 2 after the point"),
        (MONEY, 1.5, "is a number, not a decimal"),
        (MONEY, Decimal("NaN"), "does not fit 5 digits"),
        (CUSTOMER, ["Ann"], "is an array, not an object"),
        (CUSTOMERS, {"name": "Ann"}, "is an object, not an array"),
        (CUSTOMERS, "Ann", "is text, not an array"),
    ],
)
def test_nothing_is_guessed_rounded_or_truncated(data_type: Any, value: Any, why: str) -> None:
    error = refused(data_type, value)
    assert error.code == "WYRD_SPEC_400_VALIDATION"
    assert error.details["field"] == "rows[2].x"
    assert error.details["row"] == 2
    assert why in error.details["reason"]


@pytest.mark.parametrize(
    ("data_type", "value", "field"),
    [
        (CUSTOMER, {"age": 1}, "rows[2].x.name"),
        (CUSTOMER, {"name": "Ann", "age": "old"}, "rows[2].x.age"),
        (CUSTOMERS, [{"name": "Ann"}, {"name": "Ben", "age": 1.5}], "rows[2].x[1].age"),
        (CUSTOMERS, [{"name": "Ann"}, None], "rows[2].x[1]"),
        (SCORES, {"a": 1.0, "b": "high"}, "rows[2].x[1]"),
    ],
)
def test_a_fault_inside_a_value_is_named_by_its_path(data_type: Any, value: Any, field: str) -> None:
    good: Any = None if data_type == CUSTOMER else [] if data_type == CUSTOMERS else {}
    assert refused(data_type, value, good).details["field"] == field


def test_a_key_that_no_column_has_is_an_undeclared_field() -> None:
    with pytest.raises(WyrdError) as caught:
        rows_to_arrow([spec("Utf8")], [{"x": "a"}, {"x": "b", "refund": True}])
    assert caught.value.code == "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD"
    assert caught.value.details == {"field": "refund", "row": 1}


def test_a_member_that_no_struct_has_is_an_undeclared_field() -> None:
    error = refused(CUSTOMERS, [{"name": "Ann", "nick": "A"}], [])
    assert error.code == "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD"
    assert error.details == {"field": "x[0].nick", "row": 2}


@pytest.mark.parametrize("row", [{}, {"x": None}])
def test_a_required_column_must_be_in_every_row(row: dict[str, Any]) -> None:
    with pytest.raises(WyrdError) as caught:
        rows_to_arrow([spec("Utf8")], [{"x": "a"}, row])
    assert caught.value.details == {"field": "rows[1].x", "row": 1, "reason": "is required"}


def test_a_struct_with_required_members_may_be_null_itself() -> None:
    batch = rows_to_arrow([spec(CUSTOMER, nullable=True)], [{"x": {"name": "Ann"}}, {"x": None}])
    batch.validate(full=True)
    assert batch.column(0).to_pylist() == [{"name": "Ann", "age": None, "extra": None}, None]
    assert batch.column(0).field("name").null_count == 0


def test_columns_of_the_table_come_first_and_the_extra_ones_after_them() -> None:
    batch = rows_to_arrow(
        [spec("Utf8")], [{"run_id": "r", "x": "a"}], extra=[spec("Utf8", name="run_id", nullable=True)]
    )
    assert batch.schema.names == ["x", "run_id"]
    assert batch.to_pylist() == [{"x": "a", "run_id": "r"}]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON, min_size=1, max_size=5))
def test_any_json_comes_back_from_a_variant_as_it_went_in(values: list[Any]) -> None:
    batch = rows_to_arrow([spec("Variant", nullable=True)], [{"x": value} for value in values])
    assert batch.schema.field(0).metadata == VARIANT_METADATA
    found = [None if text is None else strict_loads(text) for text in batch.column(0).to_pylist()]
    assert found == values


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, float("nan")]}, "/a/1"),
        ({"a": {1: 2}}, "/a"),
        ({"a": date(2026, 1, 1)}, ""),
        ("\ud800", ""),
    ],
)
def test_what_is_not_json_is_refused_with_its_field_row_and_path(value: Any, path: str) -> None:
    error = refused("Variant", value)
    assert error.code == "WYRD_VALA_400_VARIANT_INVALID_JSON"
    assert error.details == {"field": "x", "row": 2, "path": path}


def test_a_variant_may_be_nested_64_deep_and_no_deeper() -> None:
    assert strict_loads(stored("Variant", nested(64)), max_depth=64) == nested(64)
    for depth in (65, 5000):
        error = refused("Variant", nested(depth))
        assert error.code == "WYRD_VALA_400_VARIANT_TOO_DEEP"
        assert error.details["path"].startswith("/0/0")
        assert {**error.details, "path": ""} == {"field": "x", "row": 2, "path": "", "depth": 65, "limit": 64}


def test_a_variant_may_have_8_mib_and_no_more() -> None:
    limit = 8 * 1024 * 1024
    assert len(stored("Variant", "x" * (limit - 2))) == limit
    error = refused("Variant", "x" * (limit - 1))
    assert error.code == "WYRD_VALA_413_VARIANT_TOO_LARGE"
    assert error.details == {"field": "x", "row": 2, "bytes": limit + 1, "limit": limit}


def test_rows_that_were_accepted_may_be_read_with_wider_limits() -> None:
    assert stored("Variant", nested(100), limits=VariantLimits(depth=512))


INSTANTS = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, BERLIN]),
)

SCALARS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "Int64": ("Int64", st.integers(LEAST, MOST)),
    "Float64": ("Float64", st.floats(allow_nan=False, allow_infinity=False)),
    "Utf8": ("Utf8", st.text()),
    "Bool": ("Bool", st.booleans()),
    "Binary": ("Binary", st.binary()),
    "Date32": ("Date32", st.dates()),
    "Timestamp": (ZONED, INSTANTS),
}


@pytest.mark.parametrize("name", SCALARS)
@given(data=st.data())
def test_columns_come_back_as_they_went_in(name: str, data: st.DataObject) -> None:
    data_type, values = SCALARS[name]
    given_values = data.draw(st.lists(st.none() | values, max_size=20))
    batch = rows_to_arrow([spec(data_type, nullable=True)], [{"x": value} for value in given_values])
    assert batch.column(0).to_pylist() == given_values


@given(st.lists(INSTANTS, min_size=1))
def test_text_and_datetime_of_one_instant_are_one(instants: list[datetime]) -> None:
    as_text = rows_to_arrow([spec(ZONED)], [{"x": one.isoformat()} for one in instants])
    mixed = rows_to_arrow(
        [spec(ZONED)], [{"x": one.isoformat() if n % 2 else one} for n, one in enumerate(instants)]
    )
    assert as_text.equals(rows_to_arrow([spec(ZONED)], [{"x": one} for one in instants]))
    assert as_text.equals(mixed)


def test_a_schema_becomes_columns_again() -> None:
    fields = [
        spec(data_type, name=f"c{index}", nullable=index % 2 == 0)
        for index, data_type in enumerate(
            ["Int64", "Float32", "Utf8", "Variant", "Date32", ZONED, PLAIN, CLOCK, MONEY, CUSTOMERS, SCORES]
        )
    ]
    assert field_specs(arrow_schema(fields)) == fields


def test_other_spellings_of_arrow_types_become_columns() -> None:
    schema = pa.schema(
        {
            "a": pa.large_string(),
            "b": pa.dictionary(pa.int8(), pa.string()),
            "c": pa.timestamp("ms", "Europe/Berlin"),
            "d": pa.large_list(pa.field("element", pa.int16(), nullable=False)),
        }
    )
    found = [field.data_type for field in field_specs(schema)]
    assert found == [
        "LargeUtf8",
        "Utf8",
        spec({"Timestamp": {"unit": "Millisecond", "tz": "Europe/Berlin"}}).data_type,
        spec({"List": {"name": "item", "data_type": "Int16"}}).data_type,
    ]


def test_an_arrow_type_that_no_column_has_is_unsupported() -> None:
    with pytest.raises(WyrdError) as caught:
        field_specs(pa.schema({"a": pa.list_(pa.duration("s"))}))
    assert caught.value.code == "WYRD_VALA_400_BIFROST_UNSUPPORTED_TYPE"
    assert caught.value.details == {"field": "a[]", "data_type": "duration[s]"}
