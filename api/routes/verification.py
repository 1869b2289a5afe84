"""`/v1/verification`: verify now, submit, and what became of executions."""

from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import AfterValidator, AwareDatetime
from starlette.types import Receive, Scope, Send

from api.dependencies import Calling, Router, Serving, asked_by, body_of, services
from api.links import workflow_url
from api.problems import Document
from api.records import EndedExecution, VerifyRecords
from api.submit import checked_key
from api.verify import HungUp
from wyrd.errors import Code
from wyrd.wire.verification import (
    EnqueueAnswer,
    ExecuteRequest,
    ExecutionList,
    ExecutionSource,
    ExecutionStatus,
    ExecutionVerdict,
    ResultDocument,
    StatusDocument,
)


def _utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside the years 1 to 9999") from None


Instant = Annotated[AwareDatetime, AfterValidator(_utc)]


class Answered(Document):
    """The answer of a verify: recorded once it has left, and also when the caller is not there to take it."""

    def __init__(self, result: Any, records: VerifyRecords, ended: EndedExecution) -> None:
        super().__init__(result)
        self._records = records
        self._ended = replace(ended, result=bytes(self.body).decode("utf-8"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._records.keep(self._ended)


router = Router(prefix="/v1/verification", tags=["verification"])


@router.post(
    "/execute",
    response_model=None,
    responses={200: {"model": ResultDocument}},
    openapi_extra=body_of(ExecuteRequest),
)
async def execute(request: Request) -> Response:
    """Run a Verifier now and answer its result within 60 seconds."""
    caller, asked = await asked_by(request, ExecuteRequest, Code.VERIFICATION_400_INPUT_INVALID)
    verification = services(request).verification

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    try:
        result, ended = await verification.verify.run(caller, asked, gone)
    except HungUp:
        return Response(status_code=499)
    return Answered(result, verification.records, ended)


@router.post(
    "/enqueue",
    status_code=202,
    response_model=None,
    responses={202: {"model": EnqueueAnswer}},
    openapi_extra=body_of(ExecuteRequest),
)
async def enqueue(request: Request) -> Response:
    """Accept an execution; the answer comes once its workflow is durably started. Needs an
    `idempotency-key` header of 8 to 256 visible ASCII characters."""
    caller, asked = await asked_by(request, ExecuteRequest, Code.VERIFICATION_400_INPUT_INVALID)
    serving = services(request)
    key = checked_key(request.headers.get("idempotency-key"))
    execution_id, workflow_id = await serving.verification.submit.run(caller, asked, key)
    answer = {"execution_id": execution_id, "workflow_id": workflow_id}
    if (link := workflow_url(serving.settings, workflow_id)) is not None:
        answer["workflow_url"] = link
    return Document(
        answer,
        202,
        headers={"location": f"/v1/verification/executions/{execution_id}"},
    )


@router.get("/executions", response_model=None, responses={200: {"model": ExecutionList}})
async def list_executions(
    caller: Calling,
    serving: Serving,
    verifier: str | None = None,
    subject: str | None = None,
    verdict: ExecutionVerdict | None = None,
    status: ExecutionStatus | None = None,
    run_id: str | None = None,
    group_id: str | None = None,
    binding_id: str | None = None,
    source: ExecutionSource | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    limit: int = 100,
    cursor: Annotated[str | None, Query(max_length=512)] = None,
) -> Response:
    """Executions, the newest first. `verifier` and `subject` are a uid or `space/Kind/name[@version]`."""
    given: dict[str, Any] = {
        "verifier": verifier,
        "subject": subject,
        "verdict": verdict,
        "status": status,
        "run_id": run_id,
        "group_id": group_id,
        "binding_id": binding_id,
        "source": source,
        "since": since,
        "until": until,
    }
    filters = {
        name: value.value if isinstance(value, StrEnum) else value
        for name, value in given.items()
        if value is not None
    }
    return Document(await serving.verification.executions.page(caller, filters, limit, cursor))


@router.get("/executions/{execution_id}", response_model=None, responses={200: {"model": StatusDocument}})
async def execution_status(execution_id: str, caller: Calling, serving: Serving) -> Response:
    """The status of an execution, with its result once it completed."""
    return Document(await serving.verification.executions.status(caller, execution_id))


@router.get("/executions/{execution_id}/drift.svg", response_class=Response)
async def execution_drift(
    execution_id: str, caller: Calling, serving: Serving, requirement: str | None = None
) -> Response:
    """The drift report of an execution as a picture: baseline against window, score against threshold."""
    picture = await serving.verification.executions.drift_picture(caller, execution_id, requirement)
    # A picture that a browser opens by itself runs nothing and loads nothing.
    headers = {
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        "x-content-type-options": "nosniff",
    }
    return Response(picture, media_type="image/svg+xml", headers=headers)


@router.post(
    "/executions/{execution_id}/cancel", response_model=None, responses={200: {"model": StatusDocument}}
)
async def cancel_execution(execution_id: str, caller: Calling, serving: Serving) -> Response:
    """Cancel an execution; answers the status it came to."""
    return Document(await serving.verification.executions.cancel(caller, execution_id))
