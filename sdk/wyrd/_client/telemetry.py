"""The tracer provider of a state: installed once a process, exporting to the state's own server.

Needs the extra `otel`; imported only by `start_telemetry`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from wyrd._client import correlation
from wyrd._client.accounts import Account
from wyrd._client.exports import exporter
from wyrd.errors import Code, WyrdError
from wyrd.wire.refs import CardRef

FLUSH_SECONDS = 30.0


class _Counting(SpanExporter):
    """Counts the spans that the server did not take, which a batch processor forgets."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._counting = threading.Lock()
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
            return result
        finally:
            if result is not SpanExportResult.SUCCESS:
                with self._counting:
                    self._lost += len(spans)

    def taken_lost(self) -> int:
        """How many were lost since the last call."""
        with self._counting:
            lost, self._lost = self._lost, 0
            return lost

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class Telemetry:
    """The provider that Wyrd installed, for every state that starts telemetry to the same account."""

    def __init__(self, provider: TracerProvider, exporting: _Counting, account: Account) -> None:
        self.provider = provider
        self.account = account
        self._exporting = exporting
        self._turn = threading.Lock()

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Send every span that has ended, and wait until the server has it.

        Errors: SDK_504_TELEMETRY_FLUSH_TIMEOUT, after which the flush goes on in the background;
        SDK_503_TELEMETRY_FLUSH_FAILED when spans were not taken, now or since the last flush.
        """
        deadline = time.monotonic() + seconds
        # The stock processor exports in the calling thread and knows no limit: a thread of its own
        # does that. It is alone, and starts after this call, so that it sees this caller's spans.
        if not self._turn.acquire(timeout=seconds):
            raise self._late(seconds)
        flushed: Future[bool] = Future()
        threading.Thread(target=self._flush, args=(flushed,), name="wyrd-flush", daemon=True).start()
        try:
            done = flushed.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise self._late(seconds) from None
        except Exception as error:
            raise WyrdError(
                Code.SDK_503_TELEMETRY_FLUSH_FAILED, f"spans could not be flushed: {error}"
            ) from error
        if lost := self._exporting.taken_lost():
            raise WyrdError(
                Code.SDK_503_TELEMETRY_FLUSH_FAILED,
                f"{self.account.server_url} did not take {lost} spans; the log of opentelemetry says why",
                lost=lost,
            )
        if not done:
            raise WyrdError(
                Code.SDK_503_TELEMETRY_FLUSH_FAILED, "the tracer provider has been shut down or cannot flush"
            )

    def _flush(self, flushed: Future[bool]) -> None:
        try:
            outcome = self.provider.force_flush(int(FLUSH_SECONDS * 1000))
        except BaseException as error:
            self._turn.release()
            flushed.set_exception(error)
        else:
            self._turn.release()
            flushed.set_result(outcome)

    @staticmethod
    def _late(seconds: float) -> WyrdError:
        return WyrdError(
            Code.SDK_504_TELEMETRY_FLUSH_TIMEOUT, f"spans were not all sent within {seconds:g} s"
        )


_starting = threading.Lock()
_started: Telemetry | None = None


def start(account: Account, service: CardRef) -> Telemetry:
    """Install the global tracer provider; the one installed before when it serves the same account.

    Spans carry the Service as `service.name`, unless the
    environment names one.

    SDK_409_TELEMETRY_PROVIDER_EXISTS when the application, or a state of another server or
    credential, has installed a provider: there can be one a process.
    """
    global _started
    with _starting:
        current: Any = trace.get_tracer_provider()
        if _started is not None and (current, account) == (_started.provider, _started.account):
            return _started
        if not isinstance(current, trace.ProxyTracerProvider):
            raise _exists()
        exporting = _Counting(exporter(OTLPSpanExporter, "traces", account.server_url, account.token))
        provider = TracerProvider(resource=_resource(service))
        provider.add_span_processor(BatchSpanProcessor(exporting))
        correlation.install(provider)
        trace.set_tracer_provider(provider)
        if trace.get_tracer_provider() is not provider:
            provider.shutdown()
            raise _exists()
        _started = Telemetry(provider, exporting, account)
        return _started


def _exists() -> WyrdError:
    return WyrdError(
        Code.SDK_409_TELEMETRY_PROVIDER_EXISTS,
        "this process has a tracer provider already; give it the exporter of wyrd.otel.span_exporter(client)",
    )


def _resource(service: CardRef) -> Resource:
    named = Resource.create({"service.name": service.name, "service.version": service.version})
    return named.merge(OTELResourceDetector().detect())
