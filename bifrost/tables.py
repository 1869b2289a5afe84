"""The tables of a tenant: what they are, registering them, letting them grow.

A table of `vala.datasets` is a row; the built-in ones exist for every tenant without one. What a
row says of columns is only ever added to.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, cast

import pyarrow as pa
from pydantic import TypeAdapter
from sqlalchemy import Connection, select, update

from bifrost.builtin import BUILTIN, LAYOUTS, MIN_DAYS
from bifrost.columns import SYSTEM
from bifrost.names import DATASETS, TableName, no_such_table
from store.caller import Tenant
from store.cards import read_json, stored_json
from store.database import database_now, insert_or_nothing
from store.tables.bifrost import bifrost_tables
from wyrd.errors import Code, WyrdError
from wyrd.wire.arrow_fields import arrow_schema
from wyrd.wire.bifrost import (
    CompactionType,
    FieldSpec,
    PhysicalLayout,
    RegisterTable,
    TableEntry,
    TableRegistered,
)
from wyrd.wire.canonical import digest
from wyrd.wire.ids import uuid7
from wyrd.wire.table_schema import bad_schema, canonical_fields, checked_fields, is_table_name

MIN_TARGET_BYTES = 1024**2
MAX_TARGET_BYTES = 1024**3
MAX_DAYS = 36_500

_UIDS = uuid.UUID("4b1a5c0e-6a53-5d0b-9d0c-0f3a6f6a2f11")
_FIELDS = TypeAdapter(list[FieldSpec])


@dataclass(frozen=True)
class StoredTable:
    """One table of one tenant. `fields` are its own columns; `schema` has the system columns too.

    `fingerprint` is the digest of the columns, whatever their order. `retention_days` None keeps
    every row.
    """

    name: TableName
    uid: str
    status: str
    fingerprint: str
    fields: tuple[FieldSpec, ...]
    layout: PhysicalLayout
    compaction_target_bytes: int | None
    compaction_type: CompactionType | None
    retention_days: int | None
    registered_at: datetime
    updated_at: datetime

    def schema(self) -> pa.Schema:
        """The full Arrow schema: the table's own columns, then `bifrost.columns.SYSTEM`."""
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        return arrow_schema([*self.fields, *SYSTEM])

    @property
    def entry(self) -> TableEntry:
        return TableEntry(
            namespace=self.name.namespace,
            name=self.name.name,
            table_uid=self.uid,
            status=cast(Any, self.status),
            fingerprint=self.fingerprint,
            registered_at=self.registered_at,
            updated_at=self.updated_at,
        )


class Tables:
    """Tables of one tenant over one connection."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant
        self._mine = bifrost_tables.c.tenant_id == tenant.id

    def find(self, name: TableName) -> StoredTable:
        """The table of that name. Raises `WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND`."""
        found = self._find(name)
        if found is None:
            raise no_such_table(name.full)
        return found

    def all(self) -> list[StoredTable]:
        """Every table of the tenant, the built-in ones with them, by name."""
        rows = self.connection.execute(select(bifrost_tables).where(self._mine)).all()
        stored = {name: builtin_table(self.tenant, name) for name in BUILTIN}
        for row in rows:
            table = self._table(row)
            stored[table.name] = table
        return [stored[name] for name in sorted(stored)]

    def register(self, asked: RegisterTable) -> TableRegistered:
        """Make a table of `vala.datasets`, or let one that is there grow by nullable columns.

        Registering what is there already changes nothing. A layout or compaction that is not
        given agrees with any. Raises `WYRD_VALA_403_BIFROST_RESERVED_BUILTIN_WRITE` for another
        namespace, `WYRD_VALA_400_SCHEMA_PARSE`, `…_RESERVED_COLUMN`, `…_UNSUPPORTED_TYPE`,
        `…_INVALID_PHYSICAL_LAYOUT`, `…_INVALID_COMPACTION_TARGET`, and the 409s
        `…_FINGERPRINT_MISMATCH`, `…_LAYOUT_MISMATCH`, `…_COMPACTION_TARGET_MISMATCH`,
        `…_COMPACTION_TYPE_MISMATCH`.
        """
        name = dataset_name(asked.namespace, asked.name)
        checked_fields(asked.fields)
        _checked_target(name, asked.compaction_target_file_size_bytes)
        if asked.physical_layout is not None:
            _checked_layout(asked.physical_layout, asked.fields)
        while True:
            existing = self._find(name)
            if existing is None:
                existing = self._made(name, asked)
                if existing is not None:
                    return _registered("Created", existing)
                continue
            _require_same_options(existing, asked)
            grown = _grown(existing, asked.fields)
            if grown is None:
                return _registered("AlreadyExists", existing)
            # Somebody else may let it grow at the same time: then this is decided anew.
            if self._grow(existing, grown):
                return _registered("AlreadyExists", self.find(name))

    def keep_days(self, name: TableName, days: int | None) -> StoredTable:
        """Keep rows of a table that many days, or for ever.

        Raises `WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND`, `WYRD_SPEC_400_VALIDATION`
        (retention_days).
        """
        table = self.find(name)
        least = MIN_DAYS.get(name, 1)
        if days is not None and not least <= days <= MAX_DAYS:
            raise WyrdError(
                Code.SPEC_400_VALIDATION,
                f"rows of {name} are kept {least} to {MAX_DAYS} days",
                field="retention_days",
            )
        now = database_now(self.connection)
        if not name.is_dataset:
            self._insert(table, now)
        self.connection.execute(
            update(bifrost_tables)
            .where(self._mine, bifrost_tables.c.table_name == name.full)
            .values(retention_days=days, updated_at=now)
        )
        return self.find(name)

    def _find(self, name: TableName) -> StoredTable | None:
        row = self.connection.execute(
            select(bifrost_tables).where(self._mine, bifrost_tables.c.table_name == name.full)
        ).first()
        if row is not None:
            return self._table(row)
        return builtin_table(self.tenant, name) if name in BUILTIN else None

    def _made(self, name: TableName, asked: RegisterTable) -> StoredTable | None:
        """The new table; None when another transaction made one first."""
        now = database_now(self.connection)
        table = StoredTable(
            name=name,
            uid=uuid7(),
            status="Active",
            fingerprint=fingerprint_of(asked.fields),
            fields=tuple(asked.fields),
            layout=asked.physical_layout or PhysicalLayout(),
            compaction_target_bytes=asked.compaction_target_file_size_bytes,
            compaction_type=asked.compaction_type,
            retention_days=None,
            registered_at=now,
            updated_at=now,
        )
        return table if self._insert(table, now) else None

    def _insert(self, table: StoredTable, now: datetime) -> bool:
        values = {
            "tenant_id": self.tenant.id,
            "table_name": table.name.full,
            "uid": table.uid,
            "status": table.status,
            "fingerprint": table.fingerprint,
            "fields": _fields_text(table.fields),
            "layout": stored_json(table.layout.model_dump(mode="json")),
            "compaction_target_bytes": table.compaction_target_bytes,
            "compaction_type": table.compaction_type,
            "retention_days": table.retention_days,
            "registered_at": table.registered_at,
            "updated_at": now,
        }
        statement = insert_or_nothing(self.connection, bifrost_tables)
        return bool(self.connection.execute(statement, values).rowcount)

    def _grow(self, existing: StoredTable, fields: tuple[FieldSpec, ...]) -> bool:
        done = self.connection.execute(
            update(bifrost_tables)
            .where(
                self._mine,
                bifrost_tables.c.table_name == existing.name.full,
                bifrost_tables.c.fingerprint == existing.fingerprint,
            )
            .values(
                fields=_fields_text(fields),
                fingerprint=fingerprint_of(fields),
                updated_at=database_now(self.connection),
            )
        )
        return bool(done.rowcount)

    def _table(self, row: Any) -> StoredTable:
        namespace, _, short = row.table_name.rpartition(".")
        name = TableName(namespace, short)
        if name in BUILTIN:
            table = builtin_table(self.tenant, name)
            fields, layout, fingerprint = table.fields, table.layout, table.fingerprint
        else:
            fields = tuple(_FIELDS.validate_python(read_json(row.fields)))
            layout = PhysicalLayout.model_validate(read_json(row.layout))
            fingerprint = row.fingerprint
        return StoredTable(
            name=name,
            uid=row.uid,
            status=row.status,
            fingerprint=fingerprint,
            fields=fields,
            layout=layout,
            compaction_target_bytes=row.compaction_target_bytes,
            compaction_type=row.compaction_type,
            retention_days=row.retention_days,
            registered_at=row.registered_at,
            updated_at=row.updated_at,
        )


def builtin_table(tenant: Tenant, name: TableName) -> StoredTable:
    """A built-in table as it is for a tenant that has set nothing about it."""
    fields = BUILTIN[name]
    return StoredTable(
        name=name,
        uid=str(uuid.uuid5(_UIDS, f"{tenant.id}/{name}")),
        status="Active",
        fingerprint=fingerprint_of(fields),
        fields=fields,
        layout=LAYOUTS[name],
        compaction_target_bytes=None,
        compaction_type=None,
        retention_days=None,
        registered_at=_made_at(tenant),
        updated_at=_made_at(tenant),
    )


def dataset_name(namespace: str, name: str) -> TableName:
    """The name of a table that a caller may make.

    Raises `WYRD_VALA_403_BIFROST_RESERVED_BUILTIN_WRITE` for another namespace than `datasets`,
    `WYRD_VALA_400_SCHEMA_PARSE` for what cannot be a name.
    """
    if namespace not in (DATASETS, DATASETS.partition(".")[2]):
        table = f"{namespace}.{name}"[:200]
        raise WyrdError(
            Code.VALA_403_BIFROST_RESERVED_BUILTIN_WRITE,
            f"{table} cannot be registered: tables of your own are in {DATASETS}",
            table=table,
        )
    if not is_table_name(name):
        raise bad_schema(f"{name[:80]!r} is not a table name: 1 to 63 of a-z, 0-9 and _, a letter first")
    return TableName(DATASETS, name)


def fingerprint_of(fields: Sequence[FieldSpec]) -> str:
    """The digest of a table's own columns: 64 hexadecimal digits, the same for equal tables."""
    return digest(canonical_fields(fields))


def _grown(existing: StoredTable, fields: Sequence[FieldSpec]) -> tuple[FieldSpec, ...] | None:
    """All columns of the table once it holds those too; None when it does already."""
    given = {one["name"]: one for one in canonical_fields(fields)}
    mismatch = WyrdError(
        Code.VALA_409_BIFROST_FINGERPRINT_MISMATCH,
        f"{existing.name} exists with other columns; it may only grow columns that may be null",
        table=existing.name.full,
    )
    for one in canonical_fields(existing.fields):
        if given.pop(one["name"], None) != one:
            raise mismatch
    new = [field for field in fields if field.name in given]
    if not all(field.nullable for field in new):
        raise mismatch
    if not new:
        return None
    grown = (*existing.fields, *new)
    checked_fields(grown)
    return grown


def _require_same_options(existing: StoredTable, asked: RegisterTable) -> None:
    for code, given, stored, what in (
        (Code.VALA_409_BIFROST_LAYOUT_MISMATCH, asked.physical_layout, existing.layout, "layout"),
        (
            Code.VALA_409_BIFROST_COMPACTION_TARGET_MISMATCH,
            asked.compaction_target_file_size_bytes,
            existing.compaction_target_bytes,
            "compaction target",
        ),
        (
            Code.VALA_409_BIFROST_COMPACTION_TYPE_MISMATCH,
            asked.compaction_type,
            existing.compaction_type,
            "compaction type",
        ),
    ):
        if given is not None and given != stored:
            raise WyrdError(code, f"{existing.name} exists with another {what}", table=existing.name.full)


def _checked_target(name: TableName, target: int | None) -> None:
    if target is not None and not MIN_TARGET_BYTES <= target <= MAX_TARGET_BYTES:
        raise WyrdError(
            Code.VALA_400_BIFROST_INVALID_COMPACTION_TARGET,
            "data files have a target size of 1 MiB to 1 GiB",
            table=name.full,
            bytes=target,
        )


def _checked_layout(layout: PhysicalLayout, fields: Sequence[FieldSpec]) -> None:
    columns = {field.name: field for field in (*fields, *SYSTEM)}
    named = [("sort_keys", key.column) for key in layout.sort_keys]
    named += [("bloom_columns", column) for column in layout.bloom_columns]
    if layout.time_column is not None:
        named.append(("time_column", layout.time_column))
    for where, column in named:
        if column not in columns:
            raise _bad_layout(where, f"there is no column {column[:80]}")
    if layout.time_column is not None:
        data_type = columns[layout.time_column].data_type
        if isinstance(data_type, str) or data_type.Timestamp is None:
            raise _bad_layout("time_column", f"{layout.time_column} is not a timestamp")


def _bad_layout(where: str, why: str) -> WyrdError:
    return WyrdError(
        Code.VALA_400_BIFROST_INVALID_PHYSICAL_LAYOUT,
        f"physical_layout.{where}: {why}",
        field=f"physical_layout.{where}",
    )


def _registered(outcome: Any, table: StoredTable) -> TableRegistered:
    return TableRegistered(outcome=outcome, table_uid=table.uid, fingerprint=table.fingerprint)


def _fields_text(fields: Sequence[FieldSpec]) -> str:
    return stored_json([field.model_dump(mode="json", exclude_none=True) for field in fields])


def _made_at(tenant: Tenant) -> datetime:
    """When the tenant was made, which its id tells: it is a UUIDv7."""
    milliseconds = uuid.UUID(tenant.id).int >> 80
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
