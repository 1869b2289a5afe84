"""A query's answer as the peer sends it: frames written by hand, not by the server's own code."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from tests.sdk.peer import Answer

CONTENT_TYPE = "application/vnd.wyrd.bifrost-query-stream"
EOS = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def sized(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def frame(kind: int, body: bytes) -> bytes:
    message = sized(kind, body)
    return varint(len(message)) + message


def schema(of: pa.Schema) -> bytes:
    return frame(1, sized(1, b"fingerprint") + sized(2, of.serialize().to_pybytes()))


def batch(of: pa.RecordBatch) -> bytes:
    return frame(2, sized(1, of.serialize().to_pybytes()))


def terminal(rows: int, outcome: int = 1, problem: dict[str, Any] | None = None) -> bytes:
    sources = b"".join(
        sized(5, number(1, source) + number(2, 2 if outcome == 2 and source == 3 else 1))
        for source in (1, 2, 3)
    )
    warnings = sized(4, varint(1)) if outcome == 2 else b""
    end = sized(9, json.dumps(problem).encode()) if problem is not None else sized(7, EOS)
    return frame(3, number(1, outcome) + number(3, rows) + warnings + sources + end + number(8, 1))


def answered(*batches: pa.RecordBatch, of: pa.Schema | None = None) -> Answer:
    """A whole answer of these batches."""
    shape = of if of is not None else batches[0].schema
    parts = [schema(shape), *map(batch, batches), terminal(sum(one.num_rows for one in batches))]
    return Answer(
        raw=b"".join(parts), headers={"content-type": CONTENT_TYPE, "x-wyrd-query-deadline-ms": "60000"}
    )
