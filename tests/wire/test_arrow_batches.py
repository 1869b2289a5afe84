"""Arrow batches made to fit a table: what is another spelling, and what would be a loss."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from wyrd.errors import WyrdError
from wyrd.wire.arrow_batches import MAX_DECODED_BYTES, fitted_batch
from wyrd.wire.arrow_fields import arrow_schema
from wyrd.wire.arrow_rows import rows_to_arrow
from wyrd.wire.bifrost import FieldSpec

ZONED = {"Timestamp": {"unit": "Microsecond", "tz": "+00:00"}}
PLAIN = {"Timestamp": {"unit": "Microsecond"}}
MONEY = {"Decimal128": {"precision": 5, "scale": 2}}
CUSTOMER = {
    "Struct": [
        {"name": "name", "data_type": "Utf8"},
        {"name": "extra", "data_type": "Variant", "nullable": True},
    ]
}
CUSTOMERS = {"List": {"name": "item", "data_type": CUSTOMER}}
SCORES = {
    "Map": {
        "key": {"name": "key", "data_type": "Utf8"},
        "value": {"name": "value", "data_type": "Int64", "nullable": True},
    }
}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def spec(data_type: Any, *, name: str = "x", nullable: bool = True) -> FieldSpec:
    return FieldSpec.model_validate({"name": name, "data_type": data_type, "nullable": nullable})


def batch_of(array: pa.Array, name: str = "x") -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], [name])


def fitted(data_type: Any, array: pa.Array) -> list[Any]:
    field = spec(data_type)
    batch = fitted_batch([field], batch_of(array))
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema([field]))
    found: list[Any] = batch.column(0).to_pylist()
    return found


def refused(field: FieldSpec, array: pa.Array) -> WyrdError:
    with pytest.raises(WyrdError) as caught:
        fitted_batch([field], batch_of(array))
    return caught.value


@pytest.mark.parametrize(
    ("data_type", "array"),
    [
        ("Utf8", pa.array(["a", None], pa.large_string())),
        ("Utf8", pa.array(["a", None], pa.string_view())),
        ("Utf8", pa.array(["b", "a", None, "a"]).dictionary_encode()[1:]),
        ("Int64", pa.array([1, None], pa.int8())),
        ("Int64", pa.array([2**63 - 1, None], pa.uint64())),
        ("Int64", pa.array([25.0, None])),
        ("Int8", pa.array([127, None], pa.int64())),
        ("Int8", pa.array([127, None], pa.int32())),
        ("Float64", pa.array([0.5, None], pa.float32())),
        ("Float64", pa.array([3, None])),
        ("Float32", pa.array([0.5, None])),
        ("Bool", pa.array([True, None])),
        ("Binary", pa.array([b"a", None], pa.large_binary())),
        ("Binary", pa.array([b"ab", None], pa.binary(2))),
        ("Date32", pa.array([86_400_000, None], pa.date64())),
        (ZONED, pa.array([NOON, None], pa.timestamp("s", "Europe/Berlin"))),
        (ZONED, pa.array([NOON, None], pa.timestamp("us", "+00:00"))),
        (ZONED, pa.array([1_000, None], pa.timestamp("ns", "UTC"))),
        (PLAIN, pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("ms"))),
        ({"Time64": {"unit": "Microsecond"}}, pa.array([5, None], pa.time32("s"))),
        (MONEY, pa.array([Decimal("1.5"), None])),
        ("Variant", pa.array(['{"a": [1]}', None], pa.large_string())),
        ("Utf8", pa.nulls(2)),
        (
            {"List": {"name": "item", "data_type": "Utf8"}},
            pa.array([["a"], None, []], pa.large_list(pa.large_string())),
        ),
        ({"List": {"name": "item", "data_type": "Int64"}}, pa.array([[1, 2], None], pa.list_(pa.int8(), 2))),
        (CUSTOMERS, pa.array([[{"extra": "[1]", "name": "Ann"}], None, []])),
        (SCORES, pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int16()))),
    ],
)
def test_another_spelling_of_a_type_is_taken(data_type: Any, array: pa.Array) -> None:
    found = fitted(data_type, array)
    if data_type == "Date32":
        assert [None if day is None else day.isoformat() for day in found] == ["1970-01-02", None]
    elif pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        assert found == [datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None]
    elif data_type == CUSTOMERS:
        assert found == [[{"name": "Ann", "extra": "[1]"}], None, []]
    else:
        assert found == array.to_pylist()


@pytest.mark.parametrize(
    "array",
    [
        pa.array([["a"], ["b", "c"], None, ["d"]]),
        pa.array([["a"], ["b", "c"], None, ["d"]], pa.list_(pa.string_view())),
    ],
)
def test_a_slice_is_the_slice_and_not_what_stands_around_it(array: pa.Array) -> None:
    texts = {"List": {"name": "item", "data_type": "Utf8"}}
    assert fitted(texts, array[1:3]) == [["b", "c"], None]
    assert fitted(texts, array[1:1]) == []
    maps = pa.array([[("a", 1)], None, [("b", 2), ("c", None)], []], pa.map_(pa.string(), pa.int64()))
    assert fitted(SCORES, maps[1:3]) == [None, [("b", 2), ("c", None)]]
    structs = pa.array([{"name": "Ann", "extra": "1"}, None, {"name": "Ben", "extra": "2"}])
    assert fitted(CUSTOMER, structs[1:]) == [None, {"name": "Ben", "extra": "2"}]


@pytest.mark.parametrize(
    ("data_type", "array", "row"),
    [
        ("Int64", pa.array([1, 2**63], pa.uint64()), 1),
        ("Int64", pa.array([1.0, 1.5]), 1),
        ("Int64", pa.array(["1", "2"]), 0),
        ("Int64", pa.array([True]), 0),
        ("Int8", pa.array([1, 128], pa.int32()), 1),
        ("UInt8", pa.array([0, -1]), 1),
        ("Float64", pa.array([1.0, float("nan")]), 1),
        ("Float64", pa.array([1.0, float("inf")]), 1),
        ("Float64", pa.array([1, 2**53 + 1]), 1),
        ("Float32", pa.array([0.5, 0.1]), 1),
        ("Bool", pa.array([1, 0]), 0),
        ("Utf8", pa.array([b"a"]), 0),
        ("Utf8", pa.array([1]), 0),
        (ZONED, pa.array([NOON.replace(tzinfo=None)]), 0),
        (PLAIN, pa.array([NOON]), 0),
        (ZONED, pa.array([0, 1], pa.timestamp("ns", "UTC")), 1),
        (ZONED, pa.array([0, 2**62], pa.timestamp("us", "UTC")), 1),
        (ZONED, pa.array([0, 2**62], pa.timestamp("s", "UTC")), 1),
        ("Date32", pa.array([0, 2**30], pa.int32()).cast(pa.date32()), 1),
        ("Date32", pa.array([0, 1], pa.int64()).cast(pa.date64()), 1),
        (MONEY, pa.array([Decimal("1.50"), Decimal("1.005")]), 1),
        (MONEY, pa.array([1.5]), 0),
        ({"FixedSizeBinary": {"len": 2}}, pa.array([b"ab", b"abc"]), 1),
        ("Variant", pa.array([{"a": 1}]), 0),
        (CUSTOMER, pa.array(["Ann"]), 0),
        (CUSTOMERS, pa.array([{"name": "Ann"}]), 0),
        (SCORES, pa.array([{"a": 1}]), 0),
        (SCORES, pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64())), 0),
    ],
)
def test_a_loss_is_refused_with_its_row(data_type: Any, array: pa.Array, row: int) -> None:
    error = refused(spec(data_type), array)
    assert error.code == "WYRD_SPEC_400_VALIDATION"
    assert (error.details["field"], error.details["row"]) == (f"rows[{row}].x", row)


@pytest.mark.parametrize(
    "array", [pa.array(["a", None]), pa.nulls(2), pa.array(["a", None]).dictionary_encode()]
)
def test_a_null_in_a_required_column_is_refused(array: pa.Array) -> None:
    error = refused(spec("Utf8", nullable=False), array)
    assert error.details["reason"] == "is required"
    assert error.details["row"] == (0 if pa.types.is_null(array.type) else 1)


@pytest.mark.parametrize(
    ("data_type", "array", "field"),
    [
        (CUSTOMER, pa.array([{"name": "Ann"}, {"name": None}]), "rows[1].x.name"),
        (CUSTOMER, pa.array([{"extra": "1"}]), "rows[0].x.name"),
        (CUSTOMERS, pa.array([[{"name": "Ann"}], [{"name": "Ben"}, None]]), "rows[1].x[1]"),
        (CUSTOMERS, pa.array([[], None, [{"name": "Ann"}, {"name": None}]]), "rows[2].x[1].name"),
    ],
)
def test_a_fault_inside_a_value_is_named_by_its_path(data_type: Any, array: pa.Array, field: str) -> None:
    assert refused(spec(data_type), array).details["field"] == field


def test_a_struct_with_required_members_may_be_null_itself() -> None:
    array = pa.array([{"name": "Ann", "extra": "1"}, None])
    assert fitted(CUSTOMER, array) == [{"name": "Ann", "extra": "1"}, None]
    required = {
        "Struct": [
            spec(one, name=f"m{n}", nullable=False).model_dump(mode="json", exclude_none=True)
            for n, one in enumerate(["Int64", ZONED, SCORES, CUSTOMER, "Variant"])
        ]
    }
    value = {"m0": 1, "m1": NOON, "m2": [("a", 1)], "m3": {"name": "Ann", "extra": "1"}, "m4": "[]"}
    kind = pa.struct(
        {
            "m0": pa.int64(),
            "m1": pa.timestamp("us", "UTC"),
            "m2": pa.map_(pa.string(), pa.int64()),
            "m3": pa.struct({"name": pa.string(), "extra": pa.string()}),
            "m4": pa.string(),
        }
    )
    batch = fitted_batch([spec(required)], batch_of(pa.array([value, None], kind)))
    batch.validate(full=True)
    assert batch.column(0).to_pylist() == [value, None]
    assert all(batch.column(0).field(name).null_count == 0 for name in value)


def test_columns_are_taken_by_name_and_missing_ones_are_null() -> None:
    fields = [spec("Utf8", name="a"), spec("Int64", name="b"), spec(CUSTOMERS, name="c")]
    batch = pa.RecordBatch.from_pydict({"b": [1], "a": ["x"]})
    found = fitted_batch(fields, batch, extra=[spec("Utf8", name="run_id")])
    assert found.schema.names == ["a", "b", "c", "run_id"]
    assert found.to_pylist() == [{"a": "x", "b": 1, "c": None, "run_id": None}]


def test_a_column_that_the_table_lacks_is_an_undeclared_field() -> None:
    with pytest.raises(WyrdError) as caught:
        fitted_batch([spec("Utf8")], batch_of(pa.array(["a"]), "refund"))
    assert caught.value.code == "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD"
    assert caught.value.details == {"field": "refund", "row": 0}
    error = refused(spec(CUSTOMER), pa.array([{"name": "Ann", "nick": "A"}]))
    assert (error.code, error.details["field"]) == ("WYRD_VALA_400_BIFROST_UNDECLARED_FIELD", "x.nick")


def test_a_required_column_that_is_missing_and_one_that_is_there_twice_are_refused() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], ["x", "x"])
    for field, batch in ((spec("Utf8", nullable=False, name="y"), twice.select([])), (spec("Utf8"), twice)):
        with pytest.raises(WyrdError) as caught:
            fitted_batch([field], batch)
        assert caught.value.code == "WYRD_SPEC_400_VALIDATION"
        assert caught.value.details["field"] == field.name


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "WYRD_VALA_400_VARIANT_INVALID_JSON"),
        ('{"a": 1, "a": 2}', "WYRD_VALA_400_VARIANT_INVALID_JSON"),
        ("NaN", "WYRD_VALA_400_VARIANT_INVALID_JSON"),
        ("1 2", "WYRD_VALA_400_VARIANT_INVALID_JSON"),
        ("", "WYRD_VALA_400_VARIANT_INVALID_JSON"),
        ("[" * 65 + "]" * 65, "WYRD_VALA_400_VARIANT_TOO_DEEP"),
        ("[" * 100_000 + "]" * 100_000, "WYRD_VALA_400_VARIANT_TOO_DEEP"),
        (f'"{"x" * 8 * 1024 * 1024}"', "WYRD_VALA_413_VARIANT_TOO_LARGE"),
    ],
)
def test_text_of_a_variant_must_be_json_within_its_limits(text: str, code: str) -> None:
    error = refused(spec("Variant"), pa.array(["1", text]))
    assert error.code == code
    assert (error.details["field"], error.details["row"]) == ("x", 1)


def test_a_batch_that_fits_is_not_copied() -> None:
    fields = [spec("Utf8"), spec("Variant", name="y")]
    batch = rows_to_arrow(fields, [{"x": "a", "y": {"b": 1}}])
    assert fitted_batch(fields, batch) is batch


_UNION = pa.UnionArray.from_dense(
    pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])]
)


@pytest.mark.parametrize(
    "array",
    [
        _UNION,
        pa.StructArray.from_arrays([_UNION], ["name"], mask=pa.array([False, True])),
        pa.ListArray.from_arrays([0, 1, 2], _UNION),
        pa.RunEndEncodedArray.from_arrays([2], [7]),
        pa.array([[1]], pa.list_view(pa.int64())),
        pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1]])),
        pa.array([1], pa.duration("s")),
    ],
    ids=lambda array: str(array.type)[:20],
)
@pytest.mark.parametrize("data_type", ["Utf8", "Variant", CUSTOMER, CUSTOMERS], ids=lambda one: str(one)[:10])
def test_a_type_that_no_table_holds_is_refused_before_its_values_are_touched(
    data_type: Any, array: pa.Array
) -> None:
    error = refused(spec(data_type), array)
    assert (error.code, error.details["field"]) == ("WYRD_SPEC_400_VALIDATION", "x")
    assert "which no table holds" in error.details["reason"]


def views(text: str, times: int) -> pa.Array:
    """The same text that many times, in memory once."""
    _, view, data = pa.array([text], pa.string_view()).buffers()
    return pa.Array.from_buffers(
        pa.string_view(), times, [None, pa.py_buffer(view.to_pybytes()[:16] * times), data]
    )


LARGE = "x" * (MAX_DECODED_BYTES // 4)


@pytest.mark.parametrize(
    "array",
    [
        pa.DictionaryArray.from_arrays(pa.array([0] * 10, pa.int8()), pa.array([LARGE])),
        views(LARGE, 10),
        pa.ListArray.from_arrays(pa.array([0, 2**30], pa.int32()), pa.nulls(2**30)),
    ],
    ids=["dictionary", "views", "nulls"],
)
def test_a_few_bytes_cannot_become_huge(array: pa.Array) -> None:
    data_type = (
        {"List": {"name": "item", "data_type": "Utf8", "nullable": True}} if len(array) == 1 else "Utf8"
    )
    error = refused(spec(data_type), array)
    assert error.code == "WYRD_VALA_413_PAYLOAD_TOO_LARGE"
    assert error.details["bytes"] > error.details["limit"] == MAX_DECODED_BYTES
