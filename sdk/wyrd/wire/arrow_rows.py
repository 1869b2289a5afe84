"""Rows as Arrow, strictly, column by column. Client and server convert rows with this alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import accumulate, chain
from types import NoneType
from typing import Any, Final

import pyarrow as pa

from wyrd.errors import WyrdError
from wyrd.wire.arrow_fields import arrow_field, arrow_schema, stored_type
from wyrd.wire.arrow_values import plain_array
from wyrd.wire.bifrost import DataType, FieldSpec, NestedType
from wyrd.wire.row_faults import LIMITS, Place, VariantLimits, misfit, not_a, undeclared
from wyrd.wire.variants import variant_array

MAX_DEPTH: Final = 512
"""Nesting of JSON rows as a whole. What a table takes is decided column by column, less deeply."""

Row = Mapping[str, Any]


def rows_to_arrow(
    fields: Sequence[FieldSpec],
    rows: Sequence[Row],
    *,
    extra: Sequence[FieldSpec] = (),
    limits: VariantLimits = LIMITS,
) -> pa.RecordBatch:
    """One record batch of the columns `fields` and, after them, `extra`, in the types they are stored in.

    A column that a row leaves out is null. Integers take integral numbers (25.0 is 25), never
    booleans; zoned timestamps take aware datetimes and RFC 3339 text with an offset; binary
    columns bytes or standard base64; decimals text, integers and `Decimal`; Variants any JSON.

    Raises `WYRD_VALA_400_BIFROST_UNDECLARED_FIELD` (details field, row),
    `WYRD_SPEC_400_VALIDATION` (details field `rows[i].column`, row, reason) and the
    `WYRD_VALA_*_VARIANT_*` codes, for the first value at fault.
    """
    columns = [*fields, *extra]
    _refuse_undeclared({field.name for field in columns}, rows)
    arrays = [
        _column(field, [row.get(field.name) for row in rows], Place(field.name, limits)) for field in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _refuse_undeclared(known: set[str], rows: Sequence[Row]) -> None:
    if set().union(*rows) <= known:
        return
    for index, row in enumerate(rows):
        for name in row:
            if name not in known:
                raise undeclared(name, index)


def _column(field: FieldSpec, values: list[Any], place: Place) -> pa.Array:
    array = _array(field.data_type, values, place)
    if array.null_count and not field.nullable:
        missing = next(index for index, value in enumerate(values) if value is None)
        raise misfit(place, missing, "is required")
    return array


def _array(data_type: DataType, values: list[Any], place: Place) -> pa.Array:
    if data_type == "Variant":
        return variant_array(values, place)
    if isinstance(data_type, NestedType):
        if data_type.Struct is not None:
            return _structs(data_type.Struct, values, place)
        if data_type.List is not None:
            return _lists(data_type, data_type.List, values, place)
        if data_type.Map is not None:
            return _maps(data_type, data_type.Map.value, values, place)
    return plain_array(data_type, values, place)


def _structs(members: Sequence[FieldSpec], values: list[Any], place: Place) -> pa.Array:
    _require(Mapping, "an object", values, place)
    known = {member.name for member in members}
    if not set().union(*(value for value in values if value is not None)) <= known:
        raise _undeclared_member(known, values, place)
    arrays = []
    for member in members:
        # A required member of an object that is null itself needs some value to stand there.
        absent = None if member.nullable else filler(member.data_type)
        column = [absent if value is None else value.get(member.name) for value in values]
        arrays.append(_column(member, column, place.member(member.name)))
    nulls = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=[arrow_field(one) for one in members], mask=nulls)


def _undeclared_member(known: set[str], values: Sequence[Any], place: Place) -> WyrdError:
    index, name = next(
        (index, name) for index, value in enumerate(values) for name in value or () if name not in known
    )
    row, path = place.at(index)
    return undeclared(name, row, path)


def _lists(data_type: NestedType, item: FieldSpec, values: list[Any], place: Place) -> pa.Array:
    values = [value.tolist() if hasattr(value, "tolist") else value for value in values]
    _require((list, tuple), "an array", values, place)
    offsets = _offsets(values)
    items = list(chain.from_iterable(value for value in values if value is not None))
    array = _column(item, items, place.items(lambda: offsets))
    nulls = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), array, type=stored_type(data_type), mask=nulls
    )


def _maps(data_type: NestedType, item: FieldSpec, values: list[Any], place: Place) -> pa.Array:
    _require(Mapping, "an object", values, place)
    offsets = _offsets(values)
    inner = place.items(lambda: offsets)
    keys = list(chain.from_iterable(value for value in values if value is not None))
    items = list(chain.from_iterable(value.values() for value in values if value is not None))
    nulls = pa.array([value is None for value in values], pa.bool_())
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        plain_array("Utf8", keys, inner),
        _column(item, items, inner),
        type=stored_type(data_type),
        mask=nulls,
    )


def _offsets(values: Sequence[Any]) -> list[int]:
    return list(accumulate((0 if value is None else len(value) for value in values), initial=0))


def _require(kind: Any, said: str, values: Sequence[Any], place: Place) -> None:
    if all(issubclass(found, kind) for found in set(map(type, values)) - {NoneType}):
        return
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, kind):
            raise misfit(place, index, str(not_a(said, value)))


def filler(data_type: DataType) -> Any:
    """Some value of a type, for places that nobody looks at."""
    if isinstance(data_type, str):
        return _FILLERS.get(data_type, 0)
    if data_type.List is not None:
        return []
    if data_type.Map is not None:
        return {}
    if data_type.Struct is not None:
        return {one.name: filler(one.data_type) for one in data_type.Struct if not one.nullable}
    if data_type.Timestamp is not None:
        return datetime(1970, 1, 1, tzinfo=UTC if data_type.Timestamp.tz is not None else None)
    if data_type.FixedSizeBinary is not None:
        return bytes(data_type.FixedSizeBinary.len)
    return Decimal(0) if data_type.Decimal128 is not None else time(0)


_FILLERS: Mapping[str, Any] = {
    "Bool": False,
    "Float32": 0.0,
    "Float64": 0.0,
    "Utf8": "",
    "LargeUtf8": "",
    "Binary": b"",
    "LargeBinary": b"",
    "Date32": date(1970, 1, 1),
    "Date64": date(1970, 1, 1),
}
