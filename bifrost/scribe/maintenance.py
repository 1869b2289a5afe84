"""Tending published tables under their lease: few files, few snapshots, nothing left behind.

A file that a query may be reading stays: a snapshot is kept for as long as the longest query takes
after another has taken its place, and only files that no kept snapshot names are deleted.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow.fs
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import Connection

from bifrost.catalog import Catalogs, reached
from bifrost.names import TableName
from bifrost.publication import PUBLISH_ID
from bifrost.reading import filesystem
from bifrost.scribe.compaction import merge, merges, target_of
from bifrost.scribe.lease import TableLease
from bifrost.tables import StoredTable
from bifrost.warehouse import plain_path
from bifrost.writing import TableChange, partition_of
from store.caller import Tenant
from store.database import Database, utc_now
from store.outbox import Outbox
from store.settings import Settings
from store.tenants import all_tenants

_MARGIN = timedelta(seconds=60)
_LEFT_BEHIND = timedelta(days=1)
"""How old a file must be that no snapshot names. Another engine may be writing it."""

_EXPIRED_AT_ONCE = 20
_IDLE_SECONDS = 600.0
_FIRST_SWEEP_SECONDS = 3600.0
_SWEEP_SECONDS = 24 * 3600.0
_CLOSING = timedelta(minutes=10)
_log = logging.getLogger("wyrd.maintenance")


class Maintenance:
    """Tends tables of any tenant. The caller holds the table's lease; every commit proves it."""

    def __init__(self, database: Database, catalogs: Catalogs, settings: Settings) -> None:
        self._database = database
        self._catalogs = catalogs
        self._files = catalogs.files
        self.grace = timedelta(seconds=settings.query_seconds) + _MARGIN
        """How long a snapshot stays after another took its place."""
        self.left_behind = _LEFT_BEHIND
        self._tended: dict[tuple[str, TableName], float] = {}
        self._sweeps: dict[tuple[str, TableName], float] = {}

    def due(self, connection: Connection) -> list[tuple[Tenant, TableName]]:
        """Tables that nobody of this process has tended for a while."""
        before = time.monotonic() - _IDLE_SECONDS
        return [
            (tenant, name)
            for tenant in all_tenants(connection)
            for name in self._catalogs.names(connection, tenant)
            if self._tended.get((tenant.id, name), -_IDLE_SECONDS) <= before
        ]

    def tend(self, tenant: Tenant, stored: StoredTable, lease: TableLease) -> None:
        """All that the table needs now. Raises `LeaseLost` when another process took it up."""
        key = tenant.id, stored.name
        idle = time.monotonic() - self._tended.get(key, -_IDLE_SECONDS) >= _IDLE_SECONDS
        now = utc_now()
        with reached():
            self.compact(tenant, stored, lease, now)
            if idle:
                self.drop_old(tenant, stored, lease, now)
            self.expire(tenant, stored, lease, now, least=1 if idle else _EXPIRED_AT_ONCE)
            if time.monotonic() >= self._sweeps.setdefault(key, time.monotonic() + _FIRST_SWEEP_SECONDS):
                self.sweep(tenant, stored, lease, now)
                self._sweeps[key] = time.monotonic() + _SWEEP_SECONDS
        if idle:
            self._tended[key] = time.monotonic()

    def compact(self, tenant: Tenant, stored: StoredTable, lease: TableLease, now: datetime) -> int:
        """Merge small files until none are left to merge; how many files were merged."""
        target = target_of(stored.compaction_target_bytes)
        merged = 0
        while True:
            table = self._catalogs.table(tenant, stored.name, lease.keep)
            if table is None:
                return merged
            growing = partition_of(table, now - _CLOSING)
            groups = merges(self._files.current(table.metadata), target, growing)
            if not groups:
                return merged
            lease.prove()
            # One group a commit: what was merged is not lost with what fails after it.
            merge(table, groups[:1], self._files, self._catalogs.warehouse.storage, stored.layout.sort_keys)
            merged += len(groups[0])

    def drop_old(self, tenant: Tenant, stored: StoredTable, lease: TableLease, now: datetime) -> int:
        """Remove the days that are past a table's retention; how many rows went."""
        table = self._catalogs.table(tenant, stored.name, lease.keep)
        if stored.retention_days is None or table is None:
            return 0
        first_kept = datetime(now.year, now.month, now.day, tzinfo=UTC) - timedelta(
            days=stored.retention_days
        )
        old = {
            file.location
            for file in self._files.current(table.metadata)
            if file.partition < partition_of(table, first_kept)
        }
        current = table.current_snapshot()
        if not old or current is None:
            return 0
        gone = [file for file in self._files.data_files(current) if file.file_path in old]
        with TableChange(table) as change, change.update_snapshot().overwrite() as snapshot:
            for file in gone:
                snapshot.delete_data_file(file)
        rows = sum(file.record_count for file in gone)
        _log.info("%d rows of %s of %s were past their retention", rows, stored.name, tenant.slug)
        return rows

    def expire(
        self, tenant: Tenant, stored: StoredTable, lease: TableLease, now: datetime, *, least: int = 1
    ) -> int:
        """Forget snapshots that no query reads any more and delete what only they name.

        How many; none while there are fewer than `least` of them.
        """
        table = self._catalogs.table(tenant, stored.name, lease.keep)
        if table is None:
            return 0
        claims = self._database.read_now(_open_claims, tenant, stored.name)
        old = _superseded(table.metadata, now - self.grace, claims)
        if len(old) < least or not old:
            return 0
        gone = {snapshot.snapshot_id for snapshot in old}
        kept = [one for one in table.metadata.snapshots if one.snapshot_id not in gone]
        unnamed = self._named(old) - self._named(kept)
        table.maintenance.expire_snapshots().by_ids(sorted(gone)).commit()
        self._delete(unnamed)
        return len(old)

    def sweep(self, tenant: Tenant, stored: StoredTable, lease: TableLease, now: datetime) -> int:
        """Delete files of the table that no snapshot names and that are old; how many.

        A crash leaves such files: what was written for a commit that never came.
        """
        table = self._catalogs.table(tenant, stored.name, lease.keep)
        if table is None or self._database.read_now(_open_claims, tenant, stored.name):
            return 0
        named = self._named(table.metadata.snapshots) | {table.metadata_location}
        named |= {entry.metadata_file for entry in table.metadata.metadata_log}
        kept = {plain_path(location) for location in named}
        storage = filesystem(self._catalogs.warehouse.storage)
        found = storage.get_file_info(
            pyarrow.fs.FileSelector(plain_path(table.location()), recursive=True, allow_not_found=True)
        )
        left = [
            file.path
            for file in found
            if file.type == pyarrow.fs.FileType.File
            and file.path not in kept
            and file.mtime < now - self.left_behind
        ]
        lease.prove()
        for path in left:
            with contextlib.suppress(FileNotFoundError):
                storage.delete_file(path)
        return len(left)

    def _named(self, snapshots: Iterable[Snapshot]) -> set[str]:
        """Every file that those snapshots name."""
        named: set[str] = set()
        for snapshot in snapshots:
            named.add(snapshot.manifest_list)
            named.update(manifest.manifest_path for manifest in self._files.manifests(snapshot))
            named.update(file.location for file in self._files.of(snapshot))
        return named

    def _delete(self, locations: Iterable[str]) -> None:
        for location in locations:
            with contextlib.suppress(FileNotFoundError):
                self._catalogs.io.delete(location)


def _superseded(metadata: TableMetadata, before: datetime, claims: Sequence[str]) -> list[Snapshot]:
    """Snapshots whose place another took before that moment, and that no open claim may look for."""
    ordered = sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    limit = int(before.timestamp() * 1000)
    return [
        snapshot
        for snapshot, successor in itertools.pairwise(ordered)
        if successor.timestamp_ms < limit
        and snapshot.snapshot_id != metadata.current_snapshot_id
        and not (snapshot.summary is not None and snapshot.summary.get(PUBLISH_ID) in claims)
    ]


def _open_claims(connection: Connection, tenant: Tenant, name: TableName) -> list[str]:
    return Outbox(connection, tenant).open_claims(name.full)
