"""For applications that set OpenTelemetry up themselves: run and Card on their spans, and exporters.

`WyrdState.start_telemetry` does all of this where the application has no tracer provider of its own.
With one: `install_run_correlation(provider)`, and
`provider.add_span_processor(BatchSpanProcessor(span_exporter(client)))`.
Importing this module loads no OpenTelemetry; the exporters need the extra `otel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from wyrd._client.accounts import account_of
from wyrd._client.state import NEEDS_EXTRA

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    from wyrd import aio
    from wyrd._client.correlation import RunSpanProcessor
    from wyrd.client import WyrdClient

E = TypeVar("E")

__all__ = [
    "RunSpanProcessor",
    "install_run_correlation",
    "log_exporter",
    "metric_exporter",
    "span_exporter",
]


def install_run_correlation(provider: Any = None) -> bool:
    """Mark the spans of a provider with the run they start in; of the global one for None.

    `with state.run(...)` does so for the global provider by itself. Repeating it changes nothing.
    False where there is no OpenTelemetry SDK or the provider takes no span processor; never raises.
    """
    try:
        from wyrd._client.correlation import install
    except ImportError:
        return False
    return install(provider)


def span_exporter(client: WyrdClient | aio.WyrdClient) -> OTLPSpanExporter:
    """An exporter of spans to the client's server, with the client's token asked for at every export.

    ImportError names the extra when it is missing; so for the other two.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as missing:
        raise ImportError(NEEDS_EXTRA) from missing
    return _exporter(OTLPSpanExporter, "traces", client)


def log_exporter(client: WyrdClient | aio.WyrdClient) -> OTLPLogExporter:
    """As `span_exporter`, for log records."""
    try:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    except ImportError as missing:
        raise ImportError(NEEDS_EXTRA) from missing
    return _exporter(OTLPLogExporter, "logs", client)


def metric_exporter(client: WyrdClient | aio.WyrdClient) -> OTLPMetricExporter:
    """As `span_exporter`, for metric points."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError as missing:
        raise ImportError(NEEDS_EXTRA) from missing
    return _exporter(OTLPMetricExporter, "metrics", client)


def _exporter(kind: type[E], signal: str, client: WyrdClient | aio.WyrdClient) -> E:
    from wyrd._client.exports import exporter

    return exporter(kind, signal, client.server_url, account_of(client).token)


def __getattr__(name: str) -> Any:
    if name == "RunSpanProcessor":
        from wyrd._client.correlation import RunSpanProcessor

        return RunSpanProcessor
    raise AttributeError(f"module 'wyrd.otel' has no attribute {name!r}")
