"""OTLP/HTTP: what OpenTelemetry exporters send, in protobuf or JSON, gzip or not."""

from typing import Any

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from api.dependencies import Calling, Router, Serving
from api.edge import request_id_of
from api.services import Services
from bifrost.otlp.exports import Exports
from bifrost.otlp.requests import LOGS, METRICS, TRACES, Export, Form, Signal
from store.caller import Caller

router = Router(tags=["telemetry"])

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {form.value: {"schema": {}} for form in Form},
    }
}


@router.post("/v1/traces", response_class=Response, openapi_extra=_BODY)
async def export_traces(request: Request, serving: Serving, caller: Calling) -> Response:
    """Store the spans of an `ExportTraceServiceRequest`."""
    return await _received(request, serving, caller, TRACES)


@router.post("/v1/logs", response_class=Response, openapi_extra=_BODY)
async def export_logs(request: Request, serving: Serving, caller: Calling) -> Response:
    """Store the records of an `ExportLogsServiceRequest`."""
    return await _received(request, serving, caller, LOGS)


@router.post("/v1/metrics", response_class=Response, openapi_extra=_BODY)
async def export_metrics(request: Request, serving: Serving, caller: Calling) -> Response:
    """Store the data points of an `ExportMetricsServiceRequest`."""
    return await _received(request, serving, caller, METRICS)


async def _received(request: Request, serving: Services, caller: Caller, signal: Signal) -> Response:
    form, gzip = _form(request), _is_gzip(request)
    limit = serving.settings.max_body_bytes
    export = Export(signal, form, await request.body(), gzip, limit)
    exports = Exports(serving.database, serving.bifrost.scribe)
    answer = await exports.receive(caller, export, request_id_of(request.scope))
    return Response(answer, media_type=form.value)


def _form(request: Request) -> Form:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        return Form(given)
    except ValueError:
        raise HTTPException(
            415, f"the content type must be {' or '.join(Form)}, not {given[:100] or 'absent'}"
        ) from None


def _is_gzip(request: Request) -> bool:
    given = request.headers.get("content-encoding", "identity").strip().lower()
    if given in ("gzip", "identity"):
        return given == "gzip"
    raise HTTPException(
        415, f"the content encoding must be gzip, not {given[:100]}", headers={"accept-encoding": "gzip"}
    )
