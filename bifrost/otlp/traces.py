"""Spans of an OTLP trace export as rows of `vala.traces.spans`."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bifrost.otlp.batch import SHARED, Rows, Scoped, scoped
from bifrost.otlp.faults import RecordRejected, Rejections
from bifrost.otlp.values import LARGEST, attributes, correlation, identifier, text, whole

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUSES = ("unset", "ok", "error")

COLUMNS = (
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "kind",
    "trace_state",
    "flags",
    "start_time_unix_nano",
    "end_time_unix_nano",
    "duration_ms",
    "status_code",
    "status_message",
    "attributes",
    "events",
    "links",
    "dropped_attributes_count",
    "dropped_events_count",
    "dropped_links_count",
    *SHARED,
    "run_id",
    "card_uid",
)


def span_rows(request: ExportTraceServiceRequest, rejections: Rejections) -> Rows:
    """One row a span; a span is known by its trace id and its own."""
    rows = Rows(COLUMNS, rejections)
    for shared, one in scoped(request.resource_spans, "scope_spans"):
        for index, span in enumerate(one.spans):
            try:
                row = _row(span, shared)
            except RecordRejected as fault:
                rejections.add(f"span {index} ({span.name[:80]})", fault)
            else:
                rows.add(row[0] + row[1], row)
    return rows


def _row(span: Any, shared: Scoped) -> tuple[Any, ...]:
    own = attributes(span.attributes)
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    if start > LARGEST or end > LARGEST:
        raise RecordRejected("its time is out of range")
    return (
        identifier(span.trace_id, "trace_id", 16),
        identifier(span.span_id, "span_id", 8),
        _parent(span.parent_span_id),
        span.name,
        KINDS[span.kind] if 0 <= span.kind < len(KINDS) else KINDS[0],
        span.trace_state,
        span.flags,
        start,
        end,
        max(0, end - start) / 1e6,
        STATUSES[span.status.code] if 0 <= span.status.code < len(STATUSES) else STATUSES[0],
        span.status.message,
        text(own),
        [_event(event) for event in span.events],
        [_link(link) for link in span.links],
        span.dropped_attributes_count,
        span.dropped_events_count,
        span.dropped_links_count,
        *shared.columns,
        *correlation(own, shared.resource),
    )


def _parent(value: bytes) -> str | None:
    # Some producers say "no parent" with zeros instead of nothing.
    return identifier(value, "parent_span_id", 8) if any(value) or len(value) not in (0, 8) else None


def _event(event: Any) -> dict[str, Any]:
    return {
        "time_unix_nano": whole(event.time_unix_nano, "the time of an event"),
        "name": event.name,
        "attributes": text(attributes(event.attributes)),
        "dropped_attributes_count": event.dropped_attributes_count,
    }


def _link(link: Any) -> dict[str, Any]:
    # Zero ids are kept: OpenTelemetry records links to invalid contexts for their attributes.
    for value, name, length in ((link.trace_id, "trace_id", 16), (link.span_id, "span_id", 8)):
        if len(value) not in (0, length):
            raise RecordRejected(f"{name} of a link has {len(value)} bytes, not {length}")
    return {
        "trace_id": link.trace_id.hex(),
        "span_id": link.span_id.hex(),
        "trace_state": link.trace_state,
        "attributes": text(attributes(link.attributes)),
        "dropped_attributes_count": link.dropped_attributes_count,
        "flags": link.flags,
    }
