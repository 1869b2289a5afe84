"""JSON at the edge: the strict parser, the canonical form, and digests.

Nothing else in the project parses untrusted JSON or decides what two equal documents are.
Canonical form (for digests, spec hashes and idempotency): UTF-8, keys sorted by code point, no
white space, shortest round-trip numbers with integral values written as integers of any size
(1.0 and 1e0 are 1), strings escaped minimally.
"""

from __future__ import annotations

import hashlib
import json
import math
from enum import StrEnum
from typing import Any

MAX_DEPTH = 64
"""Deepest nesting of arrays and objects in request bodies and evidence."""

MAX_DIGITS = 4300
"""Longest integer literal, in digits: parsing longer ones takes quadratic time."""


class JsonFault(StrEnum):
    """What kind of refusal it is, for callers that may not repeat the text's own words."""

    SYNTAX = "syntax"
    ENCODING = "encoding"
    DUPLICATE_KEY = "duplicate key"
    NOT_FINITE = "not a finite number"
    LIMIT = "limit"
    """Valid JSON perhaps, but over a limit of ours (nesting, digits)."""


class JsonRefused(ValueError):
    """The text is not JSON as this system takes it. `reason` says why, `pointer` where if known."""

    def __init__(self, reason: str, pointer: str = "", fault: JsonFault = JsonFault.SYNTAX) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer
        self.fault = fault


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonRefused(f"duplicate key {key[:80]!r}", fault=JsonFault.DUPLICATE_KEY)
            seen.add(key)
    return found


def _constant(text: str) -> Any:
    raise JsonRefused(f"{text} is not JSON", fault=JsonFault.NOT_FINITE)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JsonRefused(f"number {text[:40]} is out of range", fault=JsonFault.NOT_FINITE)
    return value


def _int(text: str) -> int:
    if len(text) - text.startswith("-") > MAX_DIGITS:
        raise JsonRefused(
            f"an integer of {len(text)} digits is over the limit of {MAX_DIGITS}", fault=JsonFault.LIMIT
        )
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float, parse_int=_int, strict=True
)


def depth_of(value: Any, limit: int) -> int:
    """Nesting depth of a JSON value (a scalar is 0), counted no further than one past `limit`."""
    depth = 0
    level = [value]
    while level:
        nested: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                nested.extend(item.values())
            elif isinstance(item, list):
                nested.extend(item)
        if not nested and not any(isinstance(item, dict | list) for item in level):
            return depth
        depth += 1
        if depth > limit:
            return depth
        level = nested
    return depth


def strict_loads(text: str | bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Parse exactly one JSON document (RFC 8259).

    Refused with `JsonRefused`: bytes that are not UTF-8, NaN and infinities, numbers out of
    range, duplicate keys, lone surrogates, text around the document, nesting over `max_depth`.
    """
    if isinstance(text, bytes | bytearray):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise JsonRefused(f"not UTF-8 at byte {error.start}", fault=JsonFault.ENCODING) from None
    try:
        value = _DECODER.decode(text)
    except JsonRefused:
        raise
    except json.JSONDecodeError as error:
        raise JsonRefused(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise JsonRefused(f"nested deeper than {max_depth}", fault=JsonFault.LIMIT) from None
    if isinstance(value, dict | list) and depth_of(value, max_depth) > max_depth:
        raise JsonRefused(f"nested deeper than {max_depth}", fault=JsonFault.LIMIT)
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise JsonRefused("a string holds half of a surrogate pair", fault=JsonFault.ENCODING) from None
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise JsonRefused("NaN and infinities are not JSON", fault=JsonFault.NOT_FINITE)
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """The canonical bytes of a JSON value. Raises `JsonRefused` for NaN, infinities and non-JSON."""
    try:
        return _ENCODER.encode(_plain(value)).encode("utf-8")
    except (TypeError, ValueError) as error:
        if isinstance(error, JsonRefused):
            raise
        raise JsonRefused(f"not a JSON value: {error}") from None


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, 64 lower-case hexadecimal characters."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def sha256_hex(data: bytes) -> str:
    """SHA-256 of bytes as they are."""
    return hashlib.sha256(data).hexdigest()
