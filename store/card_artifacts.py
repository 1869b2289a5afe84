"""The repository of a Card's files: what was declared, and whether its bytes have arrived."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, insert, select, update

from store.caller import Tenant
from store.tables.cards import card_artifacts


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """One declared file. `sha256` is 64 hexadecimal digits; `stored_at` is None while pending."""

    card_uid: str
    relative_path: str
    upload_id: str
    sha256: str
    size_bytes: int
    content_type: str | None
    stored_at: datetime | None


_COLUMNS = tuple(column for column in card_artifacts.c if column.name != "tenant_id")


class CardArtifacts:
    """Files of one tenant's Cards over one connection."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant
        self._mine = card_artifacts.c.tenant_id == tenant.id

    def add(self, artifacts: Iterable[StoredArtifact]) -> None:
        rows = [
            {
                "tenant_id": self.tenant.id,
                **{column.name: getattr(artifact, column.name) for column in _COLUMNS},
            }
            for artifact in artifacts
        ]
        if rows:
            self.connection.execute(insert(card_artifacts), rows)

    def of_card(self, card_uid: str) -> list[StoredArtifact]:
        """A Card's files by path."""
        return self.of_cards([card_uid]).get(card_uid, [])

    def of_cards(self, card_uids: Iterable[str]) -> dict[str, list[StoredArtifact]]:
        """Files by path, of those Cards that have any."""
        rows = self.connection.execute(
            self._select()
            .where(card_artifacts.c.card_uid.in_(sorted(set(card_uids))))
            .order_by(card_artifacts.c.card_uid, card_artifacts.c.relative_path)
        )
        found: dict[str, list[StoredArtifact]] = {}
        for row in rows:
            found.setdefault(row.card_uid, []).append(_artifact(row))
        return found

    def by_path(self, card_uid: str, relative_path: str) -> StoredArtifact | None:
        found = self.connection.execute(
            self._select().where(
                card_artifacts.c.card_uid == card_uid, card_artifacts.c.relative_path == relative_path
            )
        ).first()
        return None if found is None else _artifact(found)

    def by_upload(self, upload_id: str) -> StoredArtifact | None:
        found = self.connection.execute(self._select().where(card_artifacts.c.upload_id == upload_id)).first()
        return None if found is None else _artifact(found)

    def mark_stored(self, upload_id: str, now: datetime) -> None:
        """Record that the bytes were read and are the declared ones; the first time counts."""
        self.connection.execute(
            update(card_artifacts)
            .where(self._mine, card_artifacts.c.upload_id == upload_id, card_artifacts.c.stored_at.is_(None))
            .values(stored_at=now)
        )

    def _select(self) -> Select[Any]:
        return select(*_COLUMNS).where(self._mine)


def _artifact(row: Row[Any]) -> StoredArtifact:
    return StoredArtifact(
        row.card_uid,
        row.relative_path,
        row.upload_id,
        row.sha256,
        row.size_bytes,
        row.content_type,
        row.stored_at,
    )
