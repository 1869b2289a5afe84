"""Columns of a table as Arrow, in the types that an Iceberg table holds.

Narrow integers are stored wider, times in microseconds, zoned timestamps in UTC. A Variant is JSON
text; its field says so, because Iceberg v2 has no such type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import (
    DataType,
    DecimalType,
    FieldSpec,
    FixedSizeBinaryType,
    MapType,
    NestedType,
    TimestampType,
    TimeType,
)

VARIANT_KEY: Final = b"wyrd.type"
VARIANT_METADATA: Final = {VARIANT_KEY: b"variant"}
UTC_MICROSECONDS: Final = pa.timestamp("us", "UTC")

_STORED: Final[dict[str, pa.DataType]] = {
    "Bool": pa.bool_(),
    "Int8": pa.int32(),
    "Int16": pa.int32(),
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "UInt8": pa.int32(),
    "UInt16": pa.int32(),
    "UInt32": pa.int64(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Utf8": pa.string(),
    "LargeUtf8": pa.string(),
    "Binary": pa.binary(),
    "LargeBinary": pa.binary(),
    "Date32": pa.date32(),
    "Date64": pa.date32(),
    "Variant": pa.string(),
}

_SPELLED: Final[dict[pa.DataType, DataType]] = {
    pa.bool_(): "Bool",
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
    pa.string(): "Utf8",
    pa.large_string(): "LargeUtf8",
    pa.string_view(): "Utf8",
    pa.binary(): "Binary",
    pa.large_binary(): "LargeBinary",
    pa.binary_view(): "Binary",
    pa.date32(): "Date32",
    pa.date64(): "Date64",
    pa.time32("s"): NestedType(Time32=TimeType(unit="Second")),
    pa.time32("ms"): NestedType(Time32=TimeType(unit="Millisecond")),
    pa.time64("us"): NestedType(Time64=TimeType(unit="Microsecond")),
    pa.time64("ns"): NestedType(Time64=TimeType(unit="Nanosecond")),
}
_UNITS: Final = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}


def arrow_schema(fields: Sequence[FieldSpec]) -> pa.Schema:
    """The Arrow schema in which checked columns are stored, in their order."""
    return pa.schema([arrow_field(field) for field in fields])


def arrow_field(field: FieldSpec) -> pa.Field:
    """One column as it is stored."""
    metadata = VARIANT_METADATA if field.data_type == "Variant" else None
    return pa.field(field.name, stored_type(field.data_type), nullable=field.nullable, metadata=metadata)


def stored_type(data_type: DataType) -> pa.DataType:
    """The Arrow type in which a column type is stored.

    Raises `WYRD_VALA_400_BIFROST_UNSUPPORTED_TYPE` for one that `checked_fields` refuses.
    """
    if isinstance(data_type, str):
        found = _STORED.get(data_type)
        if found is not None:
            return found
    elif data_type.List is not None:
        item = arrow_field(data_type.List)
        return pa.list_(item.with_name("item"))
    elif data_type.Struct is not None:
        return pa.struct([arrow_field(member) for member in data_type.Struct])
    elif data_type.Map is not None:
        return pa.map_(pa.string(), arrow_field(data_type.Map.value).with_name("value"))
    elif data_type.Timestamp is not None:
        return UTC_MICROSECONDS if data_type.Timestamp.tz is not None else pa.timestamp("us")
    elif data_type.Time32 is not None or data_type.Time64 is not None:
        return pa.time64("us")
    elif data_type.FixedSizeBinary is not None:
        return pa.binary(data_type.FixedSizeBinary.len)
    elif data_type.Decimal128 is not None:
        return pa.decimal128(data_type.Decimal128.precision, data_type.Decimal128.scale)
    raise WyrdError(
        Code.VALA_400_BIFROST_UNSUPPORTED_TYPE,
        "a column has a type that tables cannot hold",
        field="",
        data_type=str(data_type),
    )


def field_specs(schema: pa.Schema) -> list[FieldSpec]:
    """The columns that an Arrow schema describes, for `checked_fields` to check.

    Raises `WYRD_VALA_400_BIFROST_UNSUPPORTED_TYPE` with details.field and details.data_type.
    """
    return [_spec(field, field.name) for field in schema]


def _spec(field: pa.Field, at: str) -> FieldSpec:
    metadata = field.metadata or {}
    if metadata.get(VARIANT_KEY) == VARIANT_METADATA[VARIANT_KEY]:
        data_type: DataType = "Variant"
    else:
        data_type = _spelled(field.type, at)
    return FieldSpec(name=field.name, data_type=data_type, nullable=field.nullable)


def _spelled(found: pa.DataType, at: str) -> DataType:
    plain = _SPELLED.get(found)
    if plain is not None:
        return plain
    if pa.types.is_dictionary(found):
        return _spelled(found.value_type, at)
    if pa.types.is_timestamp(found):
        zone = None if found.tz is None else ("+00:00" if found.tz == "UTC" else found.tz)
        return NestedType(Timestamp=TimestampType(unit=_UNITS[found.unit], tz=zone))
    if pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found):
        item = _spec(found.value_field, f"{at}[]")
        return NestedType(List=item.model_copy(update={"name": "item"}))
    if pa.types.is_struct(found):
        return NestedType(Struct=[_spec(member, f"{at}.{member.name}") for member in found])
    if pa.types.is_map(found):
        key = FieldSpec(name="key", data_type=_spelled(found.key_type, at))
        value = _spec(found.item_field, f"{at}{{}}").model_copy(update={"name": "value"})
        return NestedType(Map=MapType(key=key, value=value))
    if pa.types.is_fixed_size_binary(found):
        return NestedType(FixedSizeBinary=FixedSizeBinaryType(len=found.byte_width))
    if pa.types.is_decimal128(found):
        return NestedType(Decimal128=DecimalType(precision=found.precision, scale=found.scale))
    raise WyrdError(
        Code.VALA_400_BIFROST_UNSUPPORTED_TYPE,
        f"{at[:200]} has the type {found}, which tables cannot hold",
        field=at[:200],
        data_type=str(found)[:200],
    )
