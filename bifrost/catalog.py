"""The Iceberg catalog of every tenant, over the service's own SQL database.

A commit swaps the location of a table's metadata for a new one in one SQL transaction, and
whoever commits may have more done or checked in that same transaction: this is what makes a
publication and the end of its claim one step.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform
from sqlalchemy import Connection, select, update
from sqlalchemy.exc import DBAPIError

from bifrost.files import SnapshotFiles
from bifrost.names import CATALOG, TableName
from bifrost.publication import PUBLISH_ID, AlreadyPublished, publications
from bifrost.tables import StoredTable
from bifrost.warehouse import Warehouse, WarehouseIO
from store.caller import Tenant
from store.database import Database, insert_or_nothing
from store.settings import Settings
from store.tables.iceberg import iceberg_namespace_properties, iceberg_tables
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import PhysicalLayout

Within = Callable[[Connection], None]
"""What else happens in the transaction of a commit; what it raises calls the commit off."""

PARTITION_COLUMN = "wyrd_ingested_at"
PROPERTIES = {
    "format-version": "2",
    "commit.retry.num-retries": "10",
    "commit.retry.min-wait-ms": "20",
    "commit.retry.max-wait-ms": "1000",
    "commit.retry.total-timeout-ms": "60000",
    # The manifests of many small publications are read by every query: gather them.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "40",
    # Otherwise every commit leaves one more file that says what the table held.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}
_KEPT_METADATA = 128


class Catalogs:
    """The catalogs of all tenants. What a file says never changes, so it is read once."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.database = database
        self.warehouse = Warehouse(settings)
        self.io = WarehouseIO(self.warehouse.properties)
        self.files = SnapshotFiles(self.io)
        self.metadata: Callable[[str], TableMetadata] = functools.lru_cache(_KEPT_METADATA)(
            self._read_metadata
        )

    def of(self, tenant: Tenant, within: Within | None = None) -> TenantCatalog:
        """The catalog of a tenant; its commits run `within` in their transaction."""
        return TenantCatalog(self, tenant, within)

    def table(self, tenant: Tenant, name: TableName, within: Within | None = None) -> Table | None:
        """The table as it is now; None while nothing was ever published to it."""
        with reached():
            try:
                return self.of(tenant, within).load_table(identifier(name))
            except NoSuchTableError:
                return None

    def ensure(self, tenant: Tenant, stored: StoredTable, within: Within | None = None) -> Table:
        """The table, made where it is missing and with the columns it lacks."""
        with reached():
            catalog = self.of(tenant, within)
            try:
                table = catalog.load_table(identifier(stored.name))
            except NoSuchTableError:
                table = catalog.make(stored)
            if missing_columns(table.schema(), stored.schema()):
                with table.update_schema() as change:
                    change.union_by_name(stored.schema())
            return table

    def location(self, connection: Connection, tenant: Tenant, name: TableName) -> str | None:
        """The metadata file of a table as that transaction sees it; None where there is no table."""
        namespace, table = identifier(name)
        found: str | None = connection.execute(
            select(iceberg_tables.c.metadata_location).where(
                iceberg_tables.c.catalog_name == tenant.slug,
                iceberg_tables.c.table_namespace == namespace,
                iceberg_tables.c.table_name == table,
            )
        ).scalar_one_or_none()
        return found

    def names(self, connection: Connection, tenant: Tenant) -> list[TableName]:
        """The tables of a tenant that something was published to."""
        found = connection.execute(
            select(iceberg_tables.c.table_namespace, iceberg_tables.c.table_name).where(
                iceberg_tables.c.catalog_name == tenant.slug
            )
        )
        return [TableName(f"{CATALOG}.{row.table_namespace}", row.table_name) for row in found]

    def _read_metadata(self, location: str) -> TableMetadata:
        return FromInputFile.table_metadata(self.io.new_input(location))


class TenantCatalog(SqlCatalog):
    """The library's SQL catalog over an engine and tables that are there already."""

    def __init__(self, catalogs: Catalogs, tenant: Tenant, within: Within | None) -> None:
        # Not the parent's: it makes an engine of its own, and then the tables.
        MetastoreCatalog.__init__(self, tenant.slug, **catalogs.warehouse.properties)
        self.engine = catalogs.database.engine
        self._schema_version = "v1"
        self._catalogs = catalogs
        self._folder = catalogs.warehouse.folder(tenant)
        self._within = within

    def make(self, stored: StoredTable) -> Table:
        """A new table; the one that another process made a moment ago where that was quicker."""
        namespace, name = identifier(stored.name)
        # The library's own way races with others for the row.
        self._catalogs.database.write_now(_namespace, self.name, namespace)
        schema = assign_fresh_schema_ids(self._convert_schema_if_needed(stored.schema()))
        try:
            return self.create_table(
                (namespace, name),
                schema,
                location=f"{self._folder}/{namespace}/{name}",
                partition_spec=_partitions(schema, stored.layout),
                sort_order=_order(schema, stored.layout),
                properties=PROPERTIES,
            )
        except TableAlreadyExistsError:
            return self.load_table((namespace, name))

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, against the table as it is at this moment.

        Raises `CommitFailedException` when another commit came between, and then the library tries
        again: from a new look at the table, and through here, so what is checked is checked anew.
        Raises `AlreadyPublished` when the table has a snapshot of the publication that is to be added.
        """
        current = self.load_table(table.name())
        for change in updates:
            if isinstance(change, AddSnapshotUpdate) and change.snapshot.summary is not None:
                named = change.snapshot.summary.get(PUBLISH_ID)
                if named is not None and named in publications(current.metadata):
                    raise AlreadyPublished(named)
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        if staged.metadata != current.metadata:
            self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
            self._catalogs.database.write_now(
                self._swap, table.name(), current.metadata_location, staged.metadata_location
            )
        return CommitTableResponse(metadata=staged.metadata, metadata_location=staged.metadata_location)

    def _swap(self, connection: Connection, name: tuple[str, ...], before: str, after: str) -> None:
        if self._within is not None:
            self._within(connection)
        namespace, table = ".".join(name[:-1]), name[-1]
        swapped = connection.execute(
            update(iceberg_tables)
            .where(
                iceberg_tables.c.catalog_name == self.name,
                iceberg_tables.c.table_namespace == namespace,
                iceberg_tables.c.table_name == table,
                iceberg_tables.c.metadata_location == before,
            )
            .values(metadata_location=after, previous_metadata_location=before)
        )
        if swapped.rowcount != 1:
            raise CommitFailedException(f"{namespace}.{table} was changed meanwhile")

    def _load_file_io(self, properties: object = None, location: str | None = None) -> FileIO:
        return self._catalogs.io

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location = orm_table.metadata_location or ""
        return Table(
            identifier=(orm_table.table_namespace, orm_table.table_name),
            metadata=self._catalogs.metadata(location),
            metadata_location=location,
            io=self._catalogs.io,
            catalog=self,
        )


def _namespace(connection: Connection, catalog: str, namespace: str) -> None:
    row = {"property_key": "exists", "property_value": "true"}
    statement = insert_or_nothing(connection, iceberg_namespace_properties)
    connection.execute(statement.values(catalog_name=catalog, namespace=namespace, **row))


def identifier(name: TableName) -> tuple[str, str]:
    """A table's namespace and name within the catalog, which other engines mount as `vala`."""
    return name.namespace.removeprefix(f"{CATALOG}."), name.name


def missing_columns(schema: Schema, wanted: pa.Schema) -> list[str]:
    """Columns of `wanted` that the Iceberg schema has not."""
    there = {field.name for field in schema.fields}
    return [name for name in wanted.names if name not in there]


@contextlib.contextmanager
def reached() -> Iterator[None]:
    """Faults of the catalog's database and of the storage, by their codes.

    Raises `WYRD_VALA_503_BIFROST_CATALOG_UNREACHABLE` and `WYRD_VALA_503_BIFROST_STORAGE_UNREACHABLE`.
    """
    try:
        yield
    except WyrdError as error:
        if error.member is not Code.SERVER_503_SERVICE_UNAVAILABLE:
            raise
        raise _catalog_away() from error
    except DBAPIError as error:
        raise _catalog_away() from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise WyrdError(
            Code.VALA_503_BIFROST_STORAGE_UNREACHABLE, "the storage of the tables cannot be reached"
        ) from error


def _catalog_away() -> WyrdError:
    return WyrdError(
        Code.VALA_503_BIFROST_CATALOG_UNREACHABLE, "the database of the catalog cannot be reached"
    )


def _partitions(schema: Schema, layout: PhysicalLayout) -> PartitionSpec:
    source = schema.find_field(PARTITION_COLUMN).field_id
    if layout.partition_granularity == "hour":
        return PartitionSpec(PartitionField(source, 1000, HourTransform(), f"{PARTITION_COLUMN}_hour"))
    return PartitionSpec(PartitionField(source, 1000, DayTransform(), f"{PARTITION_COLUMN}_day"))


def _order(schema: Schema, layout: PhysicalLayout) -> SortOrder:
    return SortOrder(
        *(
            SortField(
                schema.find_field(key.column).field_id,
                IdentityTransform(),
                SortDirection.DESC if key.direction == "desc" else SortDirection.ASC,
                NullOrder.NULLS_FIRST if key.null_order == "first" else NullOrder.NULLS_LAST,
            )
            for key in layout.sort_keys
            if schema.find_field(key.column).field_type.is_primitive
        )
    )
