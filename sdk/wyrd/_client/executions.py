"""Reading, awaiting, cancelling and listing executions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from wyrd._client.calls import Call, DeadlinePassed
from wyrd._client.flow import Flow, Pause
from wyrd._client.result import VerificationResult
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import is_uuid7
from wyrd.wire.verification import ExecutionList, ExecutionStatus, ResultDocument, StatusDocument

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
LONGEST_WAIT = 365 * 86_400.0
"""A year, in seconds: what an infinite time-out comes to."""

_NOT_YET = {
    Code.VERIFICATION_404_EXECUTION_NOT_FOUND,
    Code.SPEC_404_NOT_FOUND,
}
_ENDED = {ExecutionStatus.ERRORED, ExecutionStatus.CANCELLED, ExecutionStatus.TIMED_OUT}


def checked_id(execution_id: object) -> str:
    """An execution id is a UUIDv7 (SPEC_400_VALIDATION otherwise)."""
    if not isinstance(execution_id, str) or not is_uuid7(execution_id):
        raise WyrdError(Code.SPEC_400_VALIDATION, "an execution id is a UUIDv7", field="execution_id")
    return execution_id.lower()


def _path(execution_id: str, tail: str = "") -> str:
    return f"/v1/verification/executions/{quote(execution_id, safe='')}{tail}"


def status(server_url: str, execution_id: str, deadline: float | None = None) -> Flow[dict[str, Any]]:
    """The status document as the server sent it, checked to be one."""
    value = yield from Call("GET", _path(execution_id), deadline=deadline).value(server_url)
    return checked_status(value)


def drift_picture(server_url: str, execution_id: str) -> Flow[bytes]:
    """The drift report of an execution as SVG. VERIFICATION_422_INPUT_UNSUPPORTED without one."""
    reply = yield from Call("GET", _path(execution_id, "/drift.svg")).run(server_url)
    return reply.body


def checked_status(value: Any) -> dict[str, Any]:
    try:
        StatusDocument.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise WyrdError(
            Code.SPEC_502_UPSTREAM_FAILURE,
            f"the server's status does not fit at {place or 'its root'}: {first['msg']}",
            field=place,
        ) from None
    found: dict[str, Any] = value
    return found


def cancel(server_url: str, execution_id: str) -> Flow[dict[str, Any]]:
    """Ask the server to cancel; the status document after that."""
    value = yield from Call("POST", _path(execution_id, "/cancel")).value(server_url)
    return checked_status(value)


def listing(server_url: str, filters: Mapping[str, Any]) -> Flow[ExecutionList]:
    """One page of the tenant's executions."""
    return (
        yield from Call("GET", "/v1/verification/executions", query=filters).model(server_url, ExecutionList)
    )


def wait(server_url: str, execution_id: str, timeout: float) -> Flow[VerificationResult]:
    """Poll until there is a result, for at most `timeout` seconds.

    Not visible yet, and a server that cannot be reached or says 503, are waited through. An
    execution that ended without a result raises its own error; running out of time raises
    SDK_504_VERIFICATION_WAIT_TIMEOUT.
    """
    timeout = _seconds(timeout)
    started = time.monotonic()
    deadline = started + min(timeout, LONGEST_WAIT)
    pause, last = FIRST_PAUSE, "nothing yet"
    while True:
        try:
            # Even a wait of no time looks once.
            found = yield from status(server_url, execution_id, max(deadline, started + 1.0))
        except DeadlinePassed as passed:
            last = passed.last.code if passed.last is not None else last
            raise _timed_out(execution_id, timeout, last) from None
        except WyrdError as error:
            if error.member not in _NOT_YET and error.status != 503:
                raise
            last = error.code
        else:
            result = _result_of(found)
            if result is not None:
                return result
            last = str(found["status"])
        left = deadline - time.monotonic()
        if left <= 0:
            raise _timed_out(execution_id, timeout, last)
        yield Pause(min(pause, left))
        pause = min(pause * 2, LONGEST_PAUSE)


def _seconds(timeout: object) -> float:
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 0:
        return float(timeout)
    raise WyrdError(Code.SPEC_400_VALIDATION, "timeout is a number of seconds", field="timeout")


def _result_of(found: dict[str, Any]) -> VerificationResult | None:
    """The result, whatever the status says; None while there is none; the execution's own error."""
    if found.get("result") is not None:
        return VerificationResult.of(ResultDocument.model_validate(found["result"]))
    state = ExecutionStatus(found["status"])
    if state not in _ENDED:
        return None
    told = found.get("error") or {}
    error = WyrdError(
        told.get("code", Code.SPEC_500_INTERNAL),
        told.get("message", "the execution ended without saying why"),
    )
    error.details |= {"execution_id": found["execution_id"], "status": state.value}
    raise error


def _timed_out(execution_id: str, timeout: float, last: str) -> WyrdError:
    return WyrdError(
        Code.SDK_504_VERIFICATION_WAIT_TIMEOUT,
        f"no result of {execution_id} within {timeout:g} s; last seen: {last}",
        execution_id=execution_id,
        last_seen=last,
    )
