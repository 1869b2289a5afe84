"""OTLP/JSON into OTLP messages: by the protobuf JSON mapping, with the identifiers OTLP makes hexadecimal.

Read by the messages' own descriptors, so that traces, logs and metrics have one reading. Taken
leniently where OTLP says so: unknown members are skipped, members may have their proto names,
64-bit integers are numbers or strings, enums numbers or names. A fault inside a span, log record
or data point rejects that one alone.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from bifrost.otlp.faults import NotOtlp, RecordRejected, Rejections
from wyrd.wire.canonical import JsonRefused, strict_loads

MAX_DEPTH = 256
"""Nesting of the JSON text; one level of an attribute's value takes three levels of it."""

_RECORDS = frozenset(
    {
        "Span",
        "LogRecord",
        "Metric",
        "NumberDataPoint",
        "HistogramDataPoint",
        "ExponentialHistogramDataPoint",
        "SummaryDataPoint",
    }
)
_IDS = frozenset({"trace_id", "span_id", "parent_span_id"})
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,4})?")
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_KINDS_OF_METRIC = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


def read_json(body: bytes, request: Message, rejections: Rejections) -> None:
    """Fill an export request from its JSON form. Raises `NotOtlp`."""
    try:
        document = strict_loads(body, max_depth=MAX_DEPTH)
    except JsonRefused as refused:
        raise NotOtlp(refused.reason) from None
    try:
        _fill(request, document, rejections)
    except RecordRejected as fault:
        raise NotOtlp(str(fault)) from None


def _fill(message: Message, document: Any, rejections: Rejections) -> None:
    if type(document) is not dict:
        raise RecordRejected(f"a {message.DESCRIPTOR.name} must be an object")
    known = _members(message.DESCRIPTOR)
    for name, value in document.items():
        member = known.get(name)
        if member is None or value is None:
            continue
        field, scalar = member
        if field.is_repeated:
            if type(value) is not list:
                raise RecordRejected(f"{name} must be an array")
            into = getattr(message, field.name)
            if scalar is not None:
                into.extend([scalar(item, name) for item in value])
            elif field.message_type is not None and field.message_type.name in _RECORDS:
                _fill_records(into, name, value, rejections)
            else:
                for item in value:
                    _fill(into.add(), item, rejections)
        elif scalar is not None:
            setattr(message, field.name, scalar(value, name))
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
            _fill(inner, value, rejections)


def _fill_records(into: Any, name: str, values: list[Any], rejections: Rejections) -> None:
    for index, value in enumerate(values):
        before = rejections.count
        try:
            _fill(into.add(), value, rejections)
        except RecordRejected as fault:
            del into[-1]
            # Points of a metric that is rejected as a whole are in its weight.
            rejections.count = before
            rejections.add(f"{name}[{index}]", fault, _weight(value))


def _weight(record: Any) -> int:
    """How many records go with a rejected one: a metric's points, which stand inside it."""
    if type(record) is dict:
        for kind in _KINDS_OF_METRIC:
            held = record.get(kind)
            points = held.get("dataPoints") if type(held) is dict else None
            if type(points) is list:
                return max(1, len(points))
    return 1


_Scalar = Callable[[Any, str], Any]


@lru_cache(maxsize=64)
def _members(descriptor: Descriptor) -> Mapping[str, tuple[FieldDescriptor, _Scalar | None]]:
    found: dict[str, tuple[FieldDescriptor, _Scalar | None]] = {}
    for field in descriptor.fields:
        found[field.name] = found[field.json_name] = (field, _scalar(field))
    return found


def _scalar(field: FieldDescriptor) -> _Scalar | None:
    """How one value of the field is read; None for messages."""
    kind = field.type
    if kind in _RANGES:
        lowest, highest = _RANGES[kind]
        return lambda value, name: _integer(value, name, lowest, highest)
    if kind == FieldDescriptor.TYPE_MESSAGE:
        return None
    names = field.enum_type
    if names is not None:
        return lambda value, name: _enum(value, name, names)
    if kind == FieldDescriptor.TYPE_BYTES:
        return _identifier if field.name in _IDS else _bytes
    return {
        FieldDescriptor.TYPE_STRING: _string,
        FieldDescriptor.TYPE_BOOL: _boolean,
        FieldDescriptor.TYPE_DOUBLE: _double,
    }[kind]


_RANGES = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_SINT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_FIXED64: (0, 2**64 - 1),
}


def _integer(value: Any, name: str, lowest: int, highest: int) -> int:
    text = type(value) is str and _INTEGER.fullmatch(value) is not None
    if text or (type(value) is float and value.is_integer()):
        value = int(value)
    if type(value) is not int:
        raise RecordRejected(f"{name} must be an integer")
    if not lowest <= value <= highest:
        raise RecordRejected(f"{name} is out of range")
    return value


def _enum(value: Any, name: str, names: EnumDescriptor) -> int:
    if type(value) is str and not _INTEGER.fullmatch(value):
        found = names.values_by_name.get(value)
        if found is None:
            raise RecordRejected(f"{name} has no value of that name")
        return int(found.number)
    return _integer(value, name, -(2**31), 2**31 - 1)


def _identifier(value: Any, name: str) -> bytes:
    if type(value) is str:
        try:
            # Not `fromhex` alone: that skips white space.
            return binascii.unhexlify(value)
        except (binascii.Error, ValueError):
            pass
    raise RecordRejected(f"{name} must be hexadecimal digits")


def _bytes(value: Any, name: str) -> bytes:
    if type(value) is str:
        standard = value.replace("-", "+").replace("_", "/").rstrip("=")
        try:
            return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
        except (binascii.Error, ValueError):
            pass
    raise RecordRejected(f"{name} must be base64")


def _string(value: Any, name: str) -> str:
    if type(value) is not str:
        raise RecordRejected(f"{name} must be a string")
    return value


def _boolean(value: Any, name: str) -> bool:
    if type(value) is not bool:
        raise RecordRejected(f"{name} must be true or false")
    return value


def _double(value: Any, name: str) -> float:
    if type(value) is str:
        if value in _SPECIAL:
            return _SPECIAL[value]
        if _NUMBER.fullmatch(value):
            value = float(value)
    if type(value) is int or type(value) is float:
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if math.isfinite(found):
            return found
    raise RecordRejected(f"{name} must be a number")
