"""A tenant with Cards, callers and a Scribe, for tests of who may record what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bifrost.names import TableName
from bifrost.scribe.intake import Scribe
from bifrost.tables import Tables
from store.caller import Caller, Role, Tenant
from store.cards import Cards, StoredCard
from store.database import Database, utc_now
from store.outbox import Batch, Outbox
from store.settings import Settings
from store.tenants import make_tenant
from wyrd.wire.bifrost import FieldSpec, RegisterTable
from wyrd.wire.ids import uuid7
from wyrd.wire.names import Kind

TICKETS = TableName("vala.datasets", "tickets")
FIELDS = [
    FieldSpec(name="ticket_id", data_type="Utf8"),
    FieldSpec(name="priority", data_type="Int64", nullable=True),
    FieldSpec(name="details", data_type="Variant", nullable=True),
]


class Recording:
    """One tenant's part of a database."""

    def __init__(self, database: Database, home: Path, slug: str = "acme", **settings: Any) -> None:
        self.database = database
        self.tenant: Tenant = database.write_now(make_tenant, slug)
        self.settings = Settings(home=home, **settings)
        self.scribe = Scribe(database, self.settings)

    def register(self, *fields: FieldSpec, table: TableName = TICKETS) -> None:
        asked = RegisterTable(namespace=table.namespace, name=table.name, fields=list(fields or FIELDS))
        self.database.write_now(lambda connection: Tables(connection, self.tenant).register(asked))

    def caller(self, card_uid: str | None = None, role: Role = Role.SERVICE) -> Caller:
        return Caller(self.tenant, uuid7(), frozenset({role}), card_uid)

    def card(self, kind: Kind, *targets: str) -> str:
        """A Card that refers to those; its uid."""
        uid, now = uuid7(), utc_now()
        card = StoredCard(
            uid=uid,
            kind=kind,
            space="support",
            name=f"card-{uid}",
            version="1.0.0",
            precedence="1",
            prerelease=False,
            spec="{}",
            spec_hash="0" * 64,
            artifact_hash=None,
            descriptive="{}",
            status="active",
            created_at=now,
            updated_at=now,
        )

        def store(connection: Any) -> None:
            cards = Cards(connection, self.tenant)
            cards.insert(card)
            cards.refer(uid, [(target, None) for target in targets])

        self.database.write_now(store)
        return uid

    def delete(self, uid: str) -> None:
        self.database.write_now(
            lambda connection: Cards(connection, self.tenant).set_status(uid, "deleted", utc_now())
        )

    def batches(self, table: TableName = TICKETS) -> Sequence[Batch]:
        return self.database.read_now(lambda connection: Outbox(connection, self.tenant).pending(table.full))
