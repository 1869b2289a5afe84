"""Records of an OTLP log export as rows of `vala.logs.records`."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from bifrost.otlp.batch import SHARED, Rows, Scoped, scoped
from bifrost.otlp.faults import RecordRejected, Rejections
from bifrost.otlp.values import attributes, correlation, optional_identifier, plain, text, whole

COLUMNS = (
    "time_unix_nano",
    "observed_time_unix_nano",
    "severity_number",
    "severity_text",
    "body",
    "event_name",
    "trace_id",
    "span_id",
    "attributes",
    *SHARED,
    "run_id",
    "card_uid",
)


def log_rows(request: ExportLogsServiceRequest, rejections: Rejections) -> Rows:
    """One row a record; a record is known by all it says."""
    rows = Rows(COLUMNS, rejections)
    for shared, one in scoped(request.resource_logs, "scope_logs"):
        for index, record in enumerate(one.log_records):
            try:
                rows.add_content(_row(record, shared))
            except RecordRejected as fault:
                rejections.add(f"log record {index}", fault)
    return rows


def _row(record: Any, shared: Scoped) -> tuple[Any, ...]:
    own = attributes(record.attributes)
    return (
        whole(record.time_unix_nano, "time_unix_nano"),
        whole(record.observed_time_unix_nano, "observed_time_unix_nano"),
        record.severity_number,
        record.severity_text,
        _body(plain(record.body)),
        record.event_name or None,
        optional_identifier(record.trace_id, "trace_id", 16),
        optional_identifier(record.span_id, "span_id", 8),
        text(own),
        *shared.columns,
        *correlation(own, shared.resource),
    )


def _body(value: Any) -> str | None:
    """Text as it is; anything else as JSON text."""
    return value if value is None or isinstance(value, str) else text(value)
