"""A Card version's later life: deactivated, reactivated, deleted for ever."""

from __future__ import annotations

from sqlalchemy import Connection

from store.bindings import Bindings
from store.caller import Caller, Permission
from store.cards import Cards, StoredCard
from store.database import database_now
from wyrd.errors import Code, WyrdError

_NAMED_REFERRERS = 20


def set_card_active(connection: Connection, caller: Caller, uid: str, active: bool) -> None:
    """Make a Card active or deprecated, and the bindings it owns with it.

    A deprecated Card stays readable and may still be referred to; its bindings match nothing.
    Repeating the call changes nothing. Errors: `WYRD_PERMISSION_403_DENIED_RBAC`,
    `WYRD_SPEC_409_CONFLICT` for a Card that waits for its files.
    """
    cards = _locked(connection, caller)
    card = _present(cards, uid)
    if card.status == "pending":
        raise WyrdError(
            Code.SPEC_409_CONFLICT,
            f"{card.ref.pinned} still waits for its files",
            card_uid=card.uid,
            status=card.status,
        )
    wanted = "active" if active else "deprecated"
    if card.status != wanted:
        cards.set_status(card.uid, wanted, database_now(connection))
        Bindings(connection, caller.tenant).set_active(card.uid, active)


def delete_card(connection: Connection, caller: Caller, uid: str) -> bool:
    """Delete a Card version for ever; its bindings never match again. False when it was before.

    Refused with `WYRD_SPEC_409_CONFLICT` while a Card that is not deleted refers to it, also a
    deprecated one, which may be reactivated; details.referrers names them.
    """
    cards = _locked(connection, caller)
    card = cards.by_uid(uid)
    if card is None:
        raise WyrdError(Code.REGISTRY_404_CARD_NOT_FOUND, "no Card has this uid")
    if card.status == "deleted":
        return False
    referrers = list(dict.fromkeys(str(ref) for ref, _ in cards.inbound(card.uid)))
    if referrers:
        raise WyrdError(
            Code.SPEC_409_CONFLICT,
            f"{card.ref.pinned} is referred to by {len(referrers)} Card(s), first {referrers[0]}",
            card_uid=card.uid,
            referrers=referrers[:_NAMED_REFERRERS],
            referrer_count=len(referrers),
        )
    cards.set_status(card.uid, "deleted", database_now(connection))
    Bindings(connection, caller.tenant).set_active(card.uid, False)
    return True


def _locked(connection: Connection, caller: Caller) -> Cards:
    caller.require(Permission.CARDS_WRITE)
    cards = Cards(connection, caller.tenant)
    cards.lock()
    return cards


def _present(cards: Cards, uid: str) -> StoredCard:
    card = cards.by_uid(uid)
    if card is None or card.status == "deleted":
        raise WyrdError(Code.REGISTRY_404_CARD_NOT_FOUND, "no Card has this uid")
    return card
