"""The picture of a drift report, drawn from a stored result."""

from __future__ import annotations

from typing import Any

from engine.drift.plot import drift_svg
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import strict_loads

_DEPTH = 1100


def drift_picture(row: Any, requirement: str | None) -> str:
    """The SVG of one drift requirement of an execution; the first one where none is named.

    Raises `WYRD_VERIFICATION_422_INPUT_UNSUPPORTED` for an execution that has no drift report (yet),
    and `WYRD_SPEC_404_NOT_FOUND` for a requirement that it does not have.
    """
    found = (
        [] if row.result is None else strict_loads(row.result, max_depth=_DEPTH)["outcome"]["requirements"]
    )
    drawn = {one["id"]: one for one in found if "drift" in (one.get("detail") or {})}
    if not drawn:
        raise WyrdError(
            Code.VERIFICATION_422_INPUT_UNSUPPORTED,
            "the execution has no drift report",
            execution_id=row.execution_id,
        )
    chosen = next(iter(drawn)) if requirement is None else requirement
    if chosen not in drawn:
        raise WyrdError(
            Code.SPEC_404_NOT_FOUND,
            f"no drift requirement is called {chosen[:80]!r}; there are {', '.join(drawn)}",
            field="requirement",
        )
    one = drawn[chosen]
    window = ""
    if row.window_start is not None:
        window = f"{row.window_start:%Y-%m-%d %H:%M:%S} to {row.window_end:%Y-%m-%d %H:%M:%S} UTC · "
    return drift_svg(one["detail"]["drift"], one["statement"], f"{window}{row.verifier} on {row.subject}")
