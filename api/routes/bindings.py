"""The routes of bindings: list, status, run by hand."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from api.dependencies import Calling, Router, Serving, refused_with
from api.problems import Document
from wyrd.errors import Code

router = Router(prefix="/v1/verification/bindings", tags=["bindings"])


class Backfill(BaseModel):
    """The slots to judge: those in [`from`, `to`]."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    start: Annotated[AwareDatetime, Field(alias="from")]
    end: Annotated[AwareDatetime, Field(alias="to")]


@router.get("", response_model=None)
async def list_bindings(
    caller: Calling,
    serving: Serving,
    owner_uid: str | None = None,
    subject_uid: str | None = None,
    verifier_uid: str | None = None,
    active: bool | None = None,
    limit: int = 100,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Bindings, the oldest first."""
    filters: dict[str, Any] = {
        "owner_uid": owner_uid,
        "subject_uid": subject_uid,
        "verifier_uid": verifier_uid,
        "active": active,
    }
    return Document(await serving.verification.bindings.page(caller, filters, limit, cursor))


@router.get("/{binding_id}", response_model=None)
async def binding_status(binding_id: str, caller: Calling, serving: Serving) -> Response:
    """A binding: what it joins, its next run, its health and its last slots."""
    return Document(await serving.verification.bindings.status(caller, binding_id))


@router.post("/{binding_id}/run-now", response_model=None)
async def run_now(binding_id: str, caller: Calling, serving: Serving) -> Response:
    """Judge the last complete window of a scheduled binding, unless it was judged before."""
    return Document(await serving.verification.bindings.run_now(caller, binding_id), 202)


@router.post("/{binding_id}/backfill", response_model=None)
@refused_with(Code.VERIFICATION_400_INVALID_WINDOW)
async def backfill(binding_id: str, asked: Backfill, caller: Calling, serving: Serving) -> Response:
    """Judge the slots of a span of time that were not judged; a span holds at most 500, all of them passed.

    A refusal for their number has the first slot that is too many in `details.next`.
    """
    start: datetime = asked.start
    end: datetime = asked.end
    return Document(await serving.verification.bindings.backfill(caller, binding_id, start, end), 202)
