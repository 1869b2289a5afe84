"""Which run the code at hand is inside of: what `with state.run(...)` sets and every span reads.

Nothing here imports OpenTelemetry. Where the application has loaded its SDK, entering and leaving
are told to `wyrd._client.correlation` as well.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class RunScope:
    """One view of a run that may be entered. Two views are never the same scope."""

    run_id: str
    card_uid: str


Scopes = tuple[RunScope, ...]
"""What has been entered and not left, the innermost last."""

_entered: ContextVar[Scopes] = ContextVar("wyrd_run_scopes", default=())


def scopes() -> Scopes:
    """The scopes of this thread or task, inherited wherever Python's own context is."""
    return _entered.get()


def enter(scope: RunScope) -> None:
    _entered.set((*_entered.get(), scope))
    if "opentelemetry.sdk.trace" in sys.modules:
        from wyrd._client import correlation

        correlation.entered(scope)


def leave(scope: RunScope) -> None:
    """Undo the latest `enter` of that scope here, whatever was entered since.

    Blocks end out of order where generators hold them open, and elsewhere than they began where
    another task closes such a generator: then there is nothing here to undo.
    """
    _entered.set(without(_entered.get(), scope))
    if "opentelemetry.sdk.trace" in sys.modules:
        from wyrd._client import correlation

        correlation.left(scope)


def without(entered: Scopes, scope: RunScope) -> Scopes:
    """The scopes less the innermost occurrence of one."""
    for index in range(len(entered) - 1, -1, -1):
        if entered[index] is scope:
            return entered[:index] + entered[index + 1 :]
    return entered
