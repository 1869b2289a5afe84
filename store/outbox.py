"""The outbox of Bifrost: batches of rows that are durable before they are published.

A batch lands on its natural key (tenant, table, batch id), in whatever transaction records what
it is about, so that a result and its row in Bifrost are both there or neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Select, func, select, update

from store.caller import Tenant
from store.database import insert_or_nothing
from store.tables.bifrost import bifrost_outbox

Encoding = Literal["json", "arrow"]

_PENDING = bifrost_outbox.c.published_at.is_(None)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one table: their own columns with `run_id` and `card_uid`, not yet the system columns.

    `table` is the full name (`vala.datasets.tickets`), `batch_id` a UUID; `payload` is a JSON list
    of row objects or one Arrow IPC stream.
    """

    table: str
    batch_id: str
    encoding: Encoding
    payload: bytes
    row_count: int
    principal_id: str
    request_id: str
    ingested_at: datetime
    actor_id: str | None = None
    publish_id: str | None = None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one table of one tenant has waiting to be published."""

    tenant_id: str
    table: str
    rows: int
    bytes: int
    oldest: datetime
    claimed: bool
    """Some of it was taken up by a publication that has not been marked done."""


class Outbox:
    """Batches of one tenant over one connection."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant

    def add(self, batches: Sequence[Batch]) -> int:
        """Insert batches; those already there stay as they are. How many were new."""
        return add_batches(self.connection, [(self.tenant, batch) for batch in batches])

    def pending(self, table: str, *, limit: int | None = None) -> list[Batch]:
        """Batches of a table that are not marked as published, the oldest first."""
        statement = self._of(table).where(_PENDING)
        statement = statement.order_by(bifrost_outbox.c.ingested_at, bifrost_outbox.c.batch_id)
        return [_batch(row) for row in self.connection.execute(statement.limit(limit))]

    def fitting(self, table: str, bytes: int) -> tuple[int, bool]:
        """How many of a table's pending batches, the oldest first, hold no more bytes than that, and
        whether those are all there are."""
        columns = bifrost_outbox.c
        statement = (
            select(columns.byte_count)
            .where(columns.tenant_id == self.tenant.id, columns.table_name == table, _PENDING)
            .order_by(columns.ingested_at, columns.batch_id)
        )
        count = 0
        for size in self.connection.execute(statement).scalars():
            bytes -= size
            if bytes < 0:
                return count, False
            count += 1
        return count, True

    def open_claims(self, table: str) -> list[str]:
        """Publications of a table that took batches up and are not marked done, the oldest first."""
        statement = (
            select(bifrost_outbox.c.publish_id)
            .where(
                bifrost_outbox.c.tenant_id == self.tenant.id,
                bifrost_outbox.c.table_name == table,
                bifrost_outbox.c.publish_id.is_not(None),
                _PENDING,
            )
            .group_by(bifrost_outbox.c.publish_id)
            .order_by(func.min(bifrost_outbox.c.ingested_at))
        )
        return list(self.connection.execute(statement).scalars())

    def unclaimed(self, table: str, *, rows: int, bytes: int) -> list[str]:
        """The oldest batches that no publication took up: one at least, and no more than fit the limits."""
        columns = bifrost_outbox.c
        statement = (
            select(columns.batch_id, columns.row_count, columns.byte_count)
            .where(
                columns.tenant_id == self.tenant.id,
                columns.table_name == table,
                columns.publish_id.is_(None),
                _PENDING,
            )
            .order_by(columns.ingested_at, columns.batch_id)
            .limit(rows)
        )
        found: list[str] = []
        for batch in self.connection.execute(statement):
            rows, bytes = rows - batch.row_count, bytes - batch.byte_count
            if found and (rows < 0 or bytes < 0):
                break
            found.append(batch.batch_id)
        return found

    def of_publication(self, table: str, publish_id: str) -> list[Batch]:
        """The batches that a publication took up and that are not marked done, the oldest first."""
        statement = self._of(table).where(bifrost_outbox.c.publish_id == publish_id, _PENDING)
        statement = statement.order_by(bifrost_outbox.c.ingested_at, bifrost_outbox.c.batch_id)
        return [_batch(row) for row in self.connection.execute(statement)]

    def claims(self, table: str, batch_ids: Iterable[str]) -> dict[str, str | None]:
        """The publish id of each of those batches, as it is now."""
        wanted = list(batch_ids)
        found: dict[str, str | None] = {}
        for start in range(0, len(wanted), 500):
            statement = select(bifrost_outbox.c.batch_id, bifrost_outbox.c.publish_id).where(
                bifrost_outbox.c.tenant_id == self.tenant.id,
                bifrost_outbox.c.table_name == table,
                bifrost_outbox.c.batch_id.in_(wanted[start : start + 500]),
            )
            found.update({row.batch_id: row.publish_id for row in self.connection.execute(statement)})
        return found

    def claim(self, table: str, publish_id: str, batch_ids: Sequence[str]) -> int:
        """Give unclaimed batches to a publication; how many it got."""
        done = self.connection.execute(
            update(bifrost_outbox)
            .where(
                bifrost_outbox.c.tenant_id == self.tenant.id,
                bifrost_outbox.c.table_name == table,
                bifrost_outbox.c.batch_id.in_(batch_ids),
                bifrost_outbox.c.publish_id.is_(None),
            )
            .values(publish_id=publish_id)
        )
        return int(done.rowcount)

    def published(self, table: str, publish_id: str, at: datetime) -> int:
        """The snapshot of that publication is committed: its batches are done. How many were not before."""
        done = self.connection.execute(
            update(bifrost_outbox)
            .where(
                bifrost_outbox.c.tenant_id == self.tenant.id,
                bifrost_outbox.c.table_name == table,
                bifrost_outbox.c.publish_id == publish_id,
                _PENDING,
            )
            .values(published_at=at, payload=None)
        )
        return int(done.rowcount)

    def waiting_bytes(self) -> int:
        """Bytes of the tenant's batches that are not published."""
        statement = select(func.coalesce(func.sum(bifrost_outbox.c.byte_count), 0)).where(
            bifrost_outbox.c.tenant_id == self.tenant.id, _PENDING
        )
        return int(self.connection.execute(statement).scalar_one())

    def _of(self, table: str) -> Select[Any]:
        return select(bifrost_outbox).where(
            bifrost_outbox.c.tenant_id == self.tenant.id, bifrost_outbox.c.table_name == table
        )


def add_batches(connection: Connection, batches: Sequence[tuple[Tenant, Batch]]) -> int:
    """Insert batches of any tenants in one statement; how many were new."""
    if not batches:
        return 0
    rows = [
        {
            "tenant_id": tenant.id,
            "table_name": batch.table,
            "batch_id": batch.batch_id,
            "encoding": batch.encoding,
            "payload": batch.payload,
            "row_count": batch.row_count,
            "byte_count": len(batch.payload),
            "principal_id": batch.principal_id,
            "actor_id": batch.actor_id,
            "request_id": batch.request_id,
            "ingested_at": batch.ingested_at,
        }
        for tenant, batch in batches
    ]
    return int(connection.execute(insert_or_nothing(connection, bifrost_outbox), rows).rowcount)


def backlogs(connection: Connection) -> list[Backlog]:
    """Across tenants, for the publisher alone: every table that has something waiting."""
    columns = bifrost_outbox.c
    statement = (
        select(
            columns.tenant_id,
            columns.table_name,
            func.sum(columns.row_count).label("rows"),
            func.sum(columns.byte_count).label("bytes"),
            func.min(columns.ingested_at).label("oldest"),
            func.count(columns.publish_id).label("claimed"),
        )
        .where(_PENDING)
        .group_by(columns.tenant_id, columns.table_name)
    )
    return [
        Backlog(row.tenant_id, row.table_name, row.rows, row.bytes, row.oldest, bool(row.claimed))
        for row in connection.execute(statement)
    ]


def forget_published(connection: Connection, *, older_than: datetime) -> int:
    """Drop what is left of batches published long enough ago that no repeat is on its way; how many."""
    done = connection.execute(bifrost_outbox.delete().where(bifrost_outbox.c.published_at < older_than))
    return int(done.rowcount)


def _batch(row: Any) -> Batch:
    return Batch(
        table=row.table_name,
        batch_id=row.batch_id,
        encoding=row.encoding,
        payload=row.payload,
        row_count=row.row_count,
        principal_id=row.principal_id,
        request_id=row.request_id,
        ingested_at=row.ingested_at,
        actor_id=row.actor_id,
        publish_id=row.publish_id,
    )
