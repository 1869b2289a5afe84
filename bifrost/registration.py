"""What may be registered: names, layouts, and how a table that is there may change."""

from __future__ import annotations

from collections.abc import Sequence

from bifrost.columns import SYSTEM
from bifrost.names import DATASETS, TableName
from bifrost.stored_table import StoredTable
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import FieldSpec, PhysicalLayout, RegisterTable
from wyrd.wire.table_names import is_table_name
from wyrd.wire.table_schema import bad_schema, canonical_fields, checked_fields

MIN_TARGET_BYTES = 1024**2
MAX_TARGET_BYTES = 1024**3


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


def grown_columns(existing: StoredTable, fields: Sequence[FieldSpec]) -> tuple[FieldSpec, ...] | None:
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


def require_same_options(existing: StoredTable, asked: RegisterTable) -> None:
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


def checked_target(name: TableName, target: int | None) -> None:
    if target is not None and not MIN_TARGET_BYTES <= target <= MAX_TARGET_BYTES:
        raise WyrdError(
            Code.VALA_400_BIFROST_INVALID_COMPACTION_TARGET,
            "data files have a target size of 1 MiB to 1 GiB",
            table=name.full,
            bytes=target,
        )


def checked_layout(layout: PhysicalLayout, fields: Sequence[FieldSpec]) -> None:
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
