"""What a provider's misbehaviour means: which failure, whether another attempt may help, and when.

Reasons hold our own words, HTTP statuses and the provider's error identifiers. Its sentences are
left out: they quote credentials and evidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from engine.failure import BlockFailure, ReasonKind

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

_MEANING = {
    401: "refuses the credential",
    403: "refuses the credential",
    404: "does not know the model or the address",
    408: "timed out",
    413: "finds the request too large",
    429: "limits the rate of calls",
    503: "is overloaded",
    529: "is overloaded",
}
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.\[\]-]{0,63}")
_SECRET_LIKE = re.compile(r"(?i)^(sk|pk|rk|key|xai|aiza|bearer|eyj)[-_a-z0-9]*\d")


def of_status(status: int, headers: Mapping[str, str], body: Any, now: datetime) -> BlockFailure:
    """The failure that an HTTP answer means. `headers` by lower-case name, `body` parsed or None."""
    said = identifiers(body)
    exhausted = "insufficient_quota" in said
    meaning = "says that the account's quota is used up" if exhausted else _MEANING.get(status)
    reason = f"the provider answered {status}" + (f": it {meaning}" if meaning else "")
    if said:
        reason += f" ({', '.join(said)})"
    retryable = status in RETRYABLE_STATUSES and not (status == 429 and exhausted)
    wait = retry_after(headers, now) if retryable else None
    return BlockFailure(ReasonKind.PROVIDER_ERROR, reason, retryable=retryable, retry_after=wait)


def identifiers(body: Any) -> list[str]:
    """The error's code, type, status and parameter, where they are plain identifiers."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return []
    found: list[str] = []
    for member in ("code", "type", "status", "param"):
        value = error.get(member)
        if (
            isinstance(value, str)
            and _IDENTIFIER.fullmatch(value)
            and not _SECRET_LIKE.match(value)
            and value not in found
        ):
            found.append(value)
    return found


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait by `retry-after-ms` or `Retry-After` (seconds or an HTTP date), never negative."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", value):
            return float(value) * scale
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - now).total_seconds())


def timed_out(seconds: float) -> BlockFailure:
    return BlockFailure(
        ReasonKind.TIMEOUT, f"the model did not answer within {_plain(seconds)} s", retryable=True
    )


def unreachable(host: str) -> BlockFailure:
    return BlockFailure(ReasonKind.PROVIDER_ERROR, f"no connection to {host}", retryable=True)


def cut_off(host: str) -> BlockFailure:
    return BlockFailure(
        ReasonKind.PROVIDER_ERROR, f"{host} closed the connection before it had answered", retryable=True
    )


def garbled(what: str) -> BlockFailure:
    """A success that is not an answer: a proxy's page, broken JSON, no choice."""
    return BlockFailure(ReasonKind.PROVIDER_ERROR, f"the provider answered {what}", retryable=True)


def refused_here(what: str) -> BlockFailure:
    """The call cannot be put to this provider; nothing was sent."""
    return BlockFailure(ReasonKind.NOT_CONFIGURED, what)


def too_large(what: str, size: int, limit: int) -> BlockFailure:
    return BlockFailure(ReasonKind.LIMIT_EXCEEDED, f"{what} has {size} bytes, over the limit of {limit}")


def _plain(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".") if math.isfinite(seconds) else str(seconds)
