"""The list of Cards, page by page."""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, Connection, and_

from cards.filter import compile_filter
from cards.graph import readable_by
from cards.ranges import VersionRange
from store.caller import Caller, Permission
from store.cards import Cards, StoredCard
from store.tables.cards import cards
from wyrd.cards import KINDS
from wyrd.cards.identifiers import is_name
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonRefused, canonical_json, digest, strict_loads
from wyrd.wire.cards import CardItem, CardPage, CardStatus

DEFAULT_LIMIT = 100
MOST_ITEMS = 1000

_KEY_PARTS = 5


@dataclass(frozen=True, slots=True)
class CardQuery:
    """What a list is asked for. Without a status it holds every Card that is not deleted."""

    kind: str | None = None
    space: str | None = None
    name: str | None = None
    version_range: str | None = None
    status: str | None = None
    filter: str | None = None
    include_prerelease: bool = False

    def fingerprint(self, caller: Caller) -> str:
        """What a cursor is bound to: the query, the tenant and the caller's Card."""
        return digest({**asdict(self), "tenant": caller.tenant.id, "card": caller.card_uid})[:32]


def card_page(
    connection: Connection, caller: Caller, query: CardQuery, limit: int | None, cursor: str | None
) -> CardPage:
    """One page, ordered by kind, space, name and version (SemVer order).

    Errors: `WYRD_REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE` (1 to 1000),
    `WYRD_REGISTRY_400_CURSOR_MISMATCH`, `WYRD_QUERY_400_INVALID_FIELD`, `…_INVALID_SYNTAX`,
    `…_TOO_COMPLEX`.
    """
    caller.require(Permission.CARDS_READ)
    size = DEFAULT_LIMIT if limit is None else limit
    if not 1 <= size <= MOST_ITEMS:
        raise WyrdError(
            Code.REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE,
            f"limit is from 1 to {MOST_ITEMS}",
            field="limit",
        )
    after = None if cursor is None else _read_cursor(cursor, query.fingerprint(caller))
    conditions = _conditions(query)
    graph = readable_by(connection, caller)
    if graph is not None:
        conditions.append(cards.c.uid.in_(sorted(graph)))
    found = Cards(connection, caller.tenant).page(conditions, after, size + 1)
    more = len(found) > size
    found = found[:size]
    return CardPage(
        items=[_item(card) for card in found],
        next_cursor=_cursor(found[-1], query.fingerprint(caller)) if more else None,
    )


def _conditions(query: CardQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.kind is not None:
        if query.kind not in KINDS:
            raise _bad_field("kind", "is not a kind of Card")
        conditions.append(cards.c.kind == query.kind)
    for field, text in (("space", query.space), ("name", query.name)):
        if text is not None:
            if not is_name(text):
                raise _bad_field(field, "has 3 to 64 of a-z, 0-9, - and _, a letter first")
            conditions.append(cards.c[field] == text)
    if query.status is None:
        conditions.append(cards.c.status != CardStatus.DELETED)
    elif query.status in list(CardStatus):
        conditions.append(cards.c.status == query.status)
    else:
        raise _bad_field("status", f"is one of {', '.join(CardStatus)}")
    if not query.include_prerelease:
        conditions.append(cards.c.prerelease.is_(False))
    if query.version_range is not None:
        conditions.append(VersionRange.parse(query.version_range).condition(cards.c.precedence))
    if query.filter is not None:
        conditions.append(and_(compile_filter(query.filter)))
    return conditions


def _bad_field(field: str, detail: str) -> WyrdError:
    return WyrdError(Code.QUERY_400_INVALID_FIELD, f"{field} {detail}", field=field)


def _key(card: StoredCard) -> list[str]:
    return [card.kind, card.space, card.name, card.precedence, card.uid]


def _cursor(card: StoredCard, fingerprint: str) -> str:
    text = canonical_json([fingerprint, *_key(card)])
    return base64.urlsafe_b64encode(text).decode("ascii").rstrip("=")


def _read_cursor(cursor: str, fingerprint: str) -> list[str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        parts = strict_loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, JsonRefused):
        parts = None
    well_formed = (
        isinstance(parts, list)
        and len(parts) == _KEY_PARTS + 1
        and all(isinstance(part, str) and "\0" not in part for part in parts)
    )
    if not well_formed or parts[0] != fingerprint:
        raise WyrdError(
            Code.REGISTRY_400_CURSOR_MISMATCH, "the cursor belongs to another query", field="cursor"
        )
    key: list[str] = parts[1:]
    return key


def _item(card: StoredCard) -> CardItem:
    return CardItem(
        card_uid=card.uid,
        kind=card.kind,
        space=card.space,
        name=card.name,
        version=card.version,
        spec_hash=card.spec_hash,
        artifact_hash=card.artifact_hash,
        status=CardStatus(card.status),
        created_at=card.created_at,
        updated_at=card.updated_at,
    )
