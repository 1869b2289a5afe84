"""Export requests as they come: protobuf or JSON, gzip or not; read into rows, and answered alike."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from bifrost.names import LOG_RECORDS, METRIC_POINTS, TRACE_SPANS, TableName
from bifrost.otlp.batch import Rows
from bifrost.otlp.faults import NotOtlp, Rejections
from bifrost.otlp.json_form import read_json
from bifrost.otlp.logs import log_rows
from bifrost.otlp.metrics import point_rows
from bifrost.otlp.traces import span_rows
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import canonical_json

_MOST_MEMBERS = 16
"""Parts that one gzip body may be made of: each copies what follows it."""


class Form(StrEnum):
    """The two encodings of OTLP/HTTP, by media type."""

    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


@dataclass(frozen=True)
class Signal:
    """One kind of telemetry: its messages, its table, and what its partial success counts."""

    table: TableName
    request: Callable[[], Any]
    response: Callable[[], Any]
    rows: Callable[[Any, Rejections], Rows]
    rejected: str


TRACES = Signal(
    TRACE_SPANS,
    trace_service_pb2.ExportTraceServiceRequest,
    trace_service_pb2.ExportTraceServiceResponse,
    span_rows,
    "rejected_spans",
)
LOGS = Signal(
    LOG_RECORDS,
    logs_service_pb2.ExportLogsServiceRequest,
    logs_service_pb2.ExportLogsServiceResponse,
    log_rows,
    "rejected_log_records",
)
METRICS = Signal(
    METRIC_POINTS,
    metrics_service_pb2.ExportMetricsServiceRequest,
    metrics_service_pb2.ExportMetricsServiceResponse,
    point_rows,
    "rejected_data_points",
)


@dataclass(frozen=True)
class Export:
    """One request's body as it came. `limit`: bytes it may have once inflated."""

    signal: Signal
    form: Form
    body: bytes
    gzip: bool
    limit: int


def rows_of(export: Export) -> Rows:
    """The rows of an export, and what of it is rejected.

    Raises `WYRD_VALA_400_OTLP_REQUEST_MALFORMED` for a body that is no such request, and
    `WYRD_VALA_413_PAYLOAD_TOO_LARGE` for one that inflates past its limit.
    """
    rejections = Rejections()
    request = export.signal.request()
    body = _inflated(export) if export.gzip else export.body
    try:
        if export.form is Form.JSON:
            read_json(body, request, rejections)
        else:
            _parse(request, body)
        return export.signal.rows(request, rejections)
    except NotOtlp as fault:
        raise _malformed(export, str(fault)) from None


def _parse(request: Message, body: bytes) -> None:
    try:
        request.ParseFromString(body)
    except DecodeError:
        raise NotOtlp("it is not a protobuf message of that kind") from None


def _inflated(export: Export) -> bytes:
    """The body without its gzip. Stops as soon as it is over the limit."""
    found, rest = bytearray(), export.body
    members = 0
    try:
        while rest:
            members += 1
            if members > _MOST_MEMBERS:
                raise _malformed(export, f"its gzip has more than {_MOST_MEMBERS} members")
            member = zlib.decompressobj(wbits=31)
            found += member.decompress(rest, export.limit + 1 - len(found))
            if len(found) > export.limit:
                raise WyrdError(
                    Code.VALA_413_PAYLOAD_TOO_LARGE,
                    f"the body is over {export.limit} bytes once inflated",
                    bytes=len(found),
                    limit=export.limit,
                )
            if not member.eof:
                raise _malformed(export, "its gzip ends too early")
            rest = member.unused_data
    except zlib.error:
        raise _malformed(export, "it is not gzip, as its content-encoding says") from None
    return bytes(found)


def _malformed(export: Export, why: str) -> WyrdError:
    return WyrdError(
        Code.VALA_400_OTLP_REQUEST_MALFORMED,
        f"the body is no OTLP export: {why}",
        table=export.signal.table.full,
        detail=why,
    )


def answer_to(export: Export, rejections: Rejections) -> bytes:
    """The response message, in the request's encoding."""
    response = export.signal.response()
    message = rejections.message()
    if rejections.count:
        setattr(response.partial_success, export.signal.rejected, rejections.count)
        response.partial_success.error_message = message
    if export.form is Form.PROTOBUF:
        sent: bytes = response.SerializeToString()
        return sent
    if not rejections.count:
        return b"{}"
    counted = response.partial_success.DESCRIPTOR.fields_by_name[export.signal.rejected].json_name
    # 64-bit integers are strings in the JSON form of protobuf.
    return canonical_json({"partialSuccess": {counted: str(rejections.count), "errorMessage": message}})
