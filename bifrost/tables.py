"""The tables of a tenant: what they are, registering them, letting them grow.

A table of `vala.datasets` is a row; the built-in ones exist for every tenant without one. What a
row says of columns is only ever added to.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, select, update

from bifrost.builtin import BUILTIN, MIN_DAYS
from bifrost.names import TableName, no_such_table
from bifrost.registration import (
    checked_layout,
    checked_target,
    dataset_name,
    grown_columns,
    require_same_options,
)
from bifrost.stored_table import StoredTable as StoredTable
from bifrost.stored_table import builtin_table, fingerprint_of
from store.caller import Tenant
from store.cards import read_json, stored_json
from store.database import database_now, insert_or_nothing
from store.tables.bifrost import bifrost_tables
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import FieldSpec, PhysicalLayout, RegisterTable, TableRegistered
from wyrd.wire.ids import uuid7
from wyrd.wire.table_schema import checked_fields

MAX_DAYS = 36_500

_FIELDS = TypeAdapter(list[FieldSpec])


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
        checked_target(name, asked.compaction_target_file_size_bytes)
        if asked.physical_layout is not None:
            checked_layout(asked.physical_layout, asked.fields)
        while True:
            existing = self._find(name)
            if existing is None:
                existing = self._made(name, asked)
                if existing is not None:
                    return _registered("Created", existing)
                continue
            require_same_options(existing, asked)
            grown = grown_columns(existing, asked.fields)
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


def _registered(outcome: Any, table: StoredTable) -> TableRegistered:
    return TableRegistered(outcome=outcome, table_uid=table.uid, fingerprint=table.fingerprint)


def _fields_text(fields: Sequence[FieldSpec]) -> str:
    return stored_json([field.model_dump(mode="json", exclude_none=True) for field in fields])
