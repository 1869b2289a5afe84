"""A table of tickets on its way from the outbox to Iceberg, for tests of publishing and reading."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from bifrost.catalog import Catalogs
from bifrost.names import TableName
from bifrost.reading import Cuts
from bifrost.scribe.lease import TableLease
from bifrost.scribe.publisher import Publisher
from bifrost.tables import StoredTable, Tables
from store.caller import Tenant
from store.database import Database, utc_now
from store.outbox import Batch, Outbox, backlogs
from store.settings import Settings
from store.tenants import make_tenant
from wyrd.wire.bifrost import FieldSpec, PhysicalLayout, RegisterTable
from wyrd.wire.ids import uuid7

TICKETS = TableName("vala.datasets", "tickets")
FIELDS = [
    FieldSpec(name="ticket_id", data_type="Utf8"),
    FieldSpec(name="priority", data_type="Int64", nullable=True),
    FieldSpec(name="details", data_type="Variant", nullable=True),
]


class Desk:
    """One service's parts over one database: what a worker and a query have."""

    def __init__(self, database: Database, home: Path, **settings: Any) -> None:
        self.database = database
        self.settings = Settings(home=home, **settings)
        self.tenant = database.write_now(make_tenant, "acme")
        self.catalogs = Catalogs(self.settings, database)
        self.cuts = Cuts(database, self.catalogs)
        self.publisher = Publisher(database, self.catalogs, self.settings)
        self.register()

    def register(
        self, fields: Sequence[FieldSpec] = FIELDS, layout: PhysicalLayout | None = None, **more: Any
    ) -> None:
        asked = RegisterTable(
            namespace="datasets", name="tickets", fields=list(fields), physical_layout=layout, **more
        )
        self.database.write_now(lambda connection: Tables(connection, self.tenant).register(asked))

    @property
    def stored(self) -> StoredTable:
        return self.database.read_now(lambda connection: Tables(connection, self.tenant).find(TICKETS))

    def batch(self, rows: Sequence[dict[str, Any]], ingested_at: datetime | None = None) -> Batch:
        return Batch(
            table=TICKETS.full,
            batch_id=uuid7(),
            encoding="json",
            payload=orjson.dumps(list(rows)),
            row_count=len(rows),
            principal_id="01890000-0000-7000-8000-0000000000aa",
            request_id="request-1",
            ingested_at=ingested_at or utc_now(),
        )

    def put(self, *ids: str, ingested_at: datetime | None = None, **columns: Any) -> Batch:
        """One batch with a ticket of each id waits to be published."""
        batch = self.batch([{"ticket_id": one, **columns} for one in ids], ingested_at)
        self.database.write_now(self._add, batch)
        return batch

    def _add(self, connection: Any, batch: Batch) -> int:
        return Outbox(connection, self.tenant).add([batch])

    def ids(self) -> list[str]:
        """Every ticket a reader sees, sorted."""
        found = self.cuts.rows_now(self.tenant, TICKETS, None, ["ticket_id"])
        return sorted(found.column("ticket_id").to_pylist())

    def iceberg_ids(self) -> list[str]:
        """Every ticket the Iceberg table holds, by the library's own reader."""
        table = self.catalogs.table(self.tenant, TICKETS)
        return [] if table is None else sorted(table.scan().to_arrow().column("ticket_id").to_pylist())

    def files(self) -> int:
        return len(self.cuts.take_now(self.tenant, [TICKETS])[TICKETS].files)

    def snapshots(self) -> int:
        table = self.catalogs.table(self.tenant, TICKETS)
        assert table is not None
        return len(table.metadata.snapshots)

    def waiting(self) -> int:
        return sum(backlog.rows for backlog in self.database.read_now(backlogs))

    def lease(self, holder: str = "a test") -> TableLease:
        return TableLease(self.database, self.tenant, TICKETS, holder)

    def claim(self) -> str:
        """Take up all that waits under a new publication, as a publisher that then stops."""
        publish_id = uuid7()

        def work(connection: Any) -> None:
            outbox = Outbox(connection, self.tenant)
            outbox.claim(TICKETS.full, publish_id, outbox.unclaimed(TICKETS.full, rows=1000, bytes=10**6))

        self.database.write_now(work)
        return publish_id

    def close(self) -> None:
        self.publisher.close()
        self.cuts.close()


def other_tenant(desk: Desk) -> Tenant:
    return desk.database.write_now(make_tenant, "rival")
