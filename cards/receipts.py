"""What a declaration answered, kept under its Idempotency-Key so that a replay answers the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from store.caller import Caller
from store.cards import Cards, StoredCard
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import DeclareOutcome

KEYS_KEPT = timedelta(days=7)
"""How long an Idempotency-Key stays known."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One Card of a receipt, as it stands now, and what the declaration did for it."""

    card: StoredCard
    outcome: DeclareOutcome


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one declaration answered, also on its replay. `root` is among `outcomes`."""

    root: StoredCard
    outcomes: tuple[Declared, ...]


def earlier_receipt(connection: Connection, caller: Caller, key: str, body_digest: str) -> Receipt | None:
    """The receipt of the declaration that used this Idempotency-Key; None for a new key.

    Raises `WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT` when its body was another.
    """
    cards = Cards(connection, caller.tenant)
    known = cards.declaration(key)
    if known is None:
        return None
    if known[0] != body_digest:
        raise WyrdError(
            Code.REGISTRY_409_IDEMPOTENCY_CONFLICT,
            "this Idempotency-Key was used for another declaration",
            field="idempotency-key",
        )
    stored = known[1]
    found = cards.by_uids(uid for uid, _ in stored["outcomes"])
    outcomes = tuple(Declared(found[uid], DeclareOutcome(what)) for uid, what in stored["outcomes"])
    return Receipt(found[stored["root"]], outcomes)


def remember_receipt(cards: Cards, key: str, body_digest: str, receipt: Receipt, now: datetime) -> None:
    """Keep a receipt under its key, and forget keys that are too old."""
    document = {
        "root": receipt.root.uid,
        "outcomes": [[one.card.uid, one.outcome.value] for one in receipt.outcomes],
    }
    cards.forget_declarations(now - KEYS_KEPT)
    cards.remember_declaration(key, body_digest, document, now)
