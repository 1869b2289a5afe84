"""From an HTTP answer to a value or a `WyrdError`, as the server meant it."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from wyrd._client.flow import Reply, Unanswered
from wyrd.errors import Code, WyrdError, code_named
from wyrd.wire.canonical import JsonRefused, strict_loads

M = TypeVar("M", bound=BaseModel)

_DEPTH = 256
"""Answers nest evidence, itself up to 64 deep, inside results."""


def unanswered_error(fault: Unanswered) -> WyrdError:
    """SPEC_500_INTERNAL for a time-out (as published), CLIENT_503_TRANSPORT_DOWN for no connection."""
    code = Code.SPEC_500_INTERNAL if fault.timed_out else Code.CLIENT_503_TRANSPORT_DOWN
    return WyrdError(code, fault.reason, transport="http")


def error_of(reply: Reply) -> WyrdError:
    """The error a non-2xx answer carries; SPEC_502_UPSTREAM_FAILURE when it is not one of ours."""
    try:
        document = strict_loads(reply.body, max_depth=_DEPTH)
    except JsonRefused:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("code"), str):
        error = WyrdError(
            Code.SPEC_502_UPSTREAM_FAILURE,
            f"server error: HTTP {reply.status} without an error document",
            original_code=None,
            original_details={"status": reply.status},
        )
    else:
        detail, details = document.get("detail"), document.get("details")
        detail = detail if isinstance(detail, str) else ""
        details = details if isinstance(details, dict) else {}
        # An unknown code becomes the 502 wrapper inside WyrdError, whatever names the details have.
        error = WyrdError(document["code"], detail)
        if code_named(document["code"]) is not None:
            error.details = details
        else:
            error.details = {"original_code": document["code"], "original_details": details}
    request_id = document.get("request_id") if isinstance(document, dict) else None
    request_id = request_id or reply.headers.get("wyrd-request-id")
    if request_id and reply.status >= 500:
        error.add_note(f"request id {request_id}")
    return error


def json_of(reply: Reply) -> Any:
    """The JSON body of a 2xx answer. Anything else in its place is SPEC_502_UPSTREAM_FAILURE."""
    try:
        return strict_loads(reply.body, max_depth=_DEPTH)
    except JsonRefused as refused:
        raise WyrdError(
            Code.SPEC_502_UPSTREAM_FAILURE, f"the server's answer is {refused.reason}", status=reply.status
        ) from None


def model_of(reply: Reply, answer: type[M]) -> M:
    """The body of a 2xx answer as its model; one that does not fit is SPEC_502_UPSTREAM_FAILURE."""
    value = json_of(reply)
    try:
        return answer.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise WyrdError(
            Code.SPEC_502_UPSTREAM_FAILURE,
            f"the server's answer does not fit at {place or 'its root'}: {first['msg']}",
            field=place,
        ) from None
