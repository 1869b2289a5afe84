"""What a declaration says of baselines: fitting goes on after the answer, and is waited for a little."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from wyrd.cli.output import Format, outcome, show_table, terminal, working
from wyrd.errors import WyrdError
from wyrd.registry import Cards
from wyrd.wire.cards import DeclareReceipt
from wyrd.wire.refs import CardRef

WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.25


def show_baselines(cards: Cards, receipt: DeclareReceipt) -> None:
    """Print how the baselines of the declared Verifiers are, and what is to be said against them."""
    verifiers = [one.card_ref for one in receipt.outcomes if one.card_ref.kind == "Verifier"]
    until = time.monotonic() + WAIT_SECONDS
    found: list[tuple[CardRef, Mapping[str, Any]]] = []
    with working("fitting baselines", Format.TEXT):
        for ref in verifiers:
            baseline = _baseline(cards, ref)
            while baseline is not None and baseline["status"] == "fitting" and time.monotonic() < until:
                time.sleep(_PAUSE_SECONDS)
                baseline = _baseline(cards, ref)
            if baseline is not None:
                found.append((ref, baseline))
    if not found:
        return
    terminal().print()
    show_table(
        ("baseline of", "status", "why"),
        ((ref.pinned, outcome(one["status"]), one.get("error", "")) for ref, one in found),
    )
    for ref, one in found:
        for warning in one["warnings"]:
            terminal().print(f"warning: {ref.name}: {warning}", style="yellow", markup=False)


def _baseline(cards: Cards, ref: CardRef) -> Mapping[str, Any] | None:
    try:
        status = cards.get(ref).status or {}
    except WyrdError:
        # The declaration stands, whatever else goes wrong.
        return None
    baseline: Mapping[str, Any] | None = (status.get("verification") or {}).get("baseline")
    return baseline
