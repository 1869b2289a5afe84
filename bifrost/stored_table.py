"""One table of one tenant as it is known everywhere else: columns, layout, what is kept."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, cast

import pyarrow as pa

from bifrost.builtin import BUILTIN, LAYOUTS
from bifrost.columns import SYSTEM
from bifrost.names import TableName
from store.caller import Tenant
from wyrd.wire.arrow_fields import arrow_schema
from wyrd.wire.bifrost import CompactionType, FieldSpec, PhysicalLayout, TableEntry
from wyrd.wire.canonical import digest
from wyrd.wire.table_schema import canonical_fields

_UIDS = uuid.UUID("4b1a5c0e-6a53-5d0b-9d0c-0f3a6f6a2f11")


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


def fingerprint_of(fields: Sequence[FieldSpec]) -> str:
    """The digest of a table's own columns: 64 hexadecimal digits, the same for equal tables."""
    return digest(canonical_fields(fields))


def _made_at(tenant: Tenant) -> datetime:
    """When the tenant was made, which its id tells: it is a UUIDv7."""
    milliseconds = uuid.UUID(tenant.id).int >> 80
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
