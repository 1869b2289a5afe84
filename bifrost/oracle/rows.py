"""An answer as JSON rows, where nothing is rounded and nothing turns into null.

Integers stay integers of any size. Decimals with a fraction, and floats that are not finite, are
text (`"12.50"`, `"NaN"`, `"Infinity"`). Times are RFC 3339 in UTC, durations ISO 8601, bytes base64,
maps lists of pairs. JSON columns hold their text, as they are stored.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

from bifrost.oracle.answers import Answer
from bifrost.oracle.question import DEFAULT_BYTES, too_large
from wyrd.wire.bifrost import QueryRows


async def collected(answer: Answer, max_bytes: int | None = None) -> QueryRows:
    """The whole answer. Raises what `Answer.messages` does, and
    `WYRD_VALA_413_QUERY_RESULT_TOO_LARGE` when the rows are more than `max_bytes` of JSON."""
    limit = DEFAULT_BYTES if max_bytes is None else max_bytes
    rows: list[list[Any]] = []
    size = 0
    async for batch in answer:
        more = json_rows(batch)
        size += _size(more)
        if size > limit:
            raise too_large(f"the answer has more than {limit} bytes")
        rows += more
    return QueryRows(columns=answer.schema.names, rows=rows, row_count=len(rows))


def _size(rows: list[list[Any]]) -> int:
    try:
        return len(orjson.dumps(rows))
    except TypeError:
        # Integers of more than 64 bits.
        return len(json.dumps(rows, separators=(",", ":")))


def json_rows(batch: pa.RecordBatch) -> list[list[Any]]:
    """The rows of a batch as JSON values, each a list in the order of the columns."""
    columns = [[_value(value) for value in column.to_pylist()] for column in batch.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def _value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _unbounded(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() and _whole(value) else format(value, "f")
        case datetime():
            return _moment(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return _duration(0, 0, round(value / timedelta(microseconds=1)) * 1000)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case pa.MonthDayNano():
            return _duration(*value)
        case dict():
            return {name: _value(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_value(inner) for inner in value]
    return str(value)


def _whole(value: Decimal) -> bool:
    """A number of a column without decimal places: 38 digits of an integer."""
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= 0


def _unbounded(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _moment(value: datetime) -> str:
    utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return utc.isoformat().replace("+00:00", "Z")


def _duration(months: int, days: int, nanoseconds: int) -> str:
    """`P1M2DT3.5S`; every part carries its own sign, as intervals do."""
    seconds = Decimal(nanoseconds) / 1_000_000_000
    text = "P" + (f"{months}M" if months else "") + (f"{days}D" if days else "")
    if nanoseconds or text == "P":
        text += f"T{format(seconds.normalize(), 'f')}S"
    return text
