"""Attribute values as plain JSON values, and what records say of their run and Card."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from bifrost.otlp.faults import RecordRejected

MAX_DEPTH = 60
"""Nesting of one attribute's value, so that it fits a JSON column whatever holds it."""

CARD_UID = "wyrd.card_uid"
RUN_ID = "wyrd.run_id"
LARGEST = 2**63 - 1
"""Columns hold signed integers; nothing that counts or tells time comes near."""


def plain(value: Any, depth: int = 0) -> Any:
    """An AnyValue as a JSON value: integers exact, bytes as base64, doubles that JSON cannot write
    as "NaN", "Infinity" and "-Infinity"; null where nothing is set."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "int_value":
        return value.int_value
    if kind == "bool_value":
        return value.bool_value
    if kind == "double_value":
        return finite(value.double_value)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode("ascii")
    if depth >= MAX_DEPTH:
        raise RecordRejected(f"an attribute is nested deeper than {MAX_DEPTH}")
    if kind == "array_value":
        return [plain(item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: plain(pair.value, depth + 1) for pair in value.kvlist_value.values}
    return None


def finite(value: float) -> float | str:
    """A double as JSON can hold it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    """Attributes as an object; of two with the same key the later one counts."""
    return {pair.key: plain(pair.value) for pair in pairs}


def text(value: Any) -> str:
    """JSON text of a plain value, as JSON columns hold it."""
    return orjson.dumps(value).decode("utf-8")


def whole(value: int, name: str) -> int:
    """A count or time that fits its column."""
    if value > LARGEST:
        raise RecordRejected(f"{name} is out of range")
    return value


def correlation(own: Mapping[str, Any], resource: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The run id and the Card uid of a record: its own attributes say, else those of its resource."""
    return _named(RUN_ID, own, resource), _named(CARD_UID, own, resource)


def _named(name: str, own: Mapping[str, Any], resource: Mapping[str, Any]) -> str | None:
    found = own.get(name)
    if found is None:
        found = resource.get(name)
    if found is None:
        return None
    if type(found) is not str:
        raise RecordRejected(f"{name} must be a string")
    return found


def identifier(value: bytes, name: str, length: int) -> str:
    """A trace or span id in lower-case hexadecimal digits."""
    if len(value) != length:
        raise RecordRejected(f"{name} has {len(value)} bytes, not {length}")
    if not any(value):
        raise RecordRejected(f"{name} is all zero")
    return value.hex()


def optional_identifier(value: bytes, name: str, length: int) -> str | None:
    """As `identifier`; None where none is given."""
    return identifier(value, name, length) if value else None
