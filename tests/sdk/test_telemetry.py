"""Spans on their way to the server: the exporter's requests, its token, flushing, other providers."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.util._once import Once

from tests.sdk.bundled import Bundled
from tests.sdk.peer import KEY, Answer, Peer, Seen, problem, running
from wyrd import WyrdClient, WyrdError, WyrdState, aio, otel
from wyrd._client import telemetry

SETTINGS = (
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_PYTHON_TRACER_PROVIDER",
)


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch, peer: Peer) -> Iterator[None]:
    """A process without a tracer provider, as far as OpenTelemetry and Wyrd know.

    The peer outlives it: a provider sends at its end what it still has.
    """
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(telemetry, "_started", None)
    yield
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


@pytest.fixture
def bundle(peer: Peer, pulled: tuple[Bundled, Path]) -> Path:
    peer.routes["POST", "/v1/traces"] = lambda _: Answer(raw=b"")
    return pulled[1]


@pytest.fixture
def state(bundle: Path, client: WyrdClient) -> WyrdState:
    return WyrdState.from_path(bundle, client)


def flush(state: WyrdState) -> None:
    """The spans alone: `WyrdState.flush` also asks for rows."""
    assert state._telemetry is not None
    state._telemetry.flush(10)


def exported(seen: Seen) -> ExportTraceServiceRequest:
    found = ExportTraceServiceRequest()
    found.ParseFromString(gzip.decompress(seen.body))
    return found


def values(attributes: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in attributes}


def test_spans_of_a_run_reach_the_server_with_the_clients_token(peer: Peer, state: WyrdState) -> None:
    state.start_telemetry()
    assert peer.seen == []
    with state.run("policy") as run, trace.get_tracer("framework").start_as_current_span("answer"):
        pass
    flush(state)
    (sent,) = peer.requests("POST", "/v1/traces")
    assert sent.headers["content-type"] == "application/x-protobuf"
    assert sent.headers["x-wyrd-access-token"] == f"Bearer {peer.tokens[-1]}"
    assert "authorization" not in sent.headers
    (resource,) = exported(sent).resource_spans
    assert values(resource.resource.attributes)["service.name"] == "desk"
    assert values(resource.resource.attributes)["service.version"] == "1.0.0"
    (span,) = resource.scope_spans[0].spans
    assert span.name == "answer"
    assert values(span.attributes) == {"wyrd.run_id": run.run_id, "wyrd.card_uid": run.card_uid}


def test_the_environment_names_the_service_if_it_does(
    peer: Peer, state: WyrdState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "desk-eu")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=7,region=eu")
    state.start_telemetry()
    trace.get_tracer("t").start_span("one").end()
    flush(state)
    (sent,) = peer.requests("POST", "/v1/traces")
    named = values(exported(sent).resource_spans[0].resource.attributes)
    assert (named["service.name"], named["service.version"], named["region"]) == ("desk-eu", "7", "eu")


def test_every_export_asks_for_the_token(peer: Peer, bundle: Path) -> None:
    peer.expires_in = 29
    state = WyrdState.from_path(bundle, WyrdClient(peer.url, KEY))
    state.start_telemetry()
    for name in ("one", "two"):
        trace.get_tracer("t").start_span(name).end()
        flush(state)
    first, second = peer.requests("POST", "/v1/traces")
    assert first.headers["x-wyrd-access-token"] != second.headers["x-wyrd-access-token"]


def test_a_refused_token_is_exchanged_again_and_the_spans_go_once_more(peer: Peer, state: WyrdState) -> None:
    peer.queue("POST", "/v1/traces", problem(401, "WYRD_AUTH_401_INVALID_TOKEN"))
    state.start_telemetry()
    trace.get_tracer("t").start_span("one").end()
    flush(state)
    refused, taken = peer.requests("POST", "/v1/traces")
    assert refused.headers["x-wyrd-access-token"] != taken.headers["x-wyrd-access-token"]
    assert refused.body == taken.body


def test_a_token_that_stays_refused_is_told_and_not_asked_for_ever(peer: Peer, state: WyrdState) -> None:
    peer.routes["POST", "/v1/traces"] = lambda _: problem(401, "WYRD_AUTH_401_INVALID_TOKEN")
    state.start_telemetry()
    trace.get_tracer("t").start_span("one").end()
    with pytest.raises(WyrdError) as error:
        flush(state)
    assert error.value.code == "WYRD_SDK_503_TELEMETRY_FLUSH_FAILED"
    assert len(peer.requests("POST", "/v1/traces")) == 2


def test_a_redirect_takes_no_token_elsewhere(peer: Peer, state: WyrdState) -> None:
    with running() as other:
        peer.routes["POST", "/v1/traces"] = lambda _: Answer(307, {}, {"location": f"{other.url}/v1/traces"})
        state.start_telemetry()
        trace.get_tracer("t").start_span("one").end()
        with pytest.raises(WyrdError):
            flush(state)
        assert other.seen == []


def test_spans_that_the_server_refuses_are_counted_once(peer: Peer, state: WyrdState) -> None:
    peer.queue("POST", "/v1/traces", problem(400, "WYRD_VALA_400_OTLP_REQUEST_MALFORMED"))
    state.start_telemetry()
    for name in ("one", "two"):
        trace.get_tracer("t").start_span(name).end()
    with pytest.raises(WyrdError) as error:
        flush(state)
    assert error.value.code == "WYRD_SDK_503_TELEMETRY_FLUSH_FAILED"
    assert error.value.details["lost"] == 2
    flush(state)


def test_a_flush_that_takes_too_long_ends_in_time_and_goes_on_behind(peer: Peer, state: WyrdState) -> None:
    arrived, answer = threading.Event(), threading.Event()

    def slowly(_: Seen) -> Answer:
        arrived.set()
        answer.wait(30)
        return Answer(raw=b"")

    peer.routes["POST", "/v1/traces"] = slowly
    state.start_telemetry()
    trace.get_tracer("t").start_span("one").end()
    assert state._telemetry is not None
    for _ in range(2):
        with pytest.raises(WyrdError) as error:
            state._telemetry.flush(0.05)
        assert error.value.code == "WYRD_SDK_504_TELEMETRY_FLUSH_TIMEOUT"
    assert arrived.wait(10)
    answer.set()
    flush(state)
    assert len(peer.requests("POST", "/v1/traces")) == 1


@pytest.mark.parametrize("call", [WyrdState.flush, WyrdState.shutdown])
def test_flush_and_shutdown_send_the_spans_and_tell_both_failures(
    call: Callable[[WyrdState], None], peer: Peer, state: WyrdState
) -> None:
    peer.queue("POST", "/v1/traces", problem(400, "WYRD_VALA_400_OTLP_REQUEST_MALFORMED"))
    state.start_telemetry()
    trace.get_tracer("t").start_span("one").end()
    with pytest.raises(WyrdError) as error:
        call(state)
    assert error.value.code == "WYRD_SDK_503_TELEMETRY_FLUSH_FAILED"
    rows = "WYRD_SDK_400_BIFROST_NOT_STARTED" if call is WyrdState.flush else None
    assert error.value.details.get("native_code") == rows
    trace.get_tracer("t").start_span("two").end()
    if rows is None:
        state.shutdown()
    else:
        with pytest.raises(WyrdError) as error:
            state.flush()
        assert error.value.code == rows
    assert len(peer.requests("POST", "/v1/traces")) == 2


def test_a_process_with_its_own_provider_keeps_it_and_may_take_the_exporter(
    peer: Peer, state: WyrdState, client: WyrdClient
) -> None:
    own = TracerProvider()
    trace.set_tracer_provider(own)
    with pytest.raises(WyrdError) as error:
        state.start_telemetry()
    assert error.value.code == "WYRD_SDK_409_TELEMETRY_PROVIDER_EXISTS"
    assert trace.get_tracer_provider() is own
    own.add_span_processor(BatchSpanProcessor(otel.span_exporter(client)))
    with state.run("policy") as run:
        trace.get_tracer("t").start_span("one").end()
    assert own.force_flush()
    (sent,) = peer.requests("POST", "/v1/traces")
    (span,) = exported(sent).resource_spans[0].scope_spans[0].spans
    assert values(span.attributes)["wyrd.run_id"] == run.run_id


def test_starting_again_changes_nothing_and_states_of_one_account_share(
    peer: Peer, state: WyrdState, bundle: Path, client: WyrdClient
) -> None:
    state.start_telemetry()
    provider = trace.get_tracer_provider()
    state.start_telemetry()
    twin = WyrdState.from_path(bundle, WyrdClient(peer.url, KEY))
    twin.start_telemetry()
    assert trace.get_tracer_provider() is provider
    trace.get_tracer("t").start_span("one").end()
    flush(twin)
    assert len(peer.requests("POST", "/v1/traces")) == 1
    for other in (WyrdClient(peer.url, "another"), WyrdClient("https://wyrd.example.com", KEY)):
        with pytest.raises(WyrdError) as error:
            WyrdState.from_path(bundle, other).start_telemetry()
        assert error.value.code == "WYRD_SDK_409_TELEMETRY_PROVIDER_EXISTS"


async def test_the_async_state_starts_and_flushes_the_same(peer: Peer, bundle: Path) -> None:
    async with aio.WyrdClient(peer.url, KEY) as client:
        state = await aio.WyrdState.from_path(bundle, client)
        await state.start_telemetry()
        with state.run("policy") as run:
            trace.get_tracer("t").start_span("one").end()
        await state.shutdown()
    (sent,) = peer.requests("POST", "/v1/traces")
    (span,) = exported(sent).resource_spans[0].scope_spans[0].spans
    assert values(span.attributes) == {"wyrd.run_id": run.run_id, "wyrd.card_uid": run.card_uid}
    assert "wyrd_sk" not in sent.headers["x-wyrd-access-token"]


def test_logs_and_metrics_have_exporters_of_their_own(client: WyrdClient) -> None:
    for made, signal in ((otel.log_exporter(client), "logs"), (otel.metric_exporter(client), "metrics")):
        assert made._endpoint == f"{client.server_url}/v1/{signal}"
        made.shutdown()


def test_calls_inside_a_span_carry_its_trace_context_and_others_none(peer: Peer, state: WyrdState) -> None:
    state.run().observe.verify("polite", {"tone": "kind"})
    assert "traceparent" not in peer.seen[-1].headers
    state.start_telemetry()
    with trace.get_tracer("t").start_as_current_span("request") as span:
        state.run().observe.verify("polite", {"tone": "kind"})
        context = span.get_span_context()
    sent = peer.requests("POST", "/v1/verification/execute")[-1]
    assert sent.headers["traceparent"] == (
        f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    )
