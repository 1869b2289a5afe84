"""P55: what is taken as OTLP in protobuf and JSON, and what of it is rejected, for all three signals."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

from bifrost.builtin import BUILTIN, schema_of
from bifrost.otlp.batch import Rows
from bifrost.otlp.logs import COLUMNS as LOG_COLUMNS
from bifrost.otlp.metrics import COLUMNS as POINT_COLUMNS
from bifrost.otlp.requests import LOGS, METRICS, TRACES, Export, Form, Signal, rows_of
from bifrost.otlp.traces import COLUMNS as SPAN_COLUMNS

TRACE = "5b8efff798038103d269b633813fc60c"
SPAN = "eee19b7ec3c1b174"
LIMIT = 1024 * 1024

SPAN_JSON: dict[str, Any] = {
    "traceId": TRACE,
    "spanId": SPAN,
    "name": "answer",
    "startTimeUnixNano": "1544712660000000001",
    "endTimeUnixNano": "1544712661000000001",
}


def export(signal: Signal, body: bytes, form: Form = Form.JSON, *, gzipped: bool = False) -> Export:
    return Export(signal, form, body, gzipped, LIMIT)


def traces(*spans: Any, resource: Any = None) -> dict[str, Any]:
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": resource or []},
                "scopeSpans": [{"scope": {"name": "lib", "version": "1"}, "spans": list(spans)}],
            }
        ]
    }


def logs(*records: Any) -> dict[str, Any]:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}


def metrics(*given: Any) -> dict[str, Any]:
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": list(given)}]}]}


def read(signal: Signal, document: Any) -> Rows:
    return rows_of(export(signal, json.dumps(document).encode()))


def stored(signal: Signal, rows: Rows) -> list[dict[str, Any]]:
    """The rows as the batch that would be stored holds them."""
    found: list[dict[str, Any]] = (
        pa.ipc.open_stream(rows.arrow(schema_of(signal.table))).read_all().to_pylist()
    )
    return found


def one(signal: Signal, document: Any) -> dict[str, Any]:
    rows = read(signal, document)
    assert rows.rejections.count == 0, rows.rejections.reasons
    (row,) = stored(signal, rows)
    return row


def span(**more: Any) -> dict[str, Any]:
    return {**SPAN_JSON, **more}


def attribute(key: str, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


@pytest.mark.parametrize(
    ("signal", "columns"), [(TRACES, SPAN_COLUMNS), (LOGS, LOG_COLUMNS), (METRICS, POINT_COLUMNS)]
)
def test_every_column_of_the_table_is_written(signal: Signal, columns: tuple[str, ...]) -> None:
    assert sorted(columns) == sorted([field.name for field in BUILTIN[signal.table]] + ["run_id", "card_uid"])


@pytest.mark.parametrize("given", [TRACE, TRACE.upper(), TRACE[:16] + TRACE[16:].upper()])
def test_p55_hexadecimal_ids_of_any_case_are_stored_lower(given: str) -> None:
    row = one(TRACES, traces(span(traceId=given, spanId=SPAN.upper(), parentSpanId="00F067AA0BA902B7")))
    assert (row["trace_id"], row["span_id"], row["parent_span_id"]) == (TRACE, SPAN, "00f067aa0ba902b7")


BAD_IDS = {
    "base64": base64.b64encode(bytes.fromhex(TRACE)).decode(),
    "15 bytes": TRACE[:30],
    "17 bytes": TRACE + "00",
    "odd digits": TRACE[:31],
    "all zero": "0" * 32,
    "white space": TRACE[:2] + " " + TRACE[3:],
    "not text": 5,
    "no digits": "zz" * 16,
}


@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=list(BAD_IDS))
def test_p55_a_span_with_a_bad_trace_id_is_rejected_alone(bad: Any) -> None:
    rows = read(TRACES, traces(span(traceId=bad), span(spanId="0102030405060708")))
    assert rows.rejections.count == 1
    assert [row["span_id"] for row in stored(TRACES, rows)] == ["0102030405060708"]


@pytest.mark.parametrize("bad", ["", "0" * 16, SPAN[:14], base64.b64encode(bytes.fromhex(SPAN)).decode()])
def test_p55_a_span_with_a_bad_span_id_is_rejected_alone(bad: str) -> None:
    rows = read(TRACES, traces(span(spanId=bad), span()))
    assert (rows.rejections.count, len(rows.found)) == (1, 1)


@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=list(BAD_IDS))
def test_p55_a_log_record_with_a_bad_trace_id_is_rejected_alone(bad: Any) -> None:
    rows = read(LOGS, logs({"traceId": bad, "body": {"stringValue": "a"}}, {"body": {"stringValue": "b"}}))
    assert rows.rejections.count == 1
    assert [row["body"] for row in stored(LOGS, rows)] == ["b"]


def test_p55_a_log_record_needs_no_ids() -> None:
    row = one(LOGS, logs({"traceId": "", "timeUnixNano": "5"}))
    assert (row["trace_id"], row["span_id"], row["time_unix_nano"]) == (None, None, 5)


@pytest.mark.parametrize("length", [0, 15, 17])
def test_p55_ids_of_a_wrong_length_are_rejected_in_protobuf_too(length: int) -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=b"\1" * length, span_id=b"\1" * 8)
    spans.add(trace_id=b"\0" * 16, span_id=b"\1" * 8)
    spans.add(trace_id=b"\2" * 16, span_id=b"\1" * 8)
    rows = rows_of(export(TRACES, request.SerializeToString(), Form.PROTOBUF))
    assert rows.rejections.count == 2
    assert [row["trace_id"] for row in stored(TRACES, rows)] == ["02" * 16]


@pytest.mark.parametrize("given", ["9007199254740993", 9007199254740993])
def test_p55_integers_of_64_bits_are_exact_as_text_and_as_numbers(given: Any) -> None:
    row = one(TRACES, traces(span(attributes=[attribute("n", intValue=given)], startTimeUnixNano=given)))
    assert json.loads(row["attributes"]) == {"n": 9007199254740993}
    assert row["start_time_unix_nano"] == 9007199254740993
    point = {"asInt": given, "timeUnixNano": given}
    row = one(METRICS, metrics({"name": "m", "gauge": {"dataPoints": [point]}}))
    assert (row["int_value"], row["time_unix_nano"]) == (9007199254740993, 9007199254740993)
    row = one(LOGS, logs({"timeUnixNano": given, "body": {"intValue": given}}))
    assert (row["time_unix_nano"], row["body"]) == (9007199254740993, "9007199254740993")


@pytest.mark.parametrize("bad", ["1.5", 1.5, "many", True, [], str(2**63), 2**63, "-9223372036854775809"])
def test_p55_an_integer_that_is_none_rejects_its_record(bad: Any) -> None:
    rows = read(TRACES, traces(span(attributes=[attribute("n", intValue=bad)])))
    assert (rows.rejections.count, len(rows.found)) == (1, 0)


@pytest.mark.parametrize("time", [2**63, str(2**64 - 1)])
def test_a_time_beyond_its_column_rejects_its_record(time: Any) -> None:
    assert read(TRACES, traces(span(startTimeUnixNano=time))).rejections.count == 1
    assert read(LOGS, logs({"timeUnixNano": time})).rejections.count == 1
    point = {"asInt": 1, "timeUnixNano": time}
    assert read(METRICS, metrics({"name": "m", "gauge": {"dataPoints": [point]}})).rejections.count == 1


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (None, "unspecified"),
        (0, "unspecified"),
        ("SPAN_KIND_SERVER", "server"),
        (2, "server"),
        ("2", "server"),
        ("SPAN_KIND_INTERNAL", "internal"),
        (3, "client"),
        ("SPAN_KIND_PRODUCER", "producer"),
        (5, "consumer"),
        (99, "unspecified"),
    ],
)
def test_p55_kinds_are_names_or_numbers_and_unspecified_when_omitted(given: Any, word: str) -> None:
    assert one(TRACES, traces(span(kind=given)))["kind"] == word
    if given is None:
        assert one(TRACES, traces(SPAN_JSON))["kind"] == word


def test_p55_an_unknown_kind_name_rejects_its_span() -> None:
    assert read(TRACES, traces(span(kind="SPAN_KIND_MAGIC"))).rejections.count == 1


def test_p55_unknown_fields_are_ignored_at_every_level() -> None:
    document = traces(span(novel={"a": [1]}, status={"code": 2, "message": "no", "novel": 1}))
    document["novel"] = document["resourceSpans"][0]["novel"] = 5
    row = one(TRACES, document)
    assert (row["status_code"], row["status_message"]) == ("error", "no")


def test_p55_names_may_be_written_as_in_the_proto_files() -> None:
    document = {
        "resource_spans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"string_value": "desk"}}]},
                "scope_spans": [
                    {
                        "spans": [
                            {
                                "trace_id": TRACE,
                                "span_id": SPAN,
                                "start_time_unix_nano": 7,
                                "end_time_unix_nano": "2000007",
                                "dropped_attributes_count": 3,
                            }
                        ]
                    }
                ],
            }
        ]
    }
    row = one(TRACES, document)
    assert (row["start_time_unix_nano"], row["duration_ms"], row["service_name"]) == (7, 2.0, "desk")
    assert row["dropped_attributes_count"] == 3


def test_values_that_json_has_no_form_for_become_text() -> None:
    given = [
        attribute("nan", doubleValue="NaN"),
        attribute("inf", doubleValue="-Infinity"),
        attribute("half", doubleValue=0.5),
        attribute("text", doubleValue="1e3"),
        attribute("bytes", bytesValue="AAH_"),
        attribute("list", arrayValue={"values": [{"boolValue": True}, {}, {"arrayValue": {}}]}),
        attribute("map", kvlistValue={"values": [attribute("a", stringValue="b")]}),
        {"key": "nothing"},
    ]
    found = json.loads(one(TRACES, traces(span(attributes=given)))["attributes"])
    assert found == {
        "nan": "NaN",
        "inf": "-Infinity",
        "half": 0.5,
        "text": 1000.0,
        "bytes": "AAH/",
        "list": [True, None, []],
        "map": {"a": "b"},
        "nothing": None,
    }


def test_a_value_nested_too_deeply_rejects_its_record_and_no_other() -> None:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(70):
        value = {"arrayValue": {"values": [value]}}
    deep = span(attributes=[{"key": "deep", "value": value}])
    rows = read(TRACES, traces(deep, span(spanId="0102030405060708")))
    assert (rows.rejections.count, len(rows.found)) == (1, 1)


def test_events_and_links_are_kept_with_their_attributes() -> None:
    row = one(
        TRACES,
        traces(
            span(
                events=[{"name": "retry", "timeUnixNano": "9", "attributes": [attribute("n", intValue=1)]}],
                links=[{"traceId": TRACE.upper(), "spanId": SPAN, "flags": 1}],
            )
        ),
    )
    assert row["events"] == [
        {"time_unix_nano": 9, "name": "retry", "attributes": '{"n":1}', "dropped_attributes_count": 0}
    ]
    assert [(link["trace_id"], link["span_id"], link["flags"]) for link in row["links"]] == [(TRACE, SPAN, 1)]


def test_correlation_is_read_from_the_record_and_else_from_its_resource() -> None:
    resource = [attribute("wyrd.card_uid", stringValue="of-all"), attribute("wyrd.run_id", stringValue="r")]
    own = span(spanId="0102030405060708", attributes=[attribute("wyrd.card_uid", stringValue="own")])
    rows = read(TRACES, traces(SPAN_JSON, own, resource=resource))
    assert [(row["card_uid"], row["run_id"]) for row in stored(TRACES, rows)] == [
        ("of-all", "r"),
        ("own", "r"),
    ]
    assert rows.card_uids() == {"of-all", "own"}


def test_correlation_that_is_no_text_rejects_its_record() -> None:
    rows = read(TRACES, traces(span(attributes=[attribute("wyrd.card_uid", intValue=1)])))
    assert (rows.rejections.count, len(rows.found)) == (1, 0)


def test_the_same_records_are_the_same_batch_in_any_order_and_another_one_is_not() -> None:
    other = span(spanId="0102030405060708")
    first = read(TRACES, traces(SPAN_JSON, other))
    assert first.batch_id == read(TRACES, traces(other, SPAN_JSON)).batch_id
    assert first.batch_id == read(TRACES, traces(SPAN_JSON, other, SPAN_JSON)).batch_id
    assert first.batch_id != read(TRACES, traces(SPAN_JSON)).batch_id


def test_a_record_that_one_request_repeats_is_kept_once() -> None:
    assert len(read(TRACES, traces(SPAN_JSON, span(name="again"))).found) == 1
    assert len(read(LOGS, logs({"timeUnixNano": "1"}, {"timeUnixNano": "1"})).found) == 1
    point = {"asDouble": 1.5, "timeUnixNano": "1"}
    given = metrics({"name": "m", "gauge": {"dataPoints": [point, point, {**point, "asDouble": "NaN"}]}})
    assert len(read(METRICS, given).found) == 2


def test_protobuf_and_json_of_the_same_spans_are_the_same_batch() -> None:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.scope.name, scope.scope.version = "lib", "1"
    scope.spans.add(
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes.fromhex(SPAN),
        name="answer",
        start_time_unix_nano=1544712660000000001,
        end_time_unix_nano=1544712661000000001,
    )
    binary = rows_of(export(TRACES, request.SerializeToString(), Form.PROTOBUF))
    text = read(TRACES, traces(SPAN_JSON))
    assert (binary.batch_id, binary.found) == (text.batch_id, text.found)


def test_every_type_of_metric_has_its_columns() -> None:
    bounds = {"bucketCounts": ["1", 2], "explicitBounds": [0.5], "count": "3", "sum": 4.5, "min": 0}
    exponential = {
        "count": 3,
        "scale": -1,
        "zeroCount": "1",
        "positive": {"offset": 2, "bucketCounts": ["1", "1"]},
    }
    summary = {"count": 2, "sum": 3, "quantileValues": [{"quantile": 0.5, "value": 1}]}
    exemplar = {"asInt": "7", "traceId": TRACE, "spanId": SPAN, "timeUnixNano": 1}
    rows = read(
        METRICS,
        metrics(
            {
                "name": "g",
                "unit": "ms",
                "gauge": {"dataPoints": [{"asDouble": 1.5, "exemplars": [exemplar]}]},
            },
            {
                "name": "s",
                "sum": {
                    "dataPoints": [{"asInt": 5, "startTimeUnixNano": 3}],
                    "aggregationTemporality": 2,
                    "isMonotonic": True,
                },
            },
            {
                "name": "h",
                "histogram": {
                    "dataPoints": [bounds],
                    "aggregationTemporality": "AGGREGATION_TEMPORALITY_DELTA",
                },
            },
            {"name": "e", "exponentialHistogram": {"dataPoints": [exponential]}},
            {"name": "q", "summary": {"dataPoints": [summary]}},
        ),
    )
    assert rows.rejections.count == 0, rows.rejections.reasons
    found = {row["metric_name"]: row for row in stored(METRICS, rows)}
    assert [row["metric_type"] for row in found.values()] == [
        "gauge",
        "sum",
        "histogram",
        "exponential_histogram",
        "summary",
    ]
    gauge, total, histogram, widening, quantiles = found.values()
    assert (gauge["double_value"], gauge["int_value"], gauge["unit"], gauge["count"]) == (
        1.5,
        None,
        "ms",
        None,
    )
    assert json.loads(gauge["exemplars"])[0]["trace_id"] == TRACE
    assert (total["int_value"], total["is_monotonic"], total["aggregation_temporality"]) == (
        5,
        True,
        "cumulative",
    )
    assert (total["start_time_unix_nano"], gauge["start_time_unix_nano"]) == (3, None)
    assert (histogram["bucket_counts"], histogram["explicit_bounds"]) == ([1, 2], [0.5])
    assert (histogram["sum"], histogram["min"], histogram["max"]) == (4.5, 0.0, None)
    assert histogram["aggregation_temporality"] == "delta"
    assert (widening["scale"], widening["positive_offset"], widening["positive_bucket_counts"]) == (
        -1,
        2,
        [1, 1],
    )
    assert (widening["zero_count"], widening["negative_bucket_counts"]) == (1, [])
    assert (quantiles["count"], quantiles["quantiles"]) == (2, [{"quantile": 0.5, "value": 1.0}])
