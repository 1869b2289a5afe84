"""The published client's trace timeline: its own statement, answered as it reads it; no other is touched."""

from __future__ import annotations

import pyarrow as pa

from bifrost.oracle.timeline import as_published, is_timeline, published_schema
from wyrd.wire.parquet_variants import decoded_variants
from wyrd.wire.row_faults import Place

SENT = (
    "SELECT trace_id, span_id, parent_span_id, trace_state, flags, name, kind, start_time_unix_nano,"
    " end_time_unix_nano, status_code, status_message, attributes, dropped_attributes_count, events,"
    " dropped_events_count, links, dropped_links_count, scope_name, service_name FROM vala.traces.spans"
    " WHERE trace_id = decode($1, 'hex') OR trace_id IN ( SELECT trace_id FROM ( SELECT trace_id,"
    " unnest(links) AS link FROM vala.traces.spans) WHERE link['trace_id'] = decode($1, 'hex'))"
)
"""As version 0.3.0 sent it."""

EVENT = pa.struct(
    [
        ("time_unix_nano", pa.int64()),
        ("name", pa.string()),
        ("attributes", pa.string()),
        ("dropped_attributes_count", pa.int64()),
    ]
)
LINK = pa.struct(
    [
        ("trace_id", pa.string()),
        ("span_id", pa.string()),
        ("trace_state", pa.string()),
        ("attributes", pa.string()),
        ("dropped_attributes_count", pa.int64()),
        ("flags", pa.int64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("trace_id", pa.string()),
        ("span_id", pa.string()),
        ("parent_span_id", pa.string()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("start_time_unix_nano", pa.int64()),
        ("status_code", pa.string()),
        ("attributes", pa.string()),
        ("events", pa.list_(EVENT)),
        ("links", pa.list_(LINK)),
    ]
)
SPAN = {
    "trace_id": "0a" * 16,
    "span_id": "0b" * 8,
    "parent_span_id": None,
    "name": "answer",
    "kind": "client",
    "start_time_unix_nano": 1_796_089_470_282_205_561,
    "status_code": "error",
    "attributes": '{"a":[1,null,"é"]}',
    "events": [{"time_unix_nano": 5, "name": "e", "attributes": '{"b":true}', "dropped_attributes_count": 0}],
    "links": [
        {
            "trace_id": "0c" * 16,
            "span_id": "0d" * 8,
            "trace_state": "",
            "attributes": None,
            "dropped_attributes_count": 1,
            "flags": 1,
        }
    ],
}


def test_only_the_statement_of_the_published_client_is_taken_for_it() -> None:
    assert is_timeline(SENT)
    assert is_timeline(f"  {SENT}\n")
    assert not is_timeline(SENT.replace("span_id, ", "", 1))
    assert not is_timeline("SELECT trace_id FROM vala.traces.spans WHERE trace_id = decode($1, 'hex')")


def test_spans_have_the_types_that_the_published_client_insists_on() -> None:
    batch = as_published(pa.RecordBatch.from_pylist([SPAN], SCHEMA))
    assert batch.schema.equals(published_schema(SCHEMA), check_metadata=True)
    types = {field.name: field.type for field in batch.schema}
    assert types["trace_id"] == types["span_id"] == types["parent_span_id"] == pa.binary()
    assert types["start_time_unix_nano"] == pa.timestamp("ns", "UTC")
    assert types["kind"] == types["status_code"] == pa.int32()
    assert batch.schema.field("attributes").metadata[b"ARROW:extension:name"] == b"arrow.parquet.variant"
    [trace_id] = batch.column("trace_id").to_pylist()
    assert trace_id == b"\x0a" * 16
    assert batch.column("start_time_unix_nano").cast(pa.int64()).to_pylist() == [SPAN["start_time_unix_nano"]]
    # Numbers of OpenTelemetry: a client span, an error.
    assert (batch.column("kind").to_pylist(), batch.column("status_code").to_pylist()) == ([3], [2])
    assert decoded_variants(batch.column("attributes"), Place("attributes")).to_pylist() == [
        SPAN["attributes"]
    ]
    event = batch.column("events").values.field("attributes")
    assert decoded_variants(event, Place("event")).to_pylist() == ['{"b":true}']
    [[link]] = batch.column("links").to_pylist()
    assert (link["trace_id"], link["span_id"]) == (b"\x0c" * 16, b"\x0d" * 8)
    # No attributes are an empty object: the client reads no null there.
    links = batch.column("links").values.field("attributes")
    assert decoded_variants(links, Place("link")).to_pylist() == ["{}"]


def test_the_answer_of_a_trace_that_nobody_recorded_has_the_same_columns() -> None:
    empty = as_published(pa.RecordBatch.from_pylist([], SCHEMA))
    assert empty.num_rows == 0
    assert empty.schema.equals(published_schema(SCHEMA), check_metadata=True)
