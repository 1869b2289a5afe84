"""Whether a failed attempt is followed by another, and after how long."""

from __future__ import annotations

import math
from enum import Enum

from engine.failure import BlockFailure, ReasonKind

LONGEST_WAIT = 30.0
"""Seconds; a provider's own Retry-After may be longer."""

AGENT_CHECK_RETRIES = 2
"""How often an agent check repeats a call that failed for a transient fault of the provider."""

# Another attempt at these cannot help, or must not be made, whoever raised them.
_FINAL = frozenset({ReasonKind.INTERNAL, ReasonKind.CANCELLED, ReasonKind.WORKER_LOST})


class Role(Enum):
    """What the failing block is to its Verifier; each role has its own rule."""

    STEP = "step"
    """Retries as often as the step's `retries` says."""
    AGENT_CHECK = "agent check"
    """Retries transient provider faults, at most twice."""
    CHECK = "check"
    """Code, assert, trace and drift checks: never retried."""


def next_wait(role: Role, failure: BlockFailure, failures: int, retries: int = 0) -> float | None:
    """Seconds to wait before the next attempt, or None when this failure is the last.

    `failures` counts the attempts that failed so far, this one included; attempts lost with
    their worker are not among them. `retries` is the step's own number. The wait is 1 s doubling
    to 30 s, or the provider's Retry-After if that is longer. Whether the wait still fits the
    block's time is for the caller, who has a clock.
    """
    if not failure.retryable or failure.kind in _FINAL or failures > _allowed(role, failure, retries):
        return None
    own = min(LONGEST_WAIT, 2.0 ** min(failures - 1, 10))
    asked = failure.retry_after
    return own if asked is None or not math.isfinite(asked) else max(own, asked)


def _allowed(role: Role, failure: BlockFailure, retries: int) -> int:
    if role is Role.STEP:
        return retries
    if role is Role.AGENT_CHECK and failure.kind is ReasonKind.PROVIDER_ERROR:
        return AGENT_CHECK_RETRIES
    return 0
