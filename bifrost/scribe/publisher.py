"""The publisher: takes batches from the outbox to the Iceberg tables, every row exactly once.

A publication claims batches under an id, writes their rows to files, and then does three things
in one transaction of the database: it proves that it still holds the lease on the table, marks the
claimed batches done, and swaps the table's metadata for one with a snapshot of that id. A crash
before leaves an open claim, which the next pass settles under the same id; a publisher that wakes
up late finds its lease or its claim gone, and its commit is called off.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
from sqlalchemy import Connection

from bifrost.catalog import Catalogs, Within, reached
from bifrost.materialise import materialise
from bifrost.names import TableName
from bifrost.publication import PUBLISH_ID, AlreadyPublished, ClaimSettled, publications
from bifrost.scribe.lease import LeaseLost, TableLease
from bifrost.scribe.maintenance import Maintenance
from bifrost.tables import StoredTable, Tables
from bifrost.writing import TableChange, partition_of, write_rows
from store.caller import Tenant
from store.database import Database, database_now, utc_now
from store.outbox import Backlog, Batch, Outbox, backlogs, forget_published
from store.settings import Settings
from store.tenants import all_tenants
from wyrd.wire.ids import uuid7

MAX_ROWS = 100_000
MAX_BYTES = 32 * 1024**2
"""What one publication takes up at most; a larger backlog is several."""

_EVERY_SECONDS = 1.0
_IDLE_SECONDS = 30.0
_FORGET_SECONDS = 3600.0
_REPEATS_KNOWN = timedelta(days=7)
_AT_ONCE = 4
_CLAIMS_A_PASS = 50
_LONGEST_PAUSE = 60.0
_log = logging.getLogger("wyrd.publisher")


@dataclass
class _Pause:
    """A table whose publication failed is left alone until `until` (monotonic seconds)."""

    failures: int = 0
    until: float = 0.0


class Publisher:
    """Publishes what is due. Any number of processes may run one."""

    def __init__(self, database: Database, catalogs: Catalogs, settings: Settings) -> None:
        self._database = database
        self._catalogs = catalogs
        self._rows = settings.publish_rows
        self._age = timedelta(seconds=settings.publish_seconds)
        self._holder = uuid7()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="wyrd-publish")
        self._pauses: defaultdict[tuple[str, str], _Pause] = defaultdict(_Pause)
        self.maintenance = Maintenance(database, catalogs, settings)

    async def run(self) -> None:
        """Publish what is due, every second, until cancelled."""
        forgotten, looked = -_FORGET_SECONDS, -_IDLE_SECONDS
        while True:
            try:
                await self.pass_once()
                if time.monotonic() - looked >= _IDLE_SECONDS:
                    await self.tend_idle()
                    looked = time.monotonic()
                if time.monotonic() - forgotten >= _FORGET_SECONDS:
                    await self._database.write(forget)
                    forgotten = time.monotonic()
            except Exception as error:
                _log.warning("publishing failed, and is tried again: %s", error)
            await asyncio.sleep(_EVERY_SECONDS)

    async def pass_once(self, everything: bool = False) -> int:
        """Publish every table that is due, or has anything waiting; how many rows were published.

        A table that fails is logged and tried again later; the others go on.
        """
        waiting, tenants = await self._database.read(_waiting)
        now = utc_now()
        due = [
            (tenants[backlog.tenant_id], TableName.parse(backlog.table))
            for backlog in waiting
            if everything or (self._due(backlog, now) and not self._paused(backlog.tenant_id, backlog.table))
        ]
        loop = asyncio.get_running_loop()
        done = await asyncio.gather(
            *(loop.run_in_executor(self._threads, self._attempt, tenant, name) for tenant, name in due)
        )
        return sum(done)

    def close(self) -> None:
        """Wait for what is under way."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def publish(self, tenant: Tenant, name: TableName) -> int:
        """Publish what one table has waiting, in the calling thread, and tend the table.

        How many rows were published; 0 as well when another process is at it.
        """
        lease = TableLease(self._database, tenant, name, self._holder)
        if not lease.take():
            return 0
        try:
            rows = 0
            stored = self._database.read_now(_stored, tenant, name)
            for _ in range(_CLAIMS_A_PASS):
                publish_id = self._database.write_now(_next_claim, tenant, name, lease)
                if publish_id is None:
                    break
                rows += self.settle(tenant, stored, publish_id, lease)
            self.maintenance.tend(tenant, stored, lease)
            return rows
        finally:
            with contextlib.suppress(Exception):
                lease.release()

    def settle(self, tenant: Tenant, stored: StoredTable, publish_id: str, lease: TableLease) -> int:
        """Bring one claim to its end: its rows are in a snapshot of its id, and its batches done."""
        name = stored.name
        batches = self._database.read_now(_claimed, tenant, name, publish_id)
        table = self._catalogs.ensure(tenant, stored, lease.keep)
        if publish_id in publications(table.metadata):
            self._database.write_now(_done, tenant, name, publish_id)
            return 0
        parts: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)
        for batch in batches:
            parts[partition_of(table, batch.ingested_at)].append(materialise(batch, stored, tenant))
        with reached():
            files = [
                write_rows(table, partition, pa.Table.from_batches(rows), stored.layout.sort_keys)
                for partition, rows in parts.items()
            ]
            ending = _ending(tenant, name, publish_id, len(batches), lease)
            table = self._catalogs.of(tenant, ending).load_table(table.name())
            try:
                with (
                    TableChange(table) as change,
                    change.update_snapshot({PUBLISH_ID: publish_id}).merge_append() as snapshot,
                ):
                    for file in files:
                        snapshot.append_data_file(file)
            except AlreadyPublished:
                self._database.write_now(_done, tenant, name, publish_id)
                return 0
            except ClaimSettled:
                return 0
        return sum(batch.row_count for batch in batches)

    def _attempt(self, tenant: Tenant, name: TableName) -> int:
        key = tenant.id, name.full
        try:
            rows = self.publish(tenant, name)
        except LeaseLost:
            _log.info("%s of %s was taken up by another process", name, tenant.slug)
            return 0
        except Exception as error:
            pause = self._pauses[key]
            pause.failures += 1
            wait = min(2.0 ** (pause.failures - 1), _LONGEST_PAUSE)
            pause.until = time.monotonic() + wait
            _log.warning(
                "publishing %s of %s failed, and is tried again in %.0f s: %s", name, tenant.slug, wait, error
            )
            return 0
        self._pauses.pop(key, None)
        return rows

    async def tend_idle(self) -> None:
        """Tend the tables that no publication led here for a while."""
        for tenant, name in await self._database.read(self.maintenance.due):
            if not self._paused(tenant.id, name.full):
                await asyncio.get_running_loop().run_in_executor(self._threads, self._attempt, tenant, name)

    def _due(self, backlog: Backlog, now: datetime) -> bool:
        return backlog.claimed or backlog.rows >= self._rows or now - backlog.oldest >= self._age

    def _paused(self, tenant_id: str, table: str) -> bool:
        pause = self._pauses.get((tenant_id, table))
        return pause is not None and time.monotonic() < pause.until


def _ending(tenant: Tenant, name: TableName, publish_id: str, batches: int, lease: TableLease) -> Within:
    """What happens with the snapshot, or not at all."""

    def within(connection: Connection) -> None:
        lease.keep(connection)
        if _done(connection, tenant, name, publish_id) != batches:
            raise ClaimSettled(publish_id)

    return within


def _waiting(connection: Connection) -> tuple[list[Backlog], dict[str, Tenant]]:
    return backlogs(connection), {tenant.id: tenant for tenant in all_tenants(connection)}


def _stored(connection: Connection, tenant: Tenant, name: TableName) -> StoredTable:
    return Tables(connection, tenant).find(name)


def _next_claim(connection: Connection, tenant: Tenant, name: TableName, lease: TableLease) -> str | None:
    """A claim to settle: one that is open, or else a new one; None when nothing waits."""
    lease.keep(connection)
    outbox = Outbox(connection, tenant)
    for publish_id in outbox.open_claims(name.full):
        return publish_id
    batches = outbox.unclaimed(name.full, rows=MAX_ROWS, bytes=MAX_BYTES)
    if not batches:
        return None
    publish_id = uuid7()
    outbox.claim(name.full, publish_id, batches)
    return publish_id


def _claimed(connection: Connection, tenant: Tenant, name: TableName, publish_id: str) -> list[Batch]:
    return Outbox(connection, tenant).of_publication(name.full, publish_id)


def _done(connection: Connection, tenant: Tenant, name: TableName, publish_id: str) -> int:
    return Outbox(connection, tenant).published(name.full, publish_id, database_now(connection))


def forget(connection: Connection) -> None:
    """Drop what is left of batches that were published long enough ago that no repeat of them comes."""
    forget_published(connection, older_than=database_now(connection) - _REPEATS_KNOWN)
