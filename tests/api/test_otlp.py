"""The OTLP doors: what exporters send is stored once, in scope, and answered in their encoding."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pyarrow.compute as pc
import pytest
import uvicorn
from fastapi import FastAPI
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from api.services import Services
from bifrost.names import LOG_RECORDS, METRIC_POINTS, TRACE_SPANS, TableName
from bifrost.scribe.publisher import Publisher
from bifrost.traces import trace_document
from store.caller import Role
from tests.api.conftest import Person, person
from wyrd.wire.ids import uuid7

TRACE = "5b8efff798038103d269b633813fc60c"
SIGNALS = {
    "/v1/traces": {
        "resourceSpans": [
            {"scopeSpans": [{"spans": [{"traceId": TRACE, "spanId": "eee19b7ec3c1b174", "name": "answer"}]}]}
        ]
    },
    "/v1/logs": {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "hi"}}]}]}]},
    "/v1/metrics": {
        "resourceMetrics": [
            {"scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": [{"asInt": "1"}]}}]}]}
        ]
    },
}
TABLES = {"/v1/traces": TRACE_SPANS, "/v1/logs": LOG_RECORDS, "/v1/metrics": METRIC_POINTS}


@pytest.fixture
async def viewer(services: Services) -> Person:
    return await person(services, "acme", "vic", Role.VIEWER)


@pytest.fixture
async def subject(client: httpx.AsyncClient, admin: Person) -> str:
    """The uid of a declared Service."""
    metadata = {"name": "support-desk", "space": "support", "version": "1.0.0"}
    card = {"apiVersion": "wyrd/v1", "kind": "Service", "metadata": metadata, "spec": {"components": []}}
    headers = {**admin.headers, "idempotency-key": f"declare-{uuid7()}"}
    answer = await client.post("/v1/cards", json={"submissions": [card]}, headers=headers)
    assert answer.status_code == 200, answer.text
    uid: str = answer.json()["outcomes"][0]["card_ref"]["uid"]
    return uid


async def rows(services: Services, person: Person, table: TableName) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await services.bifrost.cuts.rows(person.tenant, table)).to_pylist()
    return found


async def send(
    client: httpx.AsyncClient, person: Person, path: str, body: Any, **headers: str
) -> httpx.Response:
    sent = {**person.headers, "content-type": "application/json", **headers}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await client.post(path, content=content, headers=sent)


@pytest.mark.parametrize("path", SIGNALS)
async def test_an_export_is_stored_once_however_often_it_is_sent(
    client: httpx.AsyncClient, services: Services, admin: Person, path: str
) -> None:
    for _ in range(2):
        answer = await send(client, admin, path, SIGNALS[path])
        assert (answer.status_code, answer.json()) == (200, {})
        assert answer.headers["content-type"] == "application/json"
    (row,) = await rows(services, admin, TABLES[path])
    assert (row["sub_principal_id"], row["data_tenant_id"]) == (admin.principal_id, admin.tenant.id)
    assert (row["run_id"], row["card_uid"]) == (None, None)


async def test_an_export_reaches_no_other_tenant(
    client: httpx.AsyncClient, services: Services, admin: Person, rival: Person
) -> None:
    for who in (admin, rival):
        answer = await send(client, who, "/v1/traces", SIGNALS["/v1/traces"])
        assert answer.status_code == 200
        assert len(await rows(services, who, TRACE_SPANS)) == 1
    found = await trace_document(services.bifrost.cuts, rival.tenant, TRACE, wait=0)
    assert found is not None
    assert len(found["spans"]) == 1


async def test_p55_protobuf_is_answered_in_protobuf(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=b"\1" * 16, span_id=b"\2" * 8)
    spans.add(trace_id=b"\1" * 15, span_id=b"\2" * 8)
    body = gzip.compress(request.SerializeToString())
    headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
    answer = await send(client, admin, "/v1/traces", body, **headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    told = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert told.rejected_spans == 1
    assert [row["trace_id"] for row in await rows(services, admin, TRACE_SPANS)] == ["01" * 16]


@pytest.mark.parametrize("path", SIGNALS)
async def test_p55_a_charset_beside_json_is_taken(
    client: httpx.AsyncClient, admin: Person, path: str
) -> None:
    kind = "application/json; charset=utf-8"
    answer = await send(client, admin, path, SIGNALS[path], **{"content-type": kind})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", SIGNALS)
@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": ""},
        {"content-type": "application/xml"},
        {"content-encoding": "br"},
        {"content-encoding": "gzip, gzip"},
    ],
)
async def test_p55_other_media_types_and_encodings_are_unsupported(
    client: httpx.AsyncClient, admin: Person, path: str, headers: dict[str, str]
) -> None:
    answer = await send(client, admin, path, SIGNALS[path], **headers)
    assert answer.status_code == 415
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "WYRD_SPEC_400_VALIDATION"


@pytest.mark.parametrize("path", SIGNALS)
async def test_p55_a_protobuf_body_sent_as_json_is_malformed(
    client: httpx.AsyncClient, admin: Person, path: str
) -> None:
    answer = await send(client, admin, path, b"\n\x12\x12\x10\n\x0eanswer")
    assert answer.status_code == 400
    found = answer.json()
    assert found["code"] == "WYRD_VALA_400_OTLP_REQUEST_MALFORMED"
    assert found["details"]["variant"] == "otlp_request_malformed"
    assert found["details"]["data"]["table"] == TABLES[path].full
    assert set(found["details"]["data"]) == {"table", "detail"}


async def test_p55_bodies_over_the_limit_are_refused_before_and_after_inflating(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    limit = services.settings.max_body_bytes
    bomb = gzip.compress(b" " * limit * 20)
    inflated = await send(client, admin, "/v1/traces", bomb, **{"content-encoding": "gzip"})
    assert (inflated.status_code, inflated.json()["code"]) == (413, "WYRD_VALA_413_PAYLOAD_TOO_LARGE")
    assert inflated.json()["details"] == {
        "variant": "payload_too_large",
        "data": {"bytes": limit + 1, "limit": limit},
    }
    plain = await send(client, admin, "/v1/traces", b" " * (limit + 1))
    assert plain.status_code == 413


async def test_recording_needs_its_permission(
    client: httpx.AsyncClient, services: Services, viewer: Person
) -> None:
    answer = await send(client, viewer, "/v1/traces", SIGNALS["/v1/traces"])
    assert answer.status_code == 403
    assert await rows(services, viewer, TRACE_SPANS) == []


@pytest.mark.parametrize("path", SIGNALS)
async def test_an_export_that_names_a_card_out_of_scope_is_refused_whole(
    client: httpx.AsyncClient, services: Services, admin: Person, path: str
) -> None:
    named = json.dumps(SIGNALS[path]).replace(
        '{"scope',
        '{"resource": {"attributes": [{"key": "wyrd.card_uid", "value": {"stringValue": "'
        + uuid7()
        + '"}}]}, "scope',
        1,
    )
    answer = await send(client, admin, path, named.encode())
    assert (answer.status_code, answer.json()["code"]) == (403, "WYRD_VALA_403_BIFROST_CARD_SCOPE")
    assert await rows(services, admin, TABLES[path]) == []


@contextlib.asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    """The application behind a real uvicorn on loopback; its address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    # The `app` fixture runs the lifespan.
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listening.close()


def instrumented(url: str, key: str, card_uid: str, run_id: str) -> str:
    """What an instrumented application does: two spans, a log record, a counter; the trace id."""
    headers = {"x-wyrd-access-token": f"Bearer {key}"}
    of_run = {"wyrd.card_uid": card_uid, "wyrd.run_id": run_id}
    resource = Resource({"service.name": "support-desk"})
    traces = TracerProvider(resource=resource)
    traces.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces", headers=headers)))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics", headers=headers))
    metrics = MeterProvider([reader], resource=resource)
    logs = LoggerProvider(resource=resource)
    logs.add_log_record_processor(
        SimpleLogRecordProcessor(OTLPLogExporter(f"{url}/v1/logs", headers=headers))
    )
    tracer = traces.get_tracer("desk", "1.2")
    with tracer.start_as_current_span("answer", kind=SpanKind.SERVER, attributes=of_run) as root:
        with tracer.start_as_current_span("model", kind=SpanKind.CLIENT, attributes=of_run) as span:
            span.add_event("first token", {"n": 1})
            span.set_attribute("tokens", [1, 2])
            span.set_status(Status(StatusCode.ERROR, "refused"))
        logs.get_logger("desk").emit(body="answered", attributes=of_run, severity_text="INFO")
    metrics.get_meter("desk").create_counter("answers").add(3, of_run)
    for provider in (traces, metrics, logs):
        provider.shutdown()
    return f"{root.get_span_context().trace_id:032x}"


async def test_a_real_opentelemetry_sdk_exports_to_us_correlated_to_its_run(
    app: FastAPI, services: Services, admin: Person, subject: str
) -> None:
    run_id = uuid7()
    async with served(app) as url:
        trace_id = await asyncio.to_thread(instrumented, url, admin.key, subject, run_id)
    for table in (TRACE_SPANS, LOG_RECORDS, METRIC_POINTS):
        found = await rows(services, admin, table)
        assert found
        assert {(row["card_uid"], row["run_id"]) for row in found} == {(subject, run_id)}, table
        assert {row["service_name"] for row in found} == {"support-desk"}, table
    (point,) = await rows(services, admin, METRIC_POINTS)
    assert (point["metric_name"], point["int_value"], point["is_monotonic"]) == ("answers", 3, True)
    (record,) = await rows(services, admin, LOG_RECORDS)
    assert (record["body"], record["trace_id"], record["severity_text"]) == ("answered", trace_id, "INFO")
    document = await trace_document(services.bifrost.cuts, admin.tenant, trace_id, wait=0)
    assert document is not None
    root, model = document["spans"]
    assert (root["name"], root["kind"], root["parent_span_id"], root["status"]) == (
        "answer",
        "server",
        None,
        "unset",
    )
    assert (model["name"], model["kind"], model["parent_span_id"], model["status"]) == (
        "model",
        "client",
        root["span_id"],
        "error",
    )
    assert model["attributes"]["tokens"] == [1, 2]
    assert model["events"][0]["name"] == "first token"
    spans = await services.bifrost.cuts.rows(
        admin.tenant, TRACE_SPANS, filter=pc.field("scope_name") == "desk", columns=["scope_version"]
    )
    assert spans.to_pylist() == [{"scope_version": "1.2"}] * 2


async def test_published_telemetry_reads_as_it_did_before(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    rich = {
        "traceId": TRACE,
        "spanId": "eee19b7ec3c1b174",
        "startTimeUnixNano": "1544712660000000001",
        "endTimeUnixNano": "1544712661000000001",
        "attributes": [{"key": "n", "value": {"intValue": "9007199254740993"}}],
        "events": [{"name": "retry", "timeUnixNano": "1544712660000000002"}],
        "links": [{"traceId": TRACE, "spanId": "0102030405060708"}],
    }
    point = {"count": 1, "sum": 2, "quantileValues": [{"quantile": 0.5, "value": 2}]}
    await send(client, admin, "/v1/traces", {"resourceSpans": [{"scopeSpans": [{"spans": [rich]}]}]})
    await send(client, admin, "/v1/logs", SIGNALS["/v1/logs"])
    summary = {"name": "q", "summary": {"dataPoints": [point]}}
    await send(
        client, admin, "/v1/metrics", {"resourceMetrics": [{"scopeMetrics": [{"metrics": [summary]}]}]}
    )
    before = [await rows(services, admin, table) for table in TABLES.values()]
    document = await trace_document(services.bifrost.cuts, admin.tenant, TRACE, wait=0)
    publisher = Publisher(services.database, services.bifrost.catalogs, services.settings)
    await publisher.pass_once(everything=True)
    publisher.close()
    for name in TABLES.values():
        cut = (await services.bifrost.cuts.take(admin.tenant, [name]))[name]
        assert (len(cut.files), len(cut.tail)) == (1, 0)
    assert [await rows(services, admin, table) for table in TABLES.values()] == before
    assert await trace_document(services.bifrost.cuts, admin.tenant, TRACE, wait=0) == document
    assert document is not None
    assert document["spans"][0]["start_time"] == "2018-12-13T14:51:00.000000001Z"
    assert document["spans"][0]["attributes"] == {"n": 9007199254740993}
    assert document["spans"][0]["links"][0]["span_id"] == "0102030405060708"
