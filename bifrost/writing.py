"""Rows of one partition as one new data file of an Iceberg table."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import Table, Transaction, WriteTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import HourTransform

from wyrd.wire.bifrost import SortKey

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TableChange(Transaction):
    """The library's transaction, that works its metadata out once a change and not at every look.

    It copies every snapshot for it, which with a hundred of them is most of what a commit costs.
    """

    _seen: tuple[Any, Any, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        base, updates = self._table.metadata, self._updates
        if not updates:
            return base
        if self._seen is None or self._seen[0] is not base or self._seen[1] is not updates:
            self._seen = base, updates, super().table_metadata
        return self._seen[2]


def partition_of(table: Table, moment: datetime) -> int:
    """The partition of rows ingested at that moment: its day or hour since 1970, by the table's layout."""
    return (moment - _EPOCH) // partition_length(table)


def partition_length(table: Table) -> timedelta:
    """How much time one partition holds."""
    hourly = isinstance(table.spec().fields[0].transform, HourTransform)
    return timedelta(hours=1) if hourly else timedelta(days=1)


def write_rows(table: Table, partition: int, rows: pa.Table, sort_keys: list[SortKey]) -> DataFile:
    """Write rows, sorted, to a file of that partition; no snapshot holds the file yet."""
    spec, schema = table.spec(), table.schema()
    task = WriteTask(
        write_uuid=uuid.uuid4(),
        task_id=0,
        schema=pyarrow_to_schema(rows.schema, name_mapping=schema.name_mapping),
        record_batches=_sorted(table, rows, sort_keys).combine_chunks().to_batches(),
        partition_key=PartitionKey([PartitionFieldValue(spec.fields[0], partition)], spec, schema),
    )
    (written,) = write_file(table.io, table.metadata, iter([task]))
    return written


def _sorted(table: Table, rows: pa.Table, sort_keys: list[SortKey]) -> pa.Table:
    keys = [key for key in sort_keys if table.schema().find_field(key.column).field_type.is_primitive]
    if not keys:
        return rows
    order = pa.compute.sort_indices(
        rows,
        sort_keys=[
            (
                key.column,
                "descending" if key.direction == "desc" else "ascending",
                "at_start" if key.null_order == "first" else "at_end",
            )
            for key in keys
        ],
    )
    return rows.take(order)
