"""Run and Card on spans. Imported only where the OpenTelemetry SDK is loaded already.

The scopes travel in two ways. Python's context (`wyrd._client.scope`) reaches every task and thread
that inherits it, also where a framework has replaced OpenTelemetry's context by one that it read
from a request. OpenTelemetry's own context reaches threads that are handed only that one.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, cast
from weakref import WeakSet

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor

from wyrd._client.scope import RunScope, Scopes, scopes, without

RUN_ID = "wyrd.run_id"
CARD_UID = "wyrd.card_uid"

_KEY = otel_context.create_key("wyrd-run-scopes")
_LOG = logging.getLogger("wyrd.otel")

_installing = threading.Lock()
_installed: WeakSet[Any] = WeakSet()


def _carried(context: Context | None = None) -> Scopes:
    """The scopes in an OpenTelemetry context; in the current one for None."""
    return cast("Scopes", otel_context.get_value(_KEY, context) or ())


class RunSpanProcessor(SpanProcessor):
    """Puts `wyrd.run_id` and `wyrd.card_uid` on every span that starts inside a run's block."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        # A parent that was chosen for the span says more than where the code happens to run.
        entered = _carried(parent_context) or scopes() or _carried()
        if entered:
            _mark(span, entered[-1].run_id, entered[-1].card_uid)
            return
        # A thread that was handed nothing but the parent still works for the parent's run.
        parent = getattr(trace.get_current_span(parent_context), "attributes", None) or {}
        if RUN_ID in parent and CARD_UID in parent:
            _mark(span, parent[RUN_ID], parent[CARD_UID])


def _mark(span: Any, run_id: Any, card_uid: Any) -> None:
    span.set_attribute(RUN_ID, run_id)
    span.set_attribute(CARD_UID, card_uid)


def install(provider: Any = None) -> bool:
    """Have a provider's spans marked, once; the global provider for None. Whether they are now."""
    try:
        if provider is None:
            provider = trace.get_tracer_provider()
        with _installing:
            if provider in _installed:
                return True
            add = getattr(provider, "add_span_processor", None)
            if add is None:
                return False
            add(RunSpanProcessor())
            _installed.add(provider)
            return True
    except Exception:
        _LOG.debug("the tracer provider takes no span processor", exc_info=True)
        return False


def entered(scope: RunScope) -> None:
    """Carry the scope in OpenTelemetry's context, and mark the span that is active already.

    That span is the request's own where a server framework started it; one that belongs to a run
    keeps its run and Card. Telemetry never fails an application: what goes wrong is logged.
    """
    install()
    try:
        _carry((*_carried(), scope))
        span: Any = trace.get_current_span()
        if span.is_recording() and RUN_ID not in (getattr(span, "attributes", None) or {}):
            _mark(span, scope.run_id, scope.card_uid)
    except Exception:
        _LOG.debug("a run is not carried in the OpenTelemetry context", exc_info=True)


def left(scope: RunScope) -> None:
    try:
        carried = _carried()
        if scope in carried:
            _carry(without(carried, scope))
    except Exception:
        _LOG.debug("a run is still carried in the OpenTelemetry context", exc_info=True)


def _carry(entered: Scopes) -> None:
    # No token is kept to detach by: a block that ends elsewhere could not use it, and detaching
    # would also take away what the application attached inside the block.
    otel_context.attach(otel_context.set_value(_KEY, entered))
