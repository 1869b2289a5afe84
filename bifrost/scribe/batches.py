"""What a caller sent, as the batch that is stored: checked against its table, in its encoding."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from bifrost.columns import CORRELATION
from bifrost.names import DRIFT_OBSERVATIONS
from bifrost.scribe.arrow_stream import Received, written_stream
from bifrost.tables import StoredTable
from store.outbox import Encoding
from wyrd.wire.arrow_batches import MAX_DECODED_BYTES, fitted_batch, too_large
from wyrd.wire.arrow_rows import rows_to_arrow
from wyrd.wire.canonical import canonical_json
from wyrd.wire.row_faults import Place, misfit

ROWS_AS_JSON: Final = 32
"""Fewer rows than this are stored as JSON, which is smaller then and quicker to write."""

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows that fit their table, as they are stored. `card_uids` are the Cards they are about."""

    encoding: Encoding
    payload: bytes
    rows: int
    card_uids: frozenset[str]


def prepared_rows(table: StoredTable, rows: Sequence[Mapping[str, Any]]) -> Prepared:
    """JSON rows of one batch. Raises what `rows_to_arrow` raises."""
    converted = rows_to_arrow(table.fields, rows, extra=CORRELATION)
    batch, card_uids = _correlated(table, converted)
    if len(rows) < ROWS_AS_JSON and batch is converted:
        return Prepared("json", _json(rows), len(rows), card_uids)
    return Prepared("arrow", written_stream(batch), len(rows), card_uids)


def prepared_arrow(table: StoredTable, received: Received, stream: bytes) -> Prepared:
    """The rows of an Arrow stream. Raises what `fitted_batch` raises."""
    fitted = fitted_batch(table.fields, received.batch, extra=CORRELATION)
    if fitted.nbytes > MAX_DECODED_BYTES:
        raise too_large(fitted.nbytes)
    batch, card_uids = _correlated(table, fitted)
    as_sent = received.as_sent and batch is received.batch
    return Prepared("arrow", stream if as_sent else written_stream(batch), batch.num_rows, card_uids)


def _correlated(table: StoredTable, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, frozenset[str]]:
    """The batch with its run and Card ids in lower case, and the Cards it names."""
    card_uids: frozenset[str] = frozenset()
    for field in CORRELATION:
        index = batch.schema.get_field_index(field.name)
        column = batch.column(index)
        given = frozenset(value for value in column.unique().to_pylist() if value is not None)
        lowered = frozenset(value.lower() for value in given)
        for value in given:
            if _UUID.fullmatch(value.lower()) is None:
                raise misfit(Place(field.name), pc.index(column, value).as_py(), "is not a UUID")
        if lowered != given:
            batch = batch.set_column(index, batch.schema.field(index), pc.utf8_lower(column))
        if field.name == "card_uid":
            card_uids = lowered
            if column.null_count and table.name == DRIFT_OBSERVATIONS:
                raise misfit(Place(field.name), pc.index(column.is_null(), True).as_py(), "is required")
    return batch, card_uids


def _json(rows: Sequence[Mapping[str, Any]]) -> bytes:
    try:
        return orjson.dumps(rows)
    except TypeError:
        # Integers beyond 64 bits, which a free-form value may hold.
        return canonical_json(list(rows))
