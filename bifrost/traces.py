"""The trace document: what a trace slot reads as, made of the recorded spans of one trace."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from bifrost.names import TRACE_SPANS
from bifrost.reading import Cuts
from store.caller import Tenant
from wyrd.wire.canonical import strict_loads

WAIT_SECONDS = 5.0
"""How long the first span of a trace is waited for."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DEPTH = 128

_COLUMNS = [
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "kind",
    "start_time_unix_nano",
    "end_time_unix_nano",
    "duration_ms",
    "status_code",
    "attributes",
    "events",
    "links",
    "card_uid",
    "wyrd_ingested_at",
    "wyrd_batch_id",
    "wyrd_row_ordinal",
]


async def trace_document(
    cuts: Cuts,
    tenant: Tenant,
    trace_id: str,
    *,
    wait: float = WAIT_SECONDS,
    readable: frozenset[str] | None = None,
) -> dict[str, Any] | None:
    """`{trace_id, spans}` of a trace of the tenant; None when no span of it is recorded after `wait` seconds.

    Each span is once there, as it was recorded first, in the order of start times and span ids.
    With `readable`, spans that are attributed to any other Card are left out.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    pause = _FIRST_PAUSE
    while True:
        table = await cuts.rows(
            tenant, TRACE_SPANS, filter=pc.field("trace_id") == trace_id, columns=_COLUMNS
        )
        found = await asyncio.to_thread(_document, trace_id, table.to_pylist(), readable)
        if found["spans"]:
            return found
        left = deadline - loop.time()
        if left <= 0:
            return None
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)


def _document(trace_id: str, rows: list[dict[str, Any]], readable: frozenset[str] | None) -> dict[str, Any]:
    rows = [row for row in rows if readable is None or row["card_uid"] is None or row["card_uid"] in readable]
    rows.sort(key=lambda row: (row["wyrd_ingested_at"], row["wyrd_batch_id"], row["wyrd_row_ordinal"]))
    once: dict[str, dict[str, Any]] = {}
    for row in rows:
        once.setdefault(row["span_id"], row)
    ordered = sorted(once.values(), key=lambda row: (row["start_time_unix_nano"], row["span_id"]))
    return {"trace_id": trace_id, "spans": [_span(row) for row in ordered]}


def _span(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trace_id": row["trace_id"],
        "span_id": row["span_id"],
        "parent_span_id": row["parent_span_id"],
        "name": row["name"],
        "kind": row["kind"],
        "start_time": instant(row["start_time_unix_nano"]),
        "end_time": instant(row["end_time_unix_nano"]),
        "duration_ms": row["duration_ms"],
        "status": row["status_code"],
        "attributes": _attributes(row["attributes"]),
        "events": [
            {
                "name": event["name"],
                "time": instant(event["time_unix_nano"]),
                "attributes": _attributes(event["attributes"]),
            }
            for event in row["events"]
        ],
        "links": [
            {
                "trace_id": link["trace_id"],
                "span_id": link["span_id"],
                "attributes": _attributes(link["attributes"]),
            }
            for link in row["links"]
        ],
    }


def _attributes(text: str) -> Any:
    return strict_loads(text, max_depth=_DEPTH)


def instant(nanoseconds: int) -> str:
    """A Unix time as RFC 3339 in UTC, all nine digits of its fraction written."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
