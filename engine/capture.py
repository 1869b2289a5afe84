"""What results keep of the values a block read: the whole up to a limit, a digest, or nothing.

The verdict never depends on it. Reasons follow it too: only under `full` do they show a value.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NamedTuple

from wyrd.wire.canonical import JsonRefused, digest

ACTUAL_LIMIT = 4096
"""Most bytes of compact UTF-8 JSON that `actual` takes."""

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_MARKER_ROOM = 96


class Capture(StrEnum):
    """The Verifier's `context_capture`."""

    FULL = "full"
    HASH = "hash"
    REDACT = "redact"


class Captured(NamedTuple):
    """`present` tells a kept null from nothing kept."""

    value: Any
    present: bool


NOTHING = Captured(None, False)


def capture(value: Any, mode: Capture, limit: int | None = ACTUAL_LIMIT) -> Captured:
    """What is kept of a JSON value.

    `full`: the value, or beyond `limit` bytes `{"cut": {"size_bytes", "start"}}`, where `start` is
    the beginning of its JSON text and the whole stays under the limit. `hash`: `{"sha256"}` of the
    canonical JSON. `redact`: nothing.
    """
    if mode is Capture.REDACT:
        return NOTHING
    if mode is Capture.HASH:
        try:
            return Captured({"sha256": digest(value)}, True)
        except JsonRefused:
            return NOTHING
    return Captured(value if limit is None else _cut(value, limit), True)


def _cut(value: Any, limit: int) -> Any:
    kind = type(value)
    if kind is bool or value is None or (kind is str and len(value) * 6 + 2 <= limit):
        return value
    # `str` refuses integers of more digits than any text may hold; none such reaches a result.
    encoded = _COMPACT.encode(value).encode("utf-8")
    if len(encoded) <= limit:
        return value
    room = limit - _MARKER_ROOM
    start = encoded[:room].decode("utf-8", "ignore")
    # The start is JSON text inside a JSON string: quotes and backslashes in it are written as two.
    while (written := len(_COMPACT.encode(start).encode("utf-8"))) > room:
        start = start[: len(start) * room // written]
    return {"cut": {"size_bytes": len(encoded), "start": start}}
