"""W3C trace context on requests to the server, where a span is active."""

from __future__ import annotations

import sys


def trace_headers() -> dict[str, str]:
    """`traceparent`, and `tracestate` if there is one; nothing without an active span."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
