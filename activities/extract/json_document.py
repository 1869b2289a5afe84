"""json: the one document in the file, parsed strictly."""

from __future__ import annotations

import codecs
from typing import Any

from activities.extract import limits
from activities.extract.reading import Reading, over_limit, unreadable
from engine.lines import count_lines
from wyrd.wire.canonical import JsonRefused, strict_loads


def check(data: bytes) -> None:
    """Raises EVIDENCE_UNREADABLE when the bytes are not one JSON document."""
    _parse(data)


def extract(data: bytes) -> Reading:
    """`{format, value}`; integers keep every digit."""
    content, value = _parse(data)
    return Reading(output={"format": "json", "value": value}, lines=count_lines(content))


def _parse(data: bytes) -> tuple[str, Any]:
    # A byte order mark is not JSON, but RFC 8259 lets a reader pass over it, and Windows writes it.
    start = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    try:
        content = str(memoryview(data)[start:], "utf-8")
    except UnicodeDecodeError as error:
        raise unreadable(f"not JSON: not UTF-8 at byte {start + error.start}") from None
    try:
        return content, strict_loads(content, max_depth=limits.JSON_DEPTH)
    except JsonRefused as refused:
        if refused.reason.startswith("nested deeper"):
            raise over_limit(f"JSON {refused.reason}") from None
        raise unreadable(f"not JSON as this system takes it: {refused.reason}") from None
