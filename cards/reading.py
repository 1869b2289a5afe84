"""Finding one Card: by reference, by uid, or the latest of a name."""

from __future__ import annotations

from sqlalchemy import Connection

from cards.envelope import view_of
from cards.graph import readable_by, require_readable
from store.caller import Caller, Permission
from store.cards import Cards, StoredCard
from wyrd.cards import KINDS
from wyrd.cards.identifiers import is_exact_version, is_name
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import CardView
from wyrd.wire.ids import is_uuid7


def card_by_ref(
    connection: Connection, caller: Caller, kind: str, space: str, name: str, version: str
) -> CardView:
    """One exact version.

    Errors: `WYRD_SPEC_400_VALIDATION` (not a kind, name or version), `WYRD_REGISTRY_404_CARD_NOT_FOUND`,
    `WYRD_PERMISSION_403_DENIED_RBAC` (also for a Card outside a Card-bound caller's graph).
    """
    return _viewed(connection, caller, existing_by_ref(connection, caller, kind, space, name, version))


def card_by_uid(connection: Connection, caller: Caller, kind: str, uid: str) -> CardView:
    """Errors as `card_by_ref`; a uid of another kind is not found."""
    return _viewed(connection, caller, existing_by_uid(connection, caller, uid, kind))


def latest_card(connection: Connection, caller: Caller, kind: str, space: str, name: str) -> CardView:
    """The highest active version that is not a pre-release. Errors as `card_by_ref`."""
    _checked(kind, space, name)
    found = Cards(connection, caller.tenant).latest(kind, space, name)
    if found is None:
        raise not_found(f"{space}/{kind}/{name} has no active release")
    return _viewed(connection, caller, found)


def existing_by_ref(
    connection: Connection,
    caller: Caller,
    kind: str,
    space: str,
    name: str,
    version: str,
    *,
    deleted: bool = False,
) -> StoredCard:
    """The stored row, deleted ones only when `deleted` asks for them too."""
    _checked(kind, space, name)
    if not is_exact_version(version):
        raise _malformed("version", "is not an exact version such as 1.0.0")
    found = Cards(connection, caller.tenant).by_identity(kind, space, name, version)
    if found is None or (found.status == "deleted" and not deleted):
        raise not_found(f"{space}/{kind}/{name}@{version} is not in the registry")
    return found


def existing_by_uid(
    connection: Connection, caller: Caller, uid: str, kind: str | None = None, *, deleted: bool = False
) -> StoredCard:
    """The stored row of a uid, of that kind when one is given."""
    found = Cards(connection, caller.tenant).by_uid(uid.lower()) if is_uuid7(uid) else None
    if found is None or kind not in (None, found.kind) or (found.status == "deleted" and not deleted):
        raise not_found("no Card of that kind has this uid" if kind else "no Card has this uid")
    return found


def not_found(detail: str) -> WyrdError:
    return WyrdError(Code.REGISTRY_404_CARD_NOT_FOUND, detail)


def _viewed(connection: Connection, caller: Caller, card: StoredCard) -> CardView:
    caller.require(Permission.CARDS_READ)
    graph = readable_by(connection, caller)
    require_readable(graph, card.uid)
    return view_of(connection, caller.tenant, card, graph)


def _checked(kind: str, space: str, name: str) -> None:
    if kind not in KINDS:
        raise _malformed("kind", "is not a kind of Card")
    for field, text in (("space", space), ("name", name)):
        if not is_name(text):
            raise _malformed(field, "has 3 to 64 of a-z, 0-9, - and _, a letter first")


def _malformed(field: str, detail: str) -> WyrdError:
    return WyrdError(Code.SPEC_400_VALIDATION, f"{field} {detail}", field=field)
