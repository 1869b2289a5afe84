"""One batch on its way to the server: its body, as JSON or Arrow, and the request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlencode

from wyrd._client import tables
from wyrd._client.calls import Call
from wyrd._client.flow import Flow
from wyrd._client.recording import Batch, RowsRefused
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import BatchAccepted, FieldSpec
from wyrd.wire.ids import uuid7

ARROW_STREAM = "application/vnd.apache.arrow.stream"
JSON_ROWS = 32
"""Batches of fewer rows go as JSON: they cost less so, and need no description of the table."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class Body:
    content: bytes
    content_type: str


def post(
    server_url: str, table: str, batch_id: str, body: Body, *, repeated: bool = False
) -> Flow[BatchAccepted]:
    """One attempt, or a few: a batch that was stored before is acknowledged again."""
    path = tables.table_path(*tables.split_name(table), "/batches")
    if body.content_type == ARROW_STREAM:
        path = f"{path}?{urlencode({'batch_id': batch_id})}"
    call = Call(
        "POST",
        path,
        content=body.content,
        headers={"content-type": body.content_type},
        idempotency_key=f"bifrost-batch-{batch_id}" if repeated else None,
    )
    return (yield from call.model(server_url, BatchAccepted))


def json_body(batch_id: str, rows: Sequence[Mapping[str, Any]]) -> Body:
    """Columns of whose they are stay out where they are nobody's."""
    sent = [
        {
            name: value
            for name, value in row.items()
            if value is not None or name not in ("run_id", "card_uid")
        }
        for row in rows
    ]
    text = _ENCODER.encode({"batch_id": batch_id, "rows": sent})
    return Body(text.encode("utf-8"), "application/json")


def arrow_body(batch: Any) -> Body:
    """One Arrow IPC stream, compressed, of a `pyarrow.RecordBatch` or `Table`."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write(batch)
    return Body(sink.getvalue().to_pybytes(), ARROW_STREAM)


def write(server_url: str, table: str, batch: Any) -> Flow[None]:
    """Store one Arrow batch, repeating while failures may pass."""
    import pyarrow as pa

    if not isinstance(batch, pa.RecordBatch | pa.Table):
        raise WyrdError(
            Code.SPEC_400_VALIDATION,
            f"a batch is a pyarrow RecordBatch or Table, not {type(batch).__name__}",
            field="batch",
        )
    if batch.num_rows:
        yield from post(server_url, table, uuid7(), arrow_body(batch), repeated=True)


class Delivery:
    """Sends the batches of one recorder. `run` drives a flow in the calling thread."""

    def __init__(self, server_url: str, run: Callable[[Flow[Any]], Any]) -> None:
        self._server_url = server_url
        self._run = run
        self._arrow = find_spec("pyarrow") is not None
        self._columns: dict[str, list[FieldSpec]] = {}

    def __call__(self, batch: Batch) -> None:
        if batch.body is None:
            batch.body = self._body(batch)
        self._run(post(self._server_url, batch.table, batch.batch_id, batch.body))

    def _body(self, batch: Batch) -> Body:
        if not self._arrow or len(batch.rows) < JSON_ROWS:
            return json_body(batch.batch_id, batch.rows)
        from wyrd.wire.arrow_rows import rows_to_arrow

        known = self._columns.get(batch.table)
        if known is not None:
            try:
                return arrow_body(rows_to_arrow(known, batch.rows))
            except WyrdError:
                # The table may have grown since it was described.
                del self._columns[batch.table]
        columns = self._described(batch.table)
        try:
            return arrow_body(rows_to_arrow(columns, batch.rows))
        except WyrdError:
            refused: dict[int, WyrdError] = {}
            for index, row in enumerate(batch.rows):
                try:
                    rows_to_arrow(columns, [row])
                except WyrdError as error:
                    refused[index] = error
            if not refused:
                raise
            raise RowsRefused(refused) from None

    def _described(self, table: str) -> list[FieldSpec]:
        found = self._run(tables.describe(self._server_url, *tables.split_name(table)))
        columns = [*found.user_fields, *found.correlation_fields]
        self._columns[table] = columns
        return columns
