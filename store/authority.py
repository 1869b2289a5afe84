"""Whether a Card may act in the background: the Card's own status, and its principal's standing."""

from __future__ import annotations

from sqlalchemy import Connection

from store.caller import Tenant
from store.cards import Cards
from store.identity import Identity
from wyrd.errors import Code, WyrdError


def require_authority(connection: Connection, tenant: Tenant, card_uid: str) -> None:
    """Raise the reason why an owner's bindings do not run.

    `WYRD_VERIFICATION_404_BINDING_NOT_FOUND` for a Card that is deactivated or deleted,
    `WYRD_PERMISSION_403_DENIED_RBAC` for one whose bound principal is suspended or has no key left.
    A Card that no principal is bound to is nobody's to refuse.
    """
    card = Cards(connection, tenant).by_uid(card_uid)
    if card is None or card.status != "active":
        status = "gone" if card is None else card.status
        named = "the owner" if card is None else f"the owner {card.ref.pinned}"
        raise WyrdError(
            Code.VERIFICATION_404_BINDING_NOT_FOUND,
            f"{named} is {status}, so its bindings do not run",
            owner_status=status,
        )
    reason = Identity(connection, tenant).refused(card_uid)
    if reason is not None:
        raise WyrdError(
            Code.PERMISSION_403_DENIED_RBAC, f"{reason}, so the bindings of {card.ref.pinned} do not run"
        )
