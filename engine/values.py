"""JSON values as judgement sees them: their types, their equality, and how a reason shows them.

Equality is that of JSON (RFC 8259): 1, 1.0 and 1e0 are the same number at any depth, integers
are exact at any size, and a boolean is never a number.
"""

from __future__ import annotations

import json
import math
from typing import Any

from wyrd.wire.canonical import JsonRefused, canonical_json

TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
"""The Python types that carry JSON, with the names JSON gives them."""

_SHOWN = 120
_TEXT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class NotJudgeable(Exception):
    """A value holds a number that is not finite, or something that is not JSON."""


def type_name(value: Any) -> str:
    """null, boolean, number, string, array or object; for anything else the Python type's name."""
    return TYPE_NAMES.get(type(value)) or type(value).__name__


def equal(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON. Raises `NotJudgeable` on meeting NaN or an infinity."""
    kind, other = type(left), type(right)
    if kind is str or other is str:
        return kind is other and bool(left == right)
    if kind is dict:
        if other is not dict or len(left) != len(right):
            return False
        return all(name in right and equal(item, right[name]) for name, item in left.items())
    if kind is list:
        if other is not list or len(left) != len(right):
            return False
        return all(equal(item, twin) for item, twin in zip(left, right, strict=True))
    if (kind is float and not math.isfinite(left)) or (other is float and not math.isfinite(right)):
        raise NotJudgeable
    if kind is int or kind is float:
        return (other is int or other is float) and bool(left == right)
    return kind is other and bool(left == right)


def key(value: Any) -> str | bytes:
    """A hashable stand-in: two values have the same key exactly when they are `equal`.

    Text, so that its hashes are salted: integers chosen to collide in a set cost nothing extra.
    Raises `NotJudgeable` for what is not JSON.
    """
    if type(value) is str:
        return value
    try:
        return canonical_json(value)
    except JsonRefused:
        raise NotJudgeable from None


def show(value: Any) -> str:
    """A value in a sentence: compact JSON, cut at about 120 characters."""
    kind = type(value)
    if kind is str:
        if len(value) > _SHOWN:
            return f"{_TEXT.encode(value[:_SHOWN])}… ({len(value)} characters)"
        return _TEXT.encode(value)
    if kind is float:
        return repr(value)
    if kind is int:
        return repr(value) if value.bit_length() <= 400 else f"an integer of {value.bit_length()} bits"
    if kind is list or kind is dict:
        return _show_nested(value)
    try:
        return _TEXT.encode(value)
    except TypeError:
        return f"a value of type {kind.__name__}"


def _show_nested(value: Any) -> str:
    shape = f"an array of {len(value)} items" if type(value) is list else f"an object of {len(value)} members"
    if len(value) > _SHOWN // 2:
        return shape
    try:
        if type(value) is list and all(type(item) is str and len(item) <= _SHOWN for item in value):
            text = _TEXT.encode(value)
        else:
            text = _beginning(value)
    except (TypeError, ValueError):
        return shape
    return text if len(text) <= _SHOWN else shape


def _beginning(value: Any) -> str:
    """The JSON text, no further than a little past what is shown, however much there is."""
    text = ""
    for piece in _TEXT.iterencode(value):
        text += piece
        if len(text) > _SHOWN:
            break
    return text
