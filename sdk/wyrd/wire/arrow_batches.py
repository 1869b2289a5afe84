"""Arrow batches as they come, made to fit a table's columns: order and spelling are free, loss is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from wyrd.errors import Code, WyrdError
from wyrd.wire.arrow_fields import arrow_field, arrow_schema, stored_type
from wyrd.wire.arrow_rows import filler
from wyrd.wire.arrow_times import in_calendar
from wyrd.wire.arrow_values import declared_type
from wyrd.wire.bifrost import DataType, FieldSpec, NestedType
from wyrd.wire.parquet_variants import decoded_variants, is_encoded
from wyrd.wire.row_faults import Place, misfit, undeclared
from wyrd.wire.variants import checked_variant_texts

MAX_DECODED_BYTES: Final = 64 * 1024 * 1024
"""What one batch may have in memory."""
_MAX_ITEMS: Final = MAX_DECODED_BYTES // 8


def fitted_batch(
    fields: Sequence[FieldSpec], batch: pa.RecordBatch, *, extra: Sequence[FieldSpec] = ()
) -> pa.RecordBatch:
    """The batch with the columns `fields` and `extra` in their order and the types they are stored in.

    Columns are taken by name; one that may be null and is missing is null throughout. Taken are
    other spellings of a type (large and dictionary text, wider or narrower integers whose values
    fit, integral floats for integers, coarser or finer times that lose nothing). Variants are
    JSON text, or Parquet's binary form of it. A batch that is as it should be comes back as it is.

    The batch must have passed `RecordBatch.validate(full=True)` when it comes from outside.
    Raises `WYRD_VALA_400_BIFROST_UNDECLARED_FIELD`, `WYRD_SPEC_400_VALIDATION` (details field,
    row, reason), `WYRD_VALA_413_PAYLOAD_TOO_LARGE` and the `WYRD_VALA_*_VARIANT_*` codes.
    """
    require_taken(batch.schema)
    columns = [*fields, *extra]
    known = {field.name for field in columns}
    seen: set[str] = set()
    for name in batch.schema.names:
        if name not in known:
            raise undeclared(name, 0)
        if name in seen:
            raise _bad_column(name, "is there twice")
        seen.add(name)
    arrays = []
    for field in columns:
        if field.name in seen:
            arrays.append(_fitted(field, batch.column(field.name), Place(field.name)))
        elif field.nullable:
            arrays.append(pa.nulls(batch.num_rows, stored_type(field.data_type)))
        else:
            raise _bad_column(field.name, "is required, and the batch has no such column")
    schema = arrow_schema(columns)
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def require_taken(schema: pa.Schema) -> None:
    """Refuse columns of types that are not looked into, before anything is done with their values.

    Arrow ends the whole process on some that no column is made of, such as a union in a struct.
    Raises `WYRD_SPEC_400_VALIDATION` (details field, reason).
    """
    for name, field in zip(schema.names, schema, strict=True):
        if not _is_taken(field.type):
            raise _bad_column(name, f"is {str(field.type)[:80]}, which no table holds")


_LEAVES: Final = frozenset(
    found.id
    for found in (
        *(pa.null(), pa.bool_(), pa.float16(), pa.float32(), pa.float64()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.decimal32(1), pa.decimal64(1), pa.decimal128(1), pa.decimal256(1)),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("us")),
        *(pa.string(), pa.large_string(), pa.string_view()),
        *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)),
    )
)
_LISTS: Final = (types.is_list, types.is_large_list, types.is_fixed_size_list)


def _is_taken(found: pa.DataType) -> bool:
    if found.id in _LEAVES:
        return True
    if isinstance(found, pa.BaseExtensionType):
        return _is_taken(found.storage_type)
    if types.is_dictionary(found):
        return found.value_type.id in _LEAVES
    if any(one(found) for one in _LISTS):
        return _is_taken(found.value_type)
    if types.is_struct(found):
        return all(member.name is not None and _is_taken(member.type) for member in found)
    if types.is_map(found):
        return _is_taken(found.key_type) and _is_taken(found.item_type)
    return False


def too_large(size: int, limit: int = MAX_DECODED_BYTES) -> WyrdError:
    """`WYRD_VALA_413_PAYLOAD_TOO_LARGE` with details bytes and limit."""
    return WyrdError(
        Code.VALA_413_PAYLOAD_TOO_LARGE,
        f"the batch has {size} bytes once it is decoded, and at most {limit} are taken",
        bytes=size,
        limit=limit,
    )


def _bad_column(name: str, why: str) -> WyrdError:
    return WyrdError(Code.SPEC_400_VALIDATION, f"the column {name[:80]} {why}", field=name[:80], reason=why)


def _fitted(field: FieldSpec, array: pa.Array, place: Place, valid: pa.Array | None = None) -> pa.Array:
    """The column of a field; `valid` says where the struct that it is a member of is not null itself."""
    if types.is_null(array.type):
        found = pa.nulls(len(array), stored_type(field.data_type))
    else:
        found = _fitted_type(field.data_type, array, place)
    if found.null_count and not field.nullable:
        if valid is not None:
            # Some value must stand where the whole struct is null, and nobody looks at it.
            text = '""' if field.data_type == "Variant" else filler(field.data_type)
            found = pc.if_else(valid, found, pa.scalar(text, found.type))
        if found.null_count:
            raise misfit(place, pc.index(found.is_null(), True).as_py(), "is required")
    return found


def _fitted_type(data_type: DataType, array: pa.Array, place: Place) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if types.is_dictionary(array.type):
        array = _decoded(array)
    if data_type == "Variant":
        if is_encoded(array.type):
            return decoded_variants(array, place)
        if not _is_text(array.type):
            raise _other_type(place, array.type, "JSON text")
        texts = _plain_bytes(array).cast(pa.string())
        checked_variant_texts(texts, place)
        return texts
    if isinstance(data_type, NestedType):
        if data_type.Struct is not None:
            return _structs(data_type.Struct, array, place)
        if data_type.List is not None:
            return _lists(data_type, data_type.List, array, place)
        if data_type.Map is not None:
            return _maps(data_type, data_type.Map.value, array, place)
    return _plain(data_type, array, place)


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    """The values in full, unless a small dictionary of large values would become huge."""
    values = array.dictionary
    if _is_text(values.type) or _is_binary(values.type):
        values = _plain_bytes(values)
        _bounded(pc.sum(pc.take(pc.binary_length(values), array.indices)).as_py() or 0)
    return values.take(array.indices)


def _plain_bytes(array: pa.Array) -> pa.Array:
    """Text or bytes without views, which may show the same bytes any number of times."""
    if types.is_string_view(array.type) or types.is_binary_view(array.type):
        # A view is 16 bytes, the first four of them its length.
        words = pa.Array.from_buffers(pa.int32(), 4 * (array.offset + len(array)), [None, array.buffers()[1]])
        lengths = words.take(pa.array(range(4 * array.offset, len(words), 4), pa.int64()))
        _bounded(pc.sum(lengths.cast(pa.int64())).as_py() or 0)
        return array.cast(pa.large_string() if types.is_string_view(array.type) else pa.large_binary())
    return array


def _bounded(size: int) -> None:
    if size > MAX_DECODED_BYTES:
        raise too_large(size)


def _plain(data_type: DataType, array: pa.Array, place: Place) -> pa.Array:
    target, stored = declared_type(data_type), stored_type(data_type)
    if array.type != target:
        if not _may_become(array.type, target):
            raise _other_type(place, array.type, str(target))
        array = _cast(_plain_bytes(array), target, place)
    if types.is_floating(target):
        finite = pc.is_finite(array)
        if pc.all(finite).as_py() is False:
            raise misfit(place, pc.index(finite, False).as_py(), "is not a finite number")
    if (types.is_timestamp(target) or types.is_date(target)) and not in_calendar(array):
        wrong = next(index for index in range(len(array)) if not in_calendar(array.slice(index, 1)))
        raise misfit(place, wrong, "is not a time that there is")
    return array if array.type == stored else array.cast(stored)


def _cast(array: pa.Array, target: pa.DataType, place: Place) -> pa.Array:
    found = _exactly(array, target)
    if found is not None:
        return found
    wrong = next((index for index in range(len(array)) if _exactly(array.slice(index, 1), target) is None), 0)
    raise misfit(place, wrong, f"does not fit {target}")


def _exactly(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """The same values in another type; None when some of them are not the same there."""
    try:
        found = array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if types.is_floating(array.type) and target.bit_width < array.type.bit_width:
        # Arrow rounds to single precision without a word.
        return found if found.cast(array.type).equals(array) else None
    return found


def _is_text(found: pa.DataType) -> bool:
    return any(one(found) for one in (types.is_string, types.is_large_string, types.is_string_view))


def _is_binary(found: pa.DataType) -> bool:
    kinds = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(one(found) for one in kinds)


def _is_number(found: pa.DataType) -> bool:
    return types.is_integer(found) or types.is_floating(found)  # type: ignore[no-any-return]


def _may_become(found: pa.DataType, target: pa.DataType) -> bool:
    """Whether some values of a type are values of the other."""
    if types.is_timestamp(target):
        return types.is_timestamp(found) and (found.tz is None) == (target.tz is None)
    if types.is_decimal(target):
        return types.is_decimal(found) or types.is_integer(found)  # type: ignore[no-any-return]
    for kind in (_is_text, _is_number, _is_binary, types.is_date, types.is_time):
        if kind(target):
            return bool(kind(found))
    return bool(found == target)


def _other_type(place: Place, found: pa.DataType, wanted: str) -> WyrdError:
    return misfit(place, 0, f"is {str(found)[:80]}, not {wanted}")


def _structs(members: Sequence[FieldSpec], array: pa.Array, place: Place) -> pa.Array:
    if not types.is_struct(array.type):
        raise _other_type(place, array.type, "a struct")
    known = {member.name for member in members}
    given = [field.name for field in array.type]
    for name in given:
        if name not in known or given.count(name) > 1:
            row, path = place.at(0)
            raise undeclared(name, row, path)
    valid = array.is_valid()
    # Flattened, a member is null where its struct is; what stood there is nobody's value.
    columns = dict(zip(given, array.flatten(), strict=True))
    arrays = []
    for member in members:
        values = columns[member.name] if member.name in columns else pa.nulls(len(array))
        arrays.append(_fitted(member, values, place.member(member.name), valid))
    return pa.StructArray.from_arrays(
        arrays, fields=[arrow_field(one) for one in members], mask=pc.invert(valid)
    )


def _lists(data_type: NestedType, item: FieldSpec, array: pa.Array, place: Place) -> pa.Array:
    found = array.type
    if not any(one(found) for one in _LISTS):
        raise _other_type(place, found, "a list")
    offsets = _offsets(array)
    items = _fitted(item, array.flatten(), place.items(offsets.to_pylist))
    return pa.ListArray.from_arrays(offsets, items, type=stored_type(data_type), mask=array.is_null())


def _maps(data_type: NestedType, item: FieldSpec, array: pa.Array, place: Place) -> pa.Array:
    if not types.is_map(array.type) or not _is_text(array.type.key_type):
        raise _other_type(place, array.type, "a map with keys of text")
    pairs = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    # Adding nothing makes offsets of its own for a slice, which a mask cannot go with.
    lists = pa.ListArray.from_arrays(pc.add(array.offsets, 0), pairs, mask=array.is_null())
    offsets = _offsets(lists)
    inner = place.items(offsets.to_pylist)
    flat = lists.flatten()
    return pa.MapArray.from_arrays(
        offsets,
        _plain("Utf8", flat.field("key"), inner),
        _fitted(item, flat.field("value"), inner),
        type=stored_type(data_type),
        mask=array.is_null(),
    )


def _offsets(array: pa.Array) -> pa.Array:
    """Where each list's items start in `array.flatten()`."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    total = pc.sum(lengths).as_py() or 0
    if total > _MAX_ITEMS:
        raise too_large(total * 8)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])
