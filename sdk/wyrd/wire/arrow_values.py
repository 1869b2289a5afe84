"""Values of one plain type as an Arrow array, strictly: nothing is rounded, guessed or truncated.

Each type names the Python types that Arrow converts exactly, so that a column of them is one call.
Any other column is looked at value by value, which also finds the value that is to blame.
"""

from __future__ import annotations

import base64
import binascii
import math
import numbers
import operator
import re
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cache, partial
from types import NoneType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wyrd.wire import arrow_times as times
from wyrd.wire.arrow_fields import UTC_MICROSECONDS, stored_type
from wyrd.wire.bifrost import DataType
from wyrd.wire.row_faults import Misfit, Place, misfit, not_a

_NUMBER = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?", re.ASCII)

_Bulk = Callable[[list[Any]], "pa.Array | None"]


def _holds_all(_array: pa.Array) -> bool:
    return True


@dataclass(frozen=True)
class _Plain:
    """`exact`: types of values that Arrow converts to `read` without loss or refuses. `holds` looks
    at what came of it. `one` converts a single value or raises `Misfit`. `bulk` reads a column whose
    values are all of that one type, or answers None."""

    read: pa.DataType
    exact: frozenset[type]
    one: Callable[[Any], Any]
    holds: Callable[[pa.Array], bool] = _holds_all
    bulk: Mapping[type, _Bulk] = field(default_factory=dict)


def plain_array(data_type: DataType, values: list[Any], place: Place) -> pa.Array:
    """The values of a plain column type as it is stored; None is null.

    Raises `WYRD_SPEC_400_VALIDATION` naming the field and row of the first value that does not fit.
    """
    plain = _plain(_key(data_type))
    array = _at_once(plain, values)
    if array is None:
        array = pa.array(_one_by_one(plain, values, place), plain.read)
    stored = stored_type(data_type)
    return array if array.type == stored else array.cast(stored)


def _at_once(plain: _Plain, values: list[Any]) -> pa.Array | None:
    types = set(map(type, values))
    types.discard(NoneType)
    try:
        if types <= plain.exact:
            array = pa.array(values, plain.read)
            return array if plain.holds(array) else None
        bulk = plain.bulk.get(types.pop()) if len(types) == 1 else None
        array = None if bulk is None else bulk(values)
        return array if array is not None and plain.holds(array) else None
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        pass
    return None


def _one_by_one(plain: _Plain, values: Sequence[Any], place: Place) -> list[Any]:
    found = []
    for index, value in enumerate(values):
        if type(value).__module__ == "numpy" and hasattr(value, "item"):
            value = value.item()
        try:
            found.append(None if value is None else plain.one(value))
        except Misfit as fault:
            raise misfit(place, index, str(fault)) from None
    return found


def _whole(least: int, most: int, value: Any) -> int:
    if isinstance(value, bool):
        raise not_a("an integer", value)
    if isinstance(value, float):
        if not value.is_integer():
            raise not_a("an integer", value)
        value = int(value)
    try:
        number = operator.index(value)
    except TypeError:
        raise not_a("an integer", value) from None
    if not least <= number <= most:
        raise Misfit(f"is out of range: {least} to {most}")
    return number


def _real(single: bool, value: Any) -> float:
    rounds = isinstance(value, float)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise not_a("a number", value)
    try:
        number = float(value)
        held = struct.unpack("<f", struct.pack("<f", number))[0] if single else number
    except OverflowError:
        raise Misfit("is out of range") from None
    if not math.isfinite(number):
        raise Misfit("is not a finite number")
    if held != value and not rounds:
        raise Misfit("is an integer that a float column cannot hold exactly")
    return number


def _finite(array: pa.Array) -> bool:
    return pc.all(pc.is_finite(array)).as_py() is not False


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise not_a("a boolean", value)


def _text(value: Any) -> str:
    if isinstance(value, uuid.UUID):
        return str(value)
    if not isinstance(value, str):
        raise not_a("text", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Misfit("holds half of a surrogate pair") from None
    return str.__str__(value)


def _bytes(length: int | None, value: Any) -> bytes:
    if isinstance(value, str):
        try:
            value = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise Misfit("is not bytes in standard base64") from None
    elif not isinstance(value, bytes | bytearray | memoryview):
        raise not_a("bytes", value)
    found = bytes(value)
    if length is not None and len(found) != length:
        raise Misfit(f"has {len(found)} bytes, not {length}")
    return found


def _decimal(target: pa.DataType, value: Any) -> Decimal:
    if isinstance(value, Decimal):
        found = value
    elif (isinstance(value, str) and _NUMBER.fullmatch(value)) or type(value) is int:
        found = Decimal(value)
    else:
        raise not_a("a decimal: send it as text or as an integer", value)
    try:
        pa.scalar(found, target)
    except (pa.ArrowException, ValueError, OverflowError):
        raise Misfit(f"does not fit {target.precision} digits with {target.scale} after the point") from None
    return found


_WIDTHS: Final[dict[str, pa.DataType]] = {
    "Int8": pa.int8(),
    "Int16": pa.int16(),
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "UInt8": pa.uint8(),
    "UInt16": pa.uint16(),
    "UInt32": pa.uint32(),
}


def declared_type(data_type: DataType) -> pa.DataType:
    """The Arrow type whose values a column may have: narrower than it is stored, for integers."""
    if isinstance(data_type, str) and data_type in _WIDTHS:
        return _WIDTHS[data_type]
    return stored_type(data_type)


def _key(data_type: DataType) -> tuple[str, int, bool]:
    """What distinguishes plain types, as something that can be a key."""
    if isinstance(data_type, str):
        return data_type, 0, False
    if data_type.Timestamp is not None:
        return "Timestamp", 0, data_type.Timestamp.tz is not None
    if data_type.FixedSizeBinary is not None:
        return "FixedSizeBinary", data_type.FixedSizeBinary.len, False
    if data_type.Decimal128 is not None:
        return "Decimal128", data_type.Decimal128.precision * 100 + data_type.Decimal128.scale, False
    return "Time", 0, False


@cache
def _plain(key: tuple[str, int, bool]) -> _Plain:
    name, number, zoned = key
    if name in _WIDTHS:
        read = _WIDTHS[name]
        bits = read.bit_width
        signed = name.startswith("I")
        least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return _Plain(read, frozenset([int]), partial(_whole, least, most))
    if name in ("Float32", "Float64"):
        single = name == "Float32"
        read = pa.float32() if single else pa.float64()
        # Arrow rounds integers on their way to single precision, so those are looked at one by one.
        exact = frozenset([float]) if single else frozenset([float, int])
        return _Plain(read, exact, partial(_real, single), _finite)
    if name == "Bool":
        return _Plain(pa.bool_(), frozenset([bool]), _truth)
    if name in ("Utf8", "LargeUtf8"):
        return _Plain(pa.string(), frozenset([str]), _text)
    if name in ("Binary", "LargeBinary"):
        return _Plain(pa.binary(), frozenset([bytes]), partial(_bytes, None))
    if name == "FixedSizeBinary":
        return _Plain(pa.binary(number), frozenset([bytes]), partial(_bytes, number))
    if name in ("Date32", "Date64"):
        bulk: dict[type, _Bulk] = {str: times.date_texts}
        return _Plain(pa.date32(), frozenset([date]), times.day, times.in_calendar, bulk)
    if name == "Time":
        return _Plain(pa.time64("us"), frozenset(), times.clock)
    if name == "Decimal128":
        target = pa.decimal128(*divmod(number, 100))
        return _Plain(target, frozenset([Decimal]), partial(_decimal, target))
    if zoned:
        bulk = {str: times.zoned_texts, datetime: times.zoned_datetimes}
        return _Plain(UTC_MICROSECONDS, frozenset(), times.zoned_instant, times.in_calendar, bulk)
    bulk = {str: times.plain_texts, datetime: times.plain_datetimes}
    return _Plain(times.PLAIN_MICROSECONDS, frozenset(), times.plain_instant, times.in_calendar, bulk)
