"""How a query's process and the service talk: frames over one stream, each a kind and its bytes.

The service sends `ask` (sql, params), then a `cut` for each table that the process named, with an
Arrow stream of its tail; or `nothing` when one cannot be had. The process sends `tables`, then an
Arrow schema, record batches, and `end`; or, in the place of any of them, how the query failed.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import orjson

HEAD: Final = struct.Struct("!IB")
"""Length of the payload, and its kind."""

DOCUMENT: Final = 1
"""A JSON object; its `is` says what."""
ARROW: Final = 2
"""An Arrow message or stream; a record batch is behind `ROWS`."""

ROWS: Final = struct.Struct("!I")

MAX_FRAME: Final = 512 * 1024 * 1024
PIECE_BYTES: Final = 1024 * 1024
"""Batches are sent in pieces of about this size, a row at the least."""


def framed(kind: int, payload: bytes) -> bytes:
    return HEAD.pack(len(payload), kind) + payload


def document(what: str, **members: Any) -> bytes:
    return framed(DOCUMENT, orjson.dumps({"is": what, **members}))


def packed(value: bool | int | float | str | None) -> Any:
    """A parameter as JSON that keeps every integer: those go as text."""
    return [str(value)] if isinstance(value, int) and not isinstance(value, bool) else value


def unpacked(value: Any) -> Any:
    return int(value[0]) if isinstance(value, list) else value
