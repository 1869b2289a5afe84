"""The repository of Cards: rows, what they refer to, and the declarations that made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    delete,
    insert,
    literal,
    select,
    text,
    tuple_,
    update,
)

from store.caller import Tenant
from store.tables.cards import card_declarations, card_references, cards
from wyrd.wire.canonical import strict_loads
from wyrd.wire.names import Kind
from wyrd.wire.refs import CardRef

_STORED_DEPTH = 128


def stored_json(value: Any) -> str:
    """A JSON value as the registry keeps it: members in their own order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def read_json(stored: str) -> Any:
    return strict_loads(stored, max_depth=_STORED_DEPTH)


@dataclass(frozen=True, slots=True)
class StoredCard:
    """One Card version. `spec` and `descriptive` (labels, annotations, origin) are JSON text.

    `status` is pending, active, deprecated or deleted. Hashes are 64 hexadecimal digits.
    """

    uid: str
    kind: Kind
    space: str
    name: str
    version: str
    precedence: str
    prerelease: bool
    spec: str
    spec_hash: str
    artifact_hash: str | None
    descriptive: str
    status: str
    created_at: datetime
    updated_at: datetime

    @property
    def ref(self) -> CardRef:
        return CardRef(kind=self.kind, name=self.name, version=self.version, space=self.space, uid=self.uid)

    @property
    def spec_document(self) -> dict[str, Any]:
        document: dict[str, Any] = read_json(self.spec)
        return document


_COLUMNS = tuple(column for column in cards.c if column.name != "tenant_id")


class Cards:
    """Cards of one tenant over one connection; nothing here reaches another tenant's rows."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant
        self._mine = cards.c.tenant_id == tenant.id

    def lock(self) -> None:
        """Let one registry change of this tenant at a time go on, until the transaction ends.

        SQLite has one writer anyway. Without this, two PostgreSQL transactions could give the
        same next version away, or delete a Card while a declaration refers to it.
        """
        if self.connection.dialect.name == "postgresql":
            self.connection.execute(
                text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))"),
                {"key": f"wyrd/cards/{self.tenant.id}"},
            )

    def by_uid(self, uid: str) -> StoredCard | None:
        return self._one(cards.c.uid == uid)

    def by_uids(self, uids: Iterable[str]) -> dict[str, StoredCard]:
        found = self.connection.execute(self._select().where(cards.c.uid.in_(sorted(set(uids)))))
        return {row.uid: _card(row) for row in found}

    def by_identity(self, kind: str, space: str, name: str, version: str) -> StoredCard | None:
        return self._one(*_named(kind, space, name), cards.c.version == version)

    def versions(self, kind: str, space: str, name: str) -> list[StoredCard]:
        """Every version there ever was, deleted ones too, highest first; equals by age, newest first."""
        found = self.connection.execute(
            self._select()
            .where(*_named(kind, space, name))
            .order_by(cards.c.precedence.desc(), cards.c.uid.desc())
        )
        return [_card(row) for row in found]

    def latest(self, kind: str, space: str, name: str) -> StoredCard | None:
        """The highest active release."""
        found = self.connection.execute(
            self._select()
            .where(*_named(kind, space, name), cards.c.status == "active", cards.c.prerelease.is_(False))
            .order_by(cards.c.precedence.desc(), cards.c.uid.desc())
            .limit(1)
        ).first()
        return None if found is None else _card(found)

    def page(
        self, conditions: Sequence[ColumnElement[bool]], after: Sequence[str] | None, limit: int
    ) -> list[StoredCard]:
        """Cards by (kind, space, name, precedence, uid), from just after that key."""
        order = (cards.c.kind, cards.c.space, cards.c.name, cards.c.precedence, cards.c.uid)
        statement = self._select().where(*conditions).order_by(*order).limit(limit)
        if after is not None:
            statement = statement.where(tuple_(*order) > tuple_(*(literal(part) for part in after)))
        return [_card(row) for row in self.connection.execute(statement)]

    def insert(self, card: StoredCard) -> None:
        values = {column.name: getattr(card, column.name) for column in _COLUMNS}
        self.connection.execute(insert(cards).values(tenant_id=self.tenant.id, **values))

    def set_status(self, uid: str, status: str, now: datetime) -> None:
        self.connection.execute(
            update(cards).where(self._mine, cards.c.uid == uid).values(status=status, updated_at=now)
        )

    def refer(self, source_uid: str, targets: Iterable[tuple[str, str | None]]) -> None:
        """Record what a new Card refers to: (target uid, component alias or None)."""
        rows = [
            {
                "source_uid": source_uid,
                "ordinal": ordinal,
                "tenant_id": self.tenant.id,
                "target_uid": uid,
                "alias": alias,
            }
            for ordinal, (uid, alias) in enumerate(targets)
        ]
        if rows:
            self.connection.execute(insert(card_references), rows)

    def outbound(self, uid: str) -> list[tuple[CardRef, str | None]]:
        """What a Card refers to, with component aliases, in the order of text form, then of the spec."""
        return self._neighbours(card_references.c.source_uid == uid, card_references.c.target_uid)

    def inbound(self, uid: str) -> list[tuple[CardRef, str | None]]:
        """The Cards that refer to one, deleted ones left out, in the order of text form."""
        return self._neighbours(
            card_references.c.target_uid == uid, card_references.c.source_uid, cards.c.status != "deleted"
        )

    def reachable(self, uids: Iterable[str]) -> frozenset[str]:
        """Those Cards and everything they lead to by reference."""
        start = sorted(set(uids))
        reached = (
            select(cards.c.uid.label("uid")).where(self._mine, cards.c.uid.in_(start)).cte(recursive=True)
        )
        reached = reached.union(
            select(card_references.c.target_uid).where(
                card_references.c.source_uid == reached.c.uid,
                card_references.c.tenant_id == self.tenant.id,
            )
        )
        return frozenset(self.connection.execute(select(reached.c.uid)).scalars())

    def kinds_of(self, uids: Iterable[str]) -> dict[str, Kind]:
        """The kind of each of those Cards that the tenant has and that is not deleted."""
        wanted = sorted(set(uids))
        found: dict[str, Kind] = {}
        for start in range(0, len(wanted), 500):
            statement = select(cards.c.uid, cards.c.kind).where(
                self._mine, cards.c.uid.in_(wanted[start : start + 500]), cards.c.status != "deleted"
            )
            found.update({row.uid: row.kind for row in self.connection.execute(statement)})
        return found

    def targets_of(self, uids: Iterable[str]) -> list[tuple[CardRef, str]]:
        """What those Cards refer to, each once with its status, in the order of text form."""
        found = self.connection.execute(
            self._select().where(
                cards.c.uid.in_(
                    select(card_references.c.target_uid).where(
                        card_references.c.source_uid.in_(sorted(uids)),
                        card_references.c.tenant_id == self.tenant.id,
                    )
                )
            )
        )
        return sorted(((card.ref, card.status) for card in map(_card, found)), key=lambda pair: str(pair[0]))

    def declaration(self, key: str) -> tuple[str, Any] | None:
        """Body digest and receipt of the declaration that used an idempotency key."""
        found = self.connection.execute(
            select(card_declarations.c.body_digest, card_declarations.c.receipt).where(
                card_declarations.c.tenant_id == self.tenant.id, card_declarations.c.idempotency_key == key
            )
        ).first()
        return None if found is None else (found.body_digest, read_json(found.receipt))

    def remember_declaration(
        self, key: str, body_digest: str, receipt: Mapping[str, Any], now: datetime
    ) -> None:
        self.connection.execute(
            insert(card_declarations).values(
                tenant_id=self.tenant.id,
                idempotency_key=key,
                body_digest=body_digest,
                receipt=stored_json(receipt),
                created_at=now,
            )
        )

    def forget_declarations(self, before: datetime) -> None:
        """Drop this tenant's idempotency keys that are older."""
        self.connection.execute(
            delete(card_declarations).where(
                card_declarations.c.tenant_id == self.tenant.id, card_declarations.c.created_at < before
            )
        )

    def _select(self) -> Select[Any]:
        return select(*_COLUMNS).where(self._mine)

    def _one(self, *conditions: ColumnElement[bool]) -> StoredCard | None:
        found = self.connection.execute(self._select().where(*conditions)).first()
        return None if found is None else _card(found)

    def _neighbours(
        self, edge: ColumnElement[bool], other: ColumnElement[str], *conditions: ColumnElement[bool]
    ) -> list[tuple[CardRef, str | None]]:
        rows = self.connection.execute(
            select(
                cards.c.kind,
                cards.c.space,
                cards.c.name,
                cards.c.version,
                cards.c.uid,
                card_references.c.alias,
            )
            .join(card_references, other == cards.c.uid)
            .where(self._mine, card_references.c.tenant_id == self.tenant.id, edge, *conditions)
            .order_by(card_references.c.ordinal)
        )
        found = [
            (
                CardRef(kind=row.kind, name=row.name, version=row.version, space=row.space, uid=row.uid),
                row.alias,
            )
            for row in rows
        ]
        # The published clients expect the aliases of one target as the spec lists them.
        return sorted(found, key=lambda pair: str(pair[0]))


def _named(kind: str, space: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return cards.c.kind == kind, cards.c.space == space, cards.c.name == name


def _card(row: Row[Any]) -> StoredCard:
    return StoredCard(**row._mapping)
