"""Whether a Card may act in the background: the Card's own status, and its principal's standing."""

from __future__ import annotations

from sqlalchemy import Connection, or_, select

from store.caller import Tenant
from store.cards import Cards
from store.clock import now
from store.standing import PrincipalStatus
from store.tables.identity import api_keys, principals
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
    bound = connection.execute(
        select(principals.c.id, principals.c.status).where(
            principals.c.tenant_id == tenant.id, principals.c.card_uid == card_uid
        )
    ).all()
    if not bound:
        return
    standing = [row.id for row in bound if row.status == PrincipalStatus.ACTIVE]
    if not standing:
        raise _refused(f"the principal bound to {card.ref.pinned} is suspended")
    moment = now(connection)
    usable = connection.execute(
        select(api_keys.c.id)
        .where(
            api_keys.c.principal_id.in_(standing),
            api_keys.c.revoked_at.is_(None),
            or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > moment),
        )
        .limit(1)
    ).first()
    if usable is None:
        raise _refused(f"the last key of the principal bound to {card.ref.pinned} was revoked or expired")


def _refused(detail: str) -> WyrdError:
    return WyrdError(Code.PERMISSION_403_DENIED_RBAC, detail)
