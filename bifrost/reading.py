"""Taking cuts: what tables hold at one moment, every row once.

The outbox and the location of a table's metadata are read in one transaction, and a publication
ends both a claim and begins a snapshot in one: no row is in both, and none in neither. A batch
that the snapshot names is left out of the tail all the same, whatever the outbox says of it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
from pyiceberg.table.metadata import TableMetadata
from sqlalchemy import Connection, text

from bifrost.catalog import Catalogs, reached
from bifrost.cut import Cut, Storage
from bifrost.materialise import materialise
from bifrost.names import TableName
from bifrost.publication import publications
from bifrost.tables import StoredTable, Tables
from bifrost.warehouse import plain_path
from store.caller import Tenant
from store.database import Database
from store.outbox import Batch, Outbox
from wyrd.errors import Code, WyrdError

T = TypeVar("T")

TAIL_BYTES = 64 * 1024**2
"""What a cut takes of the batches that wait, the oldest first. More waits only while the storage is away;
reading all of it for every query would take the process down as well."""

_ATTEMPTS = 5


@dataclass(frozen=True)
class _Moment:
    """What the database says of one table at one moment."""

    stored: StoredTable
    tail: list[Batch]
    whole: bool
    metadata_location: str | None


class Cuts:
    """Cuts of any tenant's tables."""

    def __init__(self, database: Database, catalogs: Catalogs) -> None:
        self._database = database
        self._catalogs = catalogs
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="wyrd-cuts")

    async def take(self, tenant: Tenant, names: Sequence[TableName]) -> dict[TableName, Cut]:
        """What those tables hold now, all at the same moment.

        Raises `WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND`, `WYRD_VALA_503_BIFROST_CATALOG_UNREACHABLE`,
        `WYRD_VALA_503_BIFROST_STORAGE_UNREACHABLE`.
        """
        return await self._aside(self.take_now, tenant, names)

    async def rows(
        self,
        tenant: Tenant,
        name: TableName,
        *,
        filter: pa.compute.Expression | None = None,
        columns: list[str] | None = None,
        whole: bool = False,
        most: int | None = None,
    ) -> pa.Table:
        """The rows of one table now, for Wyrd's own code; the same errors as `take`.

        `whole` raises `WYRD_VALA_503_BIFROST_STORAGE_UNREACHABLE` where more rows wait to be
        published than a cut takes, `most` `WYRD_VALA_413_QUERY_RESULT_TOO_LARGE` for more rows than that.
        """
        return await self._aside(self.rows_now, tenant, name, filter, columns, whole, most)

    def take_now(self, tenant: Tenant, names: Sequence[TableName]) -> dict[TableName, Cut]:
        """`take`, in the calling thread."""
        for attempt in range(_ATTEMPTS):
            with reached():
                moments = self._database.read_now(_moments, self._catalogs, tenant, sorted(set(names)))
                try:
                    return {moment.stored.name: self._cut(tenant, moment) for moment in moments}
                except FileNotFoundError as error:
                    # The files of a moment go when it is long past; one that was read just now
                    # can be: this process may have been stopped in between.
                    if attempt == _ATTEMPTS - 1:
                        raise WyrdError(
                            Code.VALA_503_BIFROST_STORAGE_UNREACHABLE,
                            "a file that the catalog names is not in the storage",
                        ) from error
        raise AssertionError("unreachable")

    def rows_now(
        self,
        tenant: Tenant,
        name: TableName,
        filter: pa.compute.Expression | None = None,
        columns: list[str] | None = None,
        whole: bool = False,
        most: int | None = None,
    ) -> pa.Table:
        """`rows`, in the calling thread."""
        try:
            try:
                return self._read(self._taken(tenant, name, whole), filter, columns, most)
            except FileNotFoundError:
                # The process was stopped for longer than the files of a cut stay.
                return self._read(self._taken(tenant, name, whole), filter, columns, most)
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            raise WyrdError(
                Code.VALA_503_BIFROST_STORAGE_UNREACHABLE, f"a file of {name} cannot be read"
            ) from error

    def _taken(self, tenant: Tenant, name: TableName, whole: bool) -> Cut:
        cut = self.take_now(tenant, [name])[name]
        if whole and not cut.whole:
            raise WyrdError(
                Code.VALA_503_BIFROST_STORAGE_UNREACHABLE,
                f"too much of {name} waits to be published for all of it to be read",
            )
        return cut

    def _read(
        self,
        cut: Cut,
        filter: pa.compute.Expression | None,
        columns: list[str] | None,
        most: int | None,
    ) -> pa.Table:
        with reached():
            parts = [ds.dataset(pa.Table.from_batches(cut.tail, cut.schema))]
            if cut.files:
                parts.append(
                    ds.dataset(
                        list(cut.files),
                        schema=cut.schema,
                        format="parquet",
                        filesystem=filesystem(cut.storage),
                    )
                )
            dataset = ds.dataset(parts)
            if most is None:
                return dataset.to_table(columns=columns, filter=filter)
            scanner = dataset.scanner(columns=columns, filter=filter)
            return pa.Table.from_batches(_at_most(scanner, most, cut.table), scanner.projected_schema)

    def close(self) -> None:
        self._threads.shutdown(wait=True)

    def _cut(self, tenant: Tenant, moment: _Moment) -> Cut:
        name, schema = moment.stored.name, moment.stored.schema()
        metadata: TableMetadata | None = None
        published: set[str] = set()
        if moment.metadata_location is not None:
            metadata = self._catalogs.metadata(moment.metadata_location)
            published = publications(metadata)
        tail = [
            materialise(batch, moment.stored, tenant)
            for batch in moment.tail
            if batch.publish_id is None or batch.publish_id not in published
        ]
        if metadata is None:
            return Cut(name, schema, tail=tail, storage=self._catalogs.warehouse.storage, whole=moment.whole)
        files = [plain_path(file.location) for file in self._catalogs.files.current(metadata)]
        return Cut(
            name,
            schema,
            files,
            tail,
            self._catalogs.warehouse.storage,
            metadata.current_snapshot_id,
            whole=moment.whole,
        )

    async def _aside(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


def _at_most(scanner: ds.Scanner, most: int, name: TableName) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in scanner.to_batches():
        rows += batch.num_rows
        if rows > most:
            raise WyrdError(
                Code.VALA_413_QUERY_RESULT_TOO_LARGE, f"more than {most} rows of {name} would have to be read"
            )
        yield batch


@functools.cache
def _local() -> pyarrow.fs.FileSystem:
    return pyarrow.fs.LocalFileSystem()


def filesystem(storage: Storage) -> pyarrow.fs.FileSystem:
    """The pyarrow file system that a cut's files are read through."""
    if storage.options is None:
        return _local()
    return _bucket(tuple(sorted(storage.options.items())))


@functools.lru_cache(8)
def _bucket(options: tuple[tuple[str, str], ...]) -> pyarrow.fs.FileSystem:
    return pyarrow.fs.S3FileSystem(**dict(options), connect_timeout=5, request_timeout=30)


def _moments(
    connection: Connection, catalogs: Catalogs, tenant: Tenant, names: Sequence[TableName]
) -> list[_Moment]:
    if connection.dialect.name == "postgresql":
        # One view for all statements; SQLite's transactions have no other.
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    tables, outbox = Tables(connection, tenant), Outbox(connection, tenant)
    moments = []
    for name in names:
        fitting, whole = outbox.fitting(name.full, TAIL_BYTES)
        tail = outbox.pending(name.full, limit=fitting)
        moments.append(_Moment(tables.find(name), tail, whole, catalogs.location(connection, tenant, name)))
    return moments
