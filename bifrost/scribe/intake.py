"""Intake: a batch is checked as a whole, then durable in the outbox, then acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from bifrost.attribution import Attribution
from bifrost.builtin import BUILTIN
from bifrost.names import DRIFT_OBSERVATIONS, TableName
from bifrost.scope import card_scope
from bifrost.scribe.arrow_stream import read_stream, too_many_rows
from bifrost.scribe.batches import Prepared, prepared_arrow, prepared_rows
from bifrost.tables import StoredTable, Tables
from store.caller import Caller, Permission, Tenant
from store.database import Database, utc_now
from store.ingestion import sample_time
from store.outbox import Batch, Outbox
from store.settings import Settings
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import BatchAccepted
from wyrd.wire.ids import is_uuid7

MAX_ROWS: Final = 100_000

_ROWS_AT_ONCE = 256
_BYTES_AT_ONCE = 64 * 1024
"""Up to these many rows and bytes are converted where they are; more in a thread."""
_MEASURED_SECONDS = 1.0
_MOST_KNOWN = 10_000

_Prepare = Callable[[StoredTable], Prepared]


@dataclass(slots=True)
class _Waiting:
    """Bytes of one tenant that wait to be published: as measured last, with what came since."""

    bytes: int
    measured_at: float


class Scribe:
    """Takes batches in, for every door. One a process."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._most_waiting = settings.max_unpublished_bytes
        self._tables: dict[tuple[str, TableName], StoredTable] = {}
        self._waiting: dict[str, _Waiting] = {}

    async def write_rows(
        self,
        caller: Caller,
        table: TableName,
        batch_id: str,
        rows: Sequence[Mapping[str, Any]],
        request_id: str,
        *,
        size: int = 0,
    ) -> BatchAccepted:
        """Store rows, all of them or none; the same batch id again stores nothing.

        A row holds the table's own columns and, where they apply, `run_id` and `card_uid`. `size`
        is about how many bytes of JSON they were. Returns once they are durable.

        Raises `WYRD_PERMISSION_403_DENIED_RBAC`, `WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND`,
        `WYRD_VALA_403_BIFROST_RESERVED_BUILTIN_WRITE`, `WYRD_VALA_403_BIFROST_CARD_SCOPE`, what
        `rows_to_arrow` raises, `WYRD_VALA_429_INGEST_BUSY`, `WYRD_VALA_507_WAL_DISK_FULL`.
        """
        if not 1 <= len(rows) <= MAX_ROWS:
            raise too_many_rows(len(rows), MAX_ROWS) if rows else _invalid("rows", "a batch has a row")
        small = len(rows) <= _ROWS_AT_ONCE and size <= _BYTES_AT_ONCE
        return await self._write(
            caller, table, batch_id, request_id, partial(_from_rows, rows=rows), at_once=small
        )

    async def write_arrow(
        self, caller: Caller, table: TableName, batch_id: str, ipc_stream: bytes, request_id: str
    ) -> BatchAccepted:
        """Store the rows of one Arrow IPC stream; otherwise as `write_rows`.

        Also raises `WYRD_VALA_400_INGEST_PROTO` and `WYRD_VALA_413_PAYLOAD_TOO_LARGE`.
        """
        return await self._write(
            caller,
            table,
            batch_id,
            request_id,
            partial(_from_stream, stream=ipc_stream),
            at_once=len(ipc_stream) <= _BYTES_AT_ONCE,
        )

    async def write_system(self, tenant: Tenant, batches: Sequence[Batch]) -> int:
        """Store batches that Wyrd made itself for its own tables; how many were new.

        Raises `WYRD_VALA_429_INGEST_BUSY`, `WYRD_VALA_507_WAL_DISK_FULL`.
        """
        if not batches:
            return 0
        await self._require_room(tenant, batches[0].table, sum(len(batch.payload) for batch in batches))
        return await self._database.write(_add, tenant, batches)

    async def _write(
        self,
        caller: Caller,
        name: TableName,
        batch_id: str,
        request_id: str,
        prepare: _Prepare,
        *,
        at_once: bool,
    ) -> BatchAccepted:
        caller.require(Permission.BIFROST_RECORD)
        if name in BUILTIN and name != DRIFT_OBSERVATIONS:
            raise WyrdError(
                Code.VALA_403_BIFROST_RESERVED_BUILTIN_WRITE, f"only Wyrd writes {name}", table=name.full
            )
        if not is_uuid7(batch_id):
            raise _invalid("batch_id", "must be a UUIDv7")
        batch_id = batch_id.lower()
        prepared = await self._prepared(caller.tenant, name, prepare, at_once)
        scope = await card_scope(self._database, caller)
        await scope.check(prepared.card_uids)
        await self._require_room(caller.tenant, name.full, len(prepared.payload))
        by = Attribution.of(caller, request_id)
        batch = Batch(
            table=name.full,
            batch_id=batch_id,
            encoding=prepared.encoding,
            payload=prepared.payload,
            row_count=prepared.rows,
            principal_id=by.principal_id,
            actor_id=by.actor_id,
            request_id=by.request_id,
            ingested_at=utc_now(),
        )
        add = _add_samples if name == DRIFT_OBSERVATIONS else _add
        new = await self._database.write(add, caller.tenant, [batch])
        return BatchAccepted(batch_id=batch_id, rows=prepared.rows, duplicate=new == 0)

    async def _prepared(self, tenant: Tenant, name: TableName, prepare: _Prepare, at_once: bool) -> Prepared:
        """The batch as it is stored. What an older sight of the table refuses, a new one decides."""
        known = self._tables.get((tenant.id, name))
        table = known or await self._looked_up(tenant, name)
        try:
            return prepare(table) if at_once else await asyncio.to_thread(prepare, table)
        except WyrdError:
            if known is None:
                raise
            table = await self._looked_up(tenant, name)
            if table.fingerprint == known.fingerprint:
                raise
        return prepare(table) if at_once else await asyncio.to_thread(prepare, table)

    async def _looked_up(self, tenant: Tenant, name: TableName) -> StoredTable:
        table = await self._database.read(_find, tenant, name)
        if len(self._tables) >= _MOST_KNOWN:
            self._tables.clear()
        # Tables are never dropped and only grow, so this stays true.
        self._tables[tenant.id, name] = table
        return table

    async def _require_room(self, tenant: Tenant, table: str, size: int) -> None:
        waiting = self._waiting.get(tenant.id)
        if waiting is None or waiting.measured_at < time.monotonic() - _MEASURED_SECONDS:
            measured = await self._database.read(_waiting_bytes, tenant)
            waiting = self._waiting[tenant.id] = _Waiting(measured, time.monotonic())
        if waiting.bytes + size > self._most_waiting:
            raise WyrdError(
                Code.VALA_429_INGEST_BUSY,
                f"{waiting.bytes} bytes wait to be published already, and at most {self._most_waiting} may",
                table=table,
            )
        waiting.bytes += size


def _from_rows(table: StoredTable, rows: Sequence[Mapping[str, Any]]) -> Prepared:
    return prepared_rows(table, rows)


def _from_stream(table: StoredTable, stream: bytes) -> Prepared:
    return prepared_arrow(table, read_stream(stream, MAX_ROWS), stream)


def _find(connection: Connection, tenant: Tenant, name: TableName) -> StoredTable:
    return Tables(connection, tenant).find(name)


def _add(connection: Connection, tenant: Tenant, batches: Sequence[Batch]) -> int:
    return Outbox(connection, tenant).add(batches)


def _add_samples(connection: Connection, tenant: Tenant, batches: Sequence[Batch]) -> int:
    """Samples are judged by when they came in: a time that is taken where no reader can be past it."""
    moment = sample_time(connection, tenant)
    return _add(connection, tenant, [replace(batch, ingested_at=moment) for batch in batches])


def _waiting_bytes(connection: Connection, tenant: Tenant) -> int:
    return Outbox(connection, tenant).waiting_bytes()


def _invalid(field: str, why: str) -> WyrdError:
    return WyrdError(Code.SPEC_400_VALIDATION, f"{field}: {why}", field=field, reason=why)
