"""The one statement that the published client composes itself, and how it reads the answer.

Its `trace_timeline` reads ids as bytes, times as timestamps, kinds and states by OpenTelemetry's
numbers and attributes as binary Variants, where our columns hold text that people can read. So this
statement, and no other, is answered in that form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bifrost.otlp.traces import KINDS, STATUSES
from wyrd.wire.canonical import strict_loads
from wyrd.wire.parquet_variants import ENCODED, EXTENSION, encoded_variant

_STATEMENT: Final = """
    SELECT trace_id, span_id, parent_span_id, trace_state, flags, name, kind, start_time_unix_nano,
    end_time_unix_nano, status_code, status_message, attributes, dropped_attributes_count, events,
    dropped_events_count, links, dropped_links_count, scope_name, service_name FROM vala.traces.spans
    WHERE trace_id = decode($1, 'hex') OR trace_id IN ( SELECT trace_id FROM ( SELECT trace_id,
    unnest(links) AS link FROM vala.traces.spans) WHERE link['trace_id'] = decode($1, 'hex'))
"""
_WORDS: Final = _STATEMENT.split()

_NANOSECONDS: Final = pa.timestamp("ns", "UTC")
_DEPTH: Final = 128


def is_timeline(sql: str) -> bool:
    """Whether the published client composed this statement; blanks between its words are free."""
    return sql.split() == _WORDS


def as_published(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spans as that client reads them, in the columns of the statement."""
    columns = [
        _FORMS.get(name, _as_it_is)(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    fields = [
        pa.field(name, column.type, metadata=EXTENSION if name == "attributes" else None)
        for name, column in zip(batch.schema.names, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def published_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of what `as_published` makes of batches of `schema`."""
    return as_published(pa.RecordBatch.from_pylist([], schema)).schema


def _as_it_is(column: pa.Array) -> pa.Array:
    return column


def _ids(column: pa.Array) -> pa.Array:
    return pa.array([_id(value) for value in column.to_pylist()], pa.binary())


def _id(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


def _times(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64()).cast(_NANOSECONDS)


def _numbers(words: tuple[str, ...]) -> Callable[[pa.Array], pa.Array]:
    known = pa.array(words)

    def numbered(column: pa.Array) -> pa.Array:
        return pc.fill_null(pc.index_in(column.cast(pa.string()), known), 0).cast(pa.int32())

    return numbered


def _variants(column: pa.Array) -> pa.Array:
    return pa.array([_variant(text) for text in column.to_pylist()], ENCODED)


def _variant(text: str | None) -> dict[str, bytes]:
    return encoded_variant({} if text is None else strict_loads(text, max_depth=_DEPTH))


def _events(column: pa.Array) -> pa.Array:
    made = [
        None if events is None else [{**one, "attributes": _variant(one["attributes"])} for one in events]
        for events in column.to_pylist()
    ]
    return pa.array(made, pa.list_(_EVENT))


def _links(column: pa.Array) -> pa.Array:
    made = [
        None
        if links is None
        else [
            {
                **one,
                "trace_id": _id(one["trace_id"]),
                "span_id": _id(one["span_id"]),
                "attributes": _variant(one["attributes"]),
            }
            for one in links
        ]
        for links in column.to_pylist()
    ]
    return pa.array(made, pa.list_(_LINK))


_ATTRIBUTES: Final = pa.field("attributes", ENCODED, metadata=EXTENSION)
_EVENT: Final = pa.struct(
    [
        pa.field("time_unix_nano", _NANOSECONDS),
        pa.field("name", pa.string()),
        _ATTRIBUTES,
        pa.field("dropped_attributes_count", pa.int64()),
    ]
)
_LINK: Final = pa.struct(
    [
        pa.field("trace_id", pa.binary()),
        pa.field("span_id", pa.binary()),
        pa.field("trace_state", pa.string()),
        _ATTRIBUTES,
        pa.field("dropped_attributes_count", pa.int64()),
        pa.field("flags", pa.int64()),
    ]
)
_FORMS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    **dict.fromkeys(("trace_id", "span_id", "parent_span_id"), _ids),
    **dict.fromkeys(("start_time_unix_nano", "end_time_unix_nano"), _times),
    "kind": _numbers(KINDS),
    "status_code": _numbers(STATUSES),
    "attributes": _variants,
    "events": _events,
    "links": _links,
}
