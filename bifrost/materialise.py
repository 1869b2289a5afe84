"""Batches as rows of their table: the columns a caller wrote, and those that Wyrd adds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bifrost.columns import CORRELATION
from bifrost.scribe.arrow_stream import ONE_THREAD
from bifrost.tables import StoredTable
from store.caller import Tenant
from store.outbox import Batch
from wyrd.errors import Code, WyrdError
from wyrd.wire.arrow_rows import MAX_DEPTH, rows_to_arrow
from wyrd.wire.canonical import strict_loads
from wyrd.wire.row_faults import VariantLimits

_AS_ACCEPTED = VariantLimits(depth=MAX_DEPTH, bytes=2**31 - 1)
"""What was accepted is published: evidence stands inside Wyrd's own rows, deeper than a caller's may."""


def materialise(batch: Batch, table: StoredTable, tenant: Tenant) -> pa.RecordBatch:
    """The rows of a batch in the table's full schema. Columns the table gained since are null.

    Raises `WYRD_VALA_500_BIFROST_INTERNAL`, naming the batch, for one that intake should have refused.
    """
    try:
        written = _written(batch, table)
        stamps = _stamps(batch, tenant)
        schema = table.schema()
        columns = [
            pa.repeat(pa.scalar(stamps[field.name], field.type), written.num_rows)
            if field.name in stamps
            else _column(written, field)
            for field in schema
            if field.name != "wyrd_row_ordinal"
        ]
        columns.insert(
            schema.get_field_index("wyrd_row_ordinal"), pa.array(range(written.num_rows), pa.int64())
        )
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        rows.validate()
    except (pa.ArrowException, WyrdError, KeyError, TypeError, ValueError) as error:
        raise WyrdError(
            Code.VALA_500_BIFROST_INTERNAL,
            f"batch {batch.batch_id} does not fit its table {batch.table}: {error}",
        ) from error
    return rows


def _written(batch: Batch, table: StoredTable) -> pa.RecordBatch:
    if batch.encoding == "arrow":
        with pa.ipc.open_stream(batch.payload, options=ONE_THREAD) as reader:
            read, schema = list(reader), reader.schema
        if len(read) == 1:
            return read[0]
        return pa.concat_batches(read or [pa.RecordBatch.from_pylist([], schema=schema)])
    rows = strict_loads(batch.payload, max_depth=MAX_DEPTH)
    return rows_to_arrow(table.fields, rows, extra=CORRELATION, limits=_AS_ACCEPTED)


def _stamps(batch: Batch, tenant: Tenant) -> dict[str, Any]:
    return {
        "sub_principal_id": batch.principal_id,
        "act_principal_id": batch.actor_id,
        "wyrd_request_id": batch.request_id,
        "wyrd_ingested_at": batch.ingested_at,
        "wyrd_batch_id": batch.batch_id,
        "data_tenant_id": tenant.id,
    }


def _column(written: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = written.schema.get_field_index(field.name)
    if index >= 0:
        column = written.column(index)
        if column.type != field.type:
            column = column.cast(field.type)
    elif field.nullable:
        return pa.nulls(written.num_rows, field.type)
    else:
        raise ValueError(f"the column {field.name} is missing")
    if column.null_count and not field.nullable:
        raise ValueError(f"the column {field.name} holds a null")
    return column
