"""How an error travels by gRPC: a status of the same sense, and the problem document in a trailer.

The published clients go by the document's code; the status is for everybody else, and for what
they repeat.
"""

from typing import Any

from grpc import StatusCode

from api.problems import json_bytes, problem_document
from wyrd.errors import WyrdError

TRAILER = "wyrd-error-bin"

_MOST_BYTES = 4096
"""Of a document. Receivers refuse metadata over 8 KiB, and it travels as base64."""
_LONGEST = 400
"""Characters of a sentence, which may be percent-encoded to three times and more."""

_STATUS = {
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    409: StatusCode.ABORTED,
    429: StatusCode.RESOURCE_EXHAUSTED,
    500: StatusCode.INTERNAL,
    501: StatusCode.UNIMPLEMENTED,
    502: StatusCode.UNAVAILABLE,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.DEADLINE_EXCEEDED,
    507: StatusCode.RESOURCE_EXHAUSTED,
}


def status_of(error: WyrdError) -> StatusCode:
    """The gRPC status of an error. Every other one of the 400s is INVALID_ARGUMENT."""
    found = _STATUS.get(error.status)
    if found is None:
        return StatusCode.INVALID_ARGUMENT if error.status < 500 else StatusCode.INTERNAL
    return found


def sentence(error: WyrdError) -> str:
    """The status message: one line, not longer than it may be."""
    return f"{error.code}: {_cut(error.detail)}"


def document(error: WyrdError, request_id: str) -> bytes:
    """The problem document as JSON; long texts are cut, and details left out, as far as it must fit."""
    found = problem_document(error, request_id)
    data = json_bytes(found)
    if len(data) > _MOST_BYTES:
        # Every name stays: clients rebuild some errors from the names in the details.
        found |= {"detail": _cut(error.detail), "details": _shortened(found["details"])}
        data = json_bytes(found)
    return data if len(data) <= _MOST_BYTES else json_bytes({**found, "details": {}})


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(part) for name, part in value.items()}
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
