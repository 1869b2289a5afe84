"""The published query stream: one schema frame, a frame a batch, and one that says how it ended.

Every frame is the protobuf message `QueryStreamFrame` behind its length as a varint. Its few fields
are written here by number: there is no schema file of it to generate from.
"""

from __future__ import annotations

from typing import Final

CONTENT_TYPE: Final = "application/vnd.wyrd.bifrost-query-stream"

END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""What ends an Arrow stream."""

_SCHEMA, _BATCH, _TERMINAL = 1, 2, 3
_SUCCESS, _FAILED = 1, 3
_SOURCES: Final = (1, 2, 3)
_COMPLETE: Final = 1
_CLASSES: Final = {"interactive": 1, "analytical": 2}


def schema_frame(message: bytes) -> bytes:
    """`message` is an encapsulated Arrow schema message."""
    return _frame(_SCHEMA, _bytes(2, message))


def batch_frame(message: bytes) -> bytes:
    """`message` is an encapsulated Arrow record batch message."""
    return _frame(_BATCH, _bytes(1, message))


def success_frame(rows: int, query_class: str) -> bytes:
    """Everything was read and sent: `rows` is the sum of the batches."""
    return _frame(
        _TERMINAL,
        _number(1, _SUCCESS)
        + _number(3, rows)
        + _sources()
        + _bytes(7, END_OF_STREAM)
        + _number(8, _CLASSES[query_class]),
    )


def failed_frame(rows: int, query_class: str, problem: bytes) -> bytes:
    """The query failed after `rows` rows; `problem` is the whole problem document as JSON."""
    return _frame(
        _TERMINAL,
        _number(1, _FAILED)
        + _number(3, rows)
        + _sources()
        + _number(8, _CLASSES[query_class])
        + _bytes(9, problem),
    )


def _frame(field: int, message: bytes) -> bytes:
    body = _bytes(field, message)
    return _varint(len(body)) + body


def _sources() -> bytes:
    return b"".join(_bytes(5, _number(1, source) + _number(2, _COMPLETE)) for source in _SOURCES)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
