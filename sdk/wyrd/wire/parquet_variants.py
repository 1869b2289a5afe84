"""Free-form values as the published clients send and read them: Parquet's binary Variant.

The encoding is the Parquet project's own: a dictionary of names beside a value whose parts are found
by offset. What is read comes from outside, so every offset is checked, and no byte is read twice:
parts that show the same bytes again could make a value of any size out of a few.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from wyrd.errors import Code
from wyrd.wire.row_faults import Place, bad_variant
from wyrd.wire.variants import variant_array

_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = 0, 1, 2, 3
_NUMBERS: Final = {3: "<b", 4: "<h", 5: "<i", 6: "<q", 7: "<d", 14: "<f"}
_DECIMALS: Final = {8: 4, 9: 8, 10: 16}
_TEXT: Final = 16
_OTHERS: Final = {
    **{11: "a date", 12: "a timestamp", 13: "a timestamp", 15: "bytes"},
    **{17: "a time", 18: "a timestamp", 19: "a timestamp", 20: "a UUID"},
}


ENCODED: Final = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
"""The type of a column of binary Variants."""
EXTENSION: Final = {"ARROW:extension:name": "arrow.parquet.variant", "ARROW:extension:metadata": ""}
"""The metadata of a field that says so."""


class _Unreadable(Exception):
    """The bytes are not a Variant, or not one that is a JSON value."""


def is_encoded(data_type: pa.DataType) -> bool:
    """Whether a column of that type holds binary Variants: structs of `metadata` and `value`."""
    if not types.is_struct(data_type) or data_type.num_fields != 2:
        return False
    kinds = {data_type.field(number).name: data_type.field(number).type for number in range(2)}
    return set(kinds) == {"metadata", "value"} and all(
        types.is_binary(kind) or types.is_large_binary(kind) for kind in kinds.values()
    )


def decoded_variants(array: pa.StructArray, place: Place) -> pa.Array:
    """The values of such a column as JSON text; null stays null.

    Raises as `variant_array` does; `WYRD_VALA_400_VARIANT_INVALID_JSON` also for bytes that are
    no Variant, and for dates, times, bytes and UUIDs, which JSON has not.
    """
    values: list[Any] = []
    for index, given in enumerate(array.to_pylist()):
        if given is None or given["metadata"] is None or given["value"] is None:
            values.append(None)
            continue
        try:
            values.append(_Reading(given["metadata"], given["value"], place.limits.depth).whole())
        except (_Unreadable, struct.error, IndexError, UnicodeDecodeError) as error:
            why = str(error) if isinstance(error, _Unreadable) else "the bytes are cut off or not text"
            raise bad_variant(
                place, index, Code.VALA_400_VARIANT_INVALID_JSON, f"is not a Variant: {why}", path=""
            ) from None
    return variant_array(values, place)


def encoded_variant(value: Any) -> dict[str, bytes]:
    """One JSON value in binary: `metadata` and `value`. Integers beyond 64 bits become floats."""
    names = sorted(_names_in(value), key=str.encode)
    texts = [name.encode("utf-8") for name in names]
    # Version 1, sorted, offsets of four bytes.
    metadata = bytes([1 | 1 << 4 | 3 << 6]) + _u32(len(names)) + _offsets(texts) + b"".join(texts)
    return {"metadata": metadata, "value": _written(value, {name: at for at, name in enumerate(names)})}


def _names_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_names_in, value.values()))
    return set().union(*map(_names_in, value)) if isinstance(value, list) else set()


def _written(value: Any, names: Mapping[str, int]) -> bytes:
    match value:
        case None | bool():
            return bytes([{None: 0, True: 1, False: 2}[value] << 2])
        case int() if -(2**63) <= value < 2**63:
            return bytes([6 << 2]) + struct.pack("<q", value)
        case int() | float():
            return bytes([7 << 2]) + struct.pack("<d", float(value))
        case str():
            data = value.encode("utf-8")
            return bytes([_TEXT << 2]) + _u32(len(data)) + data
        case list():
            parts = [_written(item, names) for item in value]
            return bytes([_ARRAY | (3 | 1 << 2) << 2]) + _u32(len(parts)) + _offsets(parts) + b"".join(parts)
    members = sorted(((names[name], item) for name, item in value.items()), key=itemgetter(0))
    parts = [_written(item, names) for _, item in members]
    idents = b"".join(_u32(ident) for ident, _ in members)
    header = bytes([_OBJECT | (3 | 3 << 2 | 1 << 4) << 2])
    return header + _u32(len(parts)) + idents + _offsets(parts) + b"".join(parts)


def _u32(number: int) -> bytes:
    return struct.pack("<I", number)


def _offsets(parts: Sequence[bytes]) -> bytes:
    """Where each part starts, and where the last one ends."""
    return b"".join(map(_u32, accumulate(map(len, parts), initial=0)))


class _Reading:
    """One value. `_left` is how much may still be read: as many bytes as there are, names apart."""

    def __init__(self, metadata: bytes, value: bytes, depth: int) -> None:
        self._data = value
        self._left = len(value)
        # One level more than is taken, so that it is the depth that is told.
        self._depth = depth + 1
        self._names, self._starts, self._size = metadata, *_dictionary(metadata)
        self._names_left = 8 * 1024 * 1024

    def whole(self) -> Any:
        return self._at(0, 0)

    def _at(self, at: int, depth: int) -> Any:
        header = self._data[at]
        self._read(1)
        basic, rest = header & 3, header >> 2
        if basic == _SHORT_TEXT:
            return self._text(at + 1, rest)
        if basic == _PRIMITIVE:
            return self._primitive(rest, at + 1)
        if depth >= self._depth:
            # What the limit refuses is not looked into.
            return [] if basic != _OBJECT else {}
        return self._members(rest, at + 1, depth) if basic == _OBJECT else self._items(rest, at + 1, depth)

    def _primitive(self, kind: int, at: int) -> Any:
        if kind <= 2:
            return (None, True, False)[kind]
        if kind in _NUMBERS:
            form = _NUMBERS[kind]
            self._read(struct.calcsize(form))
            return struct.unpack_from(form, self._data, at)[0]
        if kind in _DECIMALS:
            return self._decimal(at, _DECIMALS[kind])
        if kind == _TEXT:
            self._read(4)
            return self._text(at + 4, self._number(at, 4))
        raise _Unreadable(f"it holds {_OTHERS.get(kind, 'what nobody knows')}, which JSON has not")

    def _text(self, at: int, length: int) -> str:
        self._read(length)
        found = self._data[at : at + length]
        if len(found) != length:
            raise _Unreadable("a text is cut off")
        return found.decode("utf-8")

    def _decimal(self, at: int, width: int) -> float | int:
        self._read(1 + width)
        scale, digits = self._data[at], self._data[at + 1 : at + 1 + width]
        if len(digits) != width or scale > 38:
            raise _Unreadable("a decimal is cut off")
        exact = Decimal(int.from_bytes(digits, "little", signed=True)).scaleb(-scale)
        number = int(exact) if exact == exact.to_integral_value() else float(exact)
        if isinstance(number, float) and Decimal(repr(number)) != exact:
            raise _Unreadable(f"the decimal {exact} would lose digits")
        return number

    def _members(self, header: int, at: int, depth: int) -> dict[str, Any]:
        width, ident_width, large = (header & 3) + 1, (header >> 2 & 3) + 1, header >> 4 & 1
        at, count = self._count(at, large)
        self._read(count * ident_width + (count + 1) * width)
        offsets = at + count * ident_width
        first = offsets + (count + 1) * width
        found: dict[str, Any] = {}
        for number in range(count):
            name = self._name(self._number(at + number * ident_width, ident_width))
            if name in found:
                raise _Unreadable(f"the key {name[:80]} is there twice")
            found[name] = self._at(first + self._number(offsets + number * width, width), depth + 1)
        return found

    def _items(self, header: int, at: int, depth: int) -> list[Any]:
        width, large = (header & 3) + 1, header >> 2 & 1
        at, count = self._count(at, large)
        self._read((count + 1) * width)
        first = at + (count + 1) * width
        return [
            self._at(first + self._number(at + number * width, width), depth + 1) for number in range(count)
        ]

    def _count(self, at: int, large: int) -> tuple[int, int]:
        width = 4 if large else 1
        self._read(width)
        return at + width, self._number(at, width)

    def _number(self, at: int, width: int) -> int:
        return _number_in(self._data, at, width)

    def _name(self, ident: int) -> str:
        if ident + 1 >= len(self._starts):
            raise _Unreadable("a key is not in its dictionary")
        start, end = self._starts[ident], self._starts[ident + 1]
        if not 0 <= start <= end <= self._size:
            raise _Unreadable("a key lies outside its dictionary")
        self._names_left -= end - start
        if self._names_left < 0:
            raise _Unreadable("its keys are over 8 MiB")
        base = len(self._names) - self._size
        return self._names[base + start : base + end].decode("utf-8")

    def _read(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _Unreadable("its parts lie over each other, or are cut off")


def _dictionary(metadata: bytes) -> tuple[tuple[int, ...], int]:
    """Where each name starts, with the end of the last, and how many bytes all names are."""
    header = metadata[0]
    width = (header >> 6) + 1
    if header & 15 != 1:
        raise _Unreadable("its version is not 1")
    count = _number_in(metadata, 1, width)
    start = 1 + width
    base = start + (count + 1) * width
    if base > len(metadata):
        raise _Unreadable("its dictionary is cut off")
    starts = tuple(_number_in(metadata, start + number * width, width) for number in range(count + 1))
    return starts, len(metadata) - base


def _number_in(data: bytes, at: int, width: int) -> int:
    if at < 0 or at + width > len(data):
        raise _Unreadable("the bytes are cut off")
    return int.from_bytes(data[at : at + width], "little")
