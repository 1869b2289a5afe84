"""Receiving exports: read, checked, and stored as one batch each."""

from __future__ import annotations

import asyncio

from bifrost.builtin import schema_of
from bifrost.names import TableName
from bifrost.otlp.batch import Rows
from bifrost.otlp.requests import Export, answer_to, rows_of
from bifrost.scope import card_scope
from bifrost.scribe.intake import Scribe
from store.caller import Caller, Permission
from store.database import Database, utc_now
from store.outbox import Batch

_READ_AT_ONCE = 16 * 1024
"""Bytes of a body that are read where they are; more is read in a thread."""


class Exports:
    """The operation behind the OTLP routes."""

    def __init__(self, database: Database, scribe: Scribe) -> None:
        self._database = database
        self._scribe = scribe

    async def receive(self, caller: Caller, export: Export, request_id: str) -> bytes:
        """Store an export; the response message in the request's encoding.

        Records that cannot be stored are counted in its partial success. The rest is one batch,
        and the same records sent again are the same batch. Raises
        `WYRD_VALA_400_OTLP_REQUEST_MALFORMED` for a body that is no such request,
        `WYRD_VALA_413_PAYLOAD_TOO_LARGE` for one that inflates past the limit,
        `WYRD_VALA_403_BIFROST_CARD_SCOPE` when any record names a Card outside the caller's scope
        (nothing is stored then), and what the Scribe raises.
        """
        caller.require(Permission.BIFROST_RECORD)
        if len(export.body) <= _READ_AT_ONCE and not export.gzip:
            rows = rows_of(export)
        else:
            rows = await asyncio.to_thread(rows_of, export)
        if rows.found:
            scope = await card_scope(self._database, caller)
            await scope.check(rows.card_uids())
            batch = await asyncio.to_thread(_batch, export.signal.table, rows, caller, request_id)
            await self._scribe.write_system(caller.tenant, [batch])
        return answer_to(export, rows.rejections)


def _batch(table: TableName, rows: Rows, caller: Caller, request_id: str) -> Batch:
    return Batch(
        table=table.full,
        batch_id=rows.batch_id,
        encoding="arrow",
        payload=rows.arrow(schema_of(table)),
        row_count=len(rows.found),
        principal_id=caller.principal_id,
        request_id=request_id,
        ingested_at=utc_now(),
    )
