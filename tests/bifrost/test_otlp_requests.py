"""OTLP requests as a whole: bodies that are none, compression, answers, and any span at all."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from bifrost.otlp.requests import LOGS, METRICS, TRACES, Form, Signal, answer_to, rows_of
from tests.bifrost.test_otlp_forms import LIMIT, SPAN_JSON, export, metrics, read, span, stored, traces
from wyrd.errors import Code, WyrdError


def test_a_metric_that_cannot_be_read_counts_all_its_points_once() -> None:
    bad = {"name": 5, "gauge": {"dataPoints": [{"asInt": 1}, {"asInt": "x"}]}}
    good = {"name": "m", "gauge": {"dataPoints": [{"asInt": 1}]}}
    rows = read(METRICS, metrics(bad, good))
    assert (rows.rejections.count, len(rows.found)) == (2, 1)


@pytest.mark.parametrize(
    ("body", "form"),
    [
        (ExportTraceServiceRequest().SerializeToString() + b"\xff\xff", Form.PROTOBUF),
        (json.dumps(traces(SPAN_JSON)).encode(), Form.PROTOBUF),
        (b"\n\x05hello", Form.JSON),
        (b"", Form.JSON),
        (b"[]", Form.JSON),
        (b'"text"', Form.JSON),
        (b'{"resourceSpans": {}}', Form.JSON),
        (b'{"resourceSpans": [5]}', Form.JSON),
        (b'{"resourceSpans": [{"resource": {"attributes": [{"key": 1}]}}]}', Form.JSON),
        (b'{"resourceSpans": []', Form.JSON),
        (b'{"a": NaN}', Form.JSON),
        (b'{"a": 1, "a": 2}', Form.JSON),
    ],
)
@pytest.mark.parametrize("signal", [TRACES, LOGS, METRICS])
def test_p55_a_body_that_is_no_export_is_malformed(body: bytes, form: Form, signal: Signal) -> None:
    body = body.replace(b"resourceSpans", _GROUPS[signal.table.name])
    with pytest.raises(WyrdError) as refused:
        rows_of(export(signal, body, form))
    assert refused.value.member is Code.VALA_400_OTLP_REQUEST_MALFORMED
    assert refused.value.details["table"] == signal.table.full
    assert set(refused.value.details) == {"table", "detail"}


_GROUPS = {"spans": b"resourceSpans", "records": b"resourceLogs", "points": b"resourceMetrics"}


@pytest.mark.parametrize(
    ("signal", "request_type"),
    [
        (TRACES, ExportTraceServiceRequest),
        (LOGS, ExportLogsServiceRequest),
        (METRICS, ExportMetricsServiceRequest),
    ],
)
def test_an_empty_export_stores_nothing_and_is_no_fault(signal: Signal, request_type: Any) -> None:
    for form, body in ((Form.PROTOBUF, request_type().SerializeToString()), (Form.JSON, b"{}")):
        asked = export(signal, body, form)
        rows = rows_of(asked)
        assert (rows.found, rows.rejections.count) == ({}, 0)
        assert answer_to(asked, rows.rejections) == (b"" if form is Form.PROTOBUF else b"{}")


def test_p55_gzip_is_read_in_one_part_or_several() -> None:
    body = json.dumps(traces(SPAN_JSON)).encode()
    whole = gzip.compress(body)
    parts = gzip.compress(body[:10]) + gzip.compress(body[10:])
    for packed in (whole, parts):
        assert len(rows_of(export(TRACES, packed, gzipped=True)).found) == 1


def test_p55_a_gzip_bomb_is_refused_at_the_limit() -> None:
    bomb = gzip.compress(b" " * (LIMIT * 50))
    assert len(bomb) < LIMIT
    with pytest.raises(WyrdError) as refused:
        rows_of(export(TRACES, bomb, gzipped=True))
    assert refused.value.member is Code.VALA_413_PAYLOAD_TOO_LARGE
    assert refused.value.details == {"bytes": LIMIT + 1, "limit": LIMIT}


@pytest.mark.parametrize(
    "body", [b"{}", gzip.compress(b"{}")[:-9], gzip.compress(b"{}") + b"rest", gzip.compress(b"{}") * 17]
)
def test_a_body_that_is_no_whole_gzip_is_malformed(body: bytes) -> None:
    with pytest.raises(WyrdError) as refused:
        rows_of(export(TRACES, body, gzipped=True))
    assert refused.value.member is Code.VALA_400_OTLP_REQUEST_MALFORMED


def test_the_answer_counts_what_was_rejected_and_says_why_in_the_requests_encoding() -> None:
    asked = export(TRACES, json.dumps(traces(span(traceId="00"), SPAN_JSON)).encode())
    rejections = rows_of(asked).rejections
    told = json.loads(answer_to(asked, rejections))["partialSuccess"]
    assert told["rejectedSpans"] == "1"
    assert "trace_id" in told["errorMessage"]
    binary = answer_to(export(TRACES, b"", Form.PROTOBUF), rejections)
    found = ExportTraceServiceResponse.FromString(binary).partial_success
    assert (found.rejected_spans, found.error_message) == (1, told["errorMessage"])
    assert json.loads(answer_to(export(LOGS, b""), rejections))["partialSuccess"]["rejectedLogRecords"] == "1"
    assert (
        json.loads(answer_to(export(METRICS, b""), rejections))["partialSuccess"]["rejectedDataPoints"] == "1"
    )


def test_many_rejections_are_counted_and_few_are_told() -> None:
    rows = read(TRACES, traces(*[span(spanId="")] * 40))
    assert rows.rejections.count == 40
    assert "and 35 more" in rows.rejections.message()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
MEMBERS = st.sampled_from(
    [
        "traceId",
        "spanId",
        "kind",
        "attributes",
        "events",
        "links",
        "status",
        "flags",
        "name",
        "startTimeUnixNano",
    ]
)


@given(st.dictionaries(MEMBERS, JSON_VALUES, max_size=6))
def test_any_span_is_stored_or_rejected_and_never_breaks_its_request(members: dict[str, Any]) -> None:
    try:
        body = json.dumps(traces({**SPAN_JSON, **members}, span(spanId="0102030405060708"))).encode()
        rows = rows_of(export(TRACES, body))
    except WyrdError as refused:
        assert refused.member is Code.VALA_400_OTLP_REQUEST_MALFORMED  # noqa: PT017
        return
    assert rows.rejections.count + len(rows.found) == 2
    stored(TRACES, rows)
