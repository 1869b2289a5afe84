"""Bifrost from outside a service, async: register tables, insert rows, ask with SQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from wyrd._client import query as queries
from wyrd._client import tables
from wyrd._client.bifrost_view import BifrostView, limits_of
from wyrd._client.connections import FAILURES
from wyrd._client.delivery import write
from wyrd._client.done import DONE
from wyrd._client.flow import Reply
from wyrd._client.held import Held
from wyrd._client.query import QueryParam, QueryResult, RowModel, typed_rows
from wyrd._client.query_frames import FrameReader, QueryTerminal, incomplete
from wyrd._client.recording import BATCH_BYTES, BATCH_ROWS, DRAIN_SECONDS
from wyrd._client.tables import TableConfig
from wyrd._client.timeline import trace_timeline
from wyrd.aio.client import WyrdClient
from wyrd.client import WyrdClient as SyncClient

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "Bifrost",
    "BifrostQueryStream",
    "QueryParam",
    "QueryResult",
    "QueryTerminal",
    "RowModel",
    "TableConfig",
]

M = TypeVar("M")


class BifrostQueryStream(AsyncIterator["pyarrow.RecordBatch"]):
    """The batches of a query as they arrive. It ends only after the server's own last word: an answer
    that breaks off raises VALA_502_QUERY_STREAM_INCOMPLETE, a query that fails its own error."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._reader = FrameReader()
        self._batches = self._read()

    async def _read(self) -> AsyncIterator[pyarrow.RecordBatch]:
        try:
            async for piece in self._reply.rest.aiter_bytes():
                for batch in self._reader.feed(piece):
                    yield batch
        except FAILURES:
            raise incomplete() from None
        finally:
            await self._reply.rest.aclose()
        self._reader.finish()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pyarrow.RecordBatch:
        return await anext(self._batches)

    @property
    def request_id(self) -> str:
        """What `status` and `cancel` take."""
        return self._reply.headers.get("wyrd-request-id", "")

    @property
    def terminal(self) -> QueryTerminal | None:
        """How the query ended; None before it has."""
        return self._reader.terminal

    async def aclose(self) -> None:
        """Read no further. The query itself is ended by `cancel`."""
        await self._batches.aclose()  # type: ignore[attr-defined]  # a generator
        await self._reply.rest.aclose()


class Bifrost(BifrostView[WyrdClient]):
    """Query any table the caller may read; write to tables of `vala.datasets`.

    `table` is what `register` and `insert` are about. Rows are queued, at most
    `client_byte_limit_bytes` of them (256 MiB), and sent in the background in batches of at most
    `batch_rows` rows or `batch_bytes` bytes; what is still queued when the process ends without
    `shutdown` is lost. `table` and `client` may be given in either order. No I/O at construction.

    Errors: CLIENT_400_CONFIG_INVALID; at first use CLIENT_401_NO_CREDENTIALS.
    """

    def __init__(
        self,
        table: TableConfig | WyrdClient | SyncClient | None = None,
        client: WyrdClient | SyncClient | TableConfig | None = None,
        client_byte_limit_bytes: int | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        if isinstance(table, WyrdClient | SyncClient) or isinstance(client, TableConfig):
            table, client = client, table
        limits = limits_of(client_byte_limit_bytes, batch_rows, batch_bytes)
        held = (
            Held(None, partial(WyrdClient._beside, client))
            if isinstance(client, SyncClient)
            else Held(client, WyrdClient)
        )
        super().__init__(held, table, limits)  # type: ignore[arg-type]  # checked there

    @classmethod
    async def connect(
        cls,
        table: TableConfig | WyrdClient | SyncClient | None = None,
        client: WyrdClient | SyncClient | TableConfig | None = None,
        client_byte_limit_bytes: int | None = None,
    ) -> Self:
        """As the constructor, with the credential proved to the server now."""
        found = cls(table, client, client_byte_limit_bytes)
        await found._held.get().access_token()
        return found

    async def register(self) -> str:
        """Create the chosen table: `created`, or `already_exists` when it is there as it is declared.

        Errors: VALA_409_BIFROST_FINGERPRINT_MISMATCH, _LAYOUT_MISMATCH and _COMPACTION_*_MISMATCH when
        it is there otherwise; VALA_400_BIFROST_INVALID_PHYSICAL_LAYOUT and others of its schema.
        """
        client = self._held.get()
        return await client._run(tables.register(client.server_url, self._active()))

    async def use_table_by_name(self, table: str) -> None:
        """Choose a registered table. VALA_404_BIFROST_TABLE_NOT_FOUND."""
        client = self._held.get()
        self.use_table(await client._run(tables.configuration(client.server_url, table)))

    def insert(self, row: Any, correlation: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Queue one row for the chosen table; `flush` says that it is stored. It needs no `await`.

        `row` is a mapping with string keys, a dataclass or Pydantic instance, or the text of a JSON
        object; `correlation` may hold `run_id` and `card_uid`.
        Errors: SPEC_400_VALIDATION, VALA_400_BIFROST_RESERVED_COLUMN, CLIENT_429_QUEUE_FULL,
        SDK_409_BIFROST_CLOSED.
        """
        self._insert(row, correlation)
        return DONE

    async def write_batch(self, table: str, batch: pyarrow.RecordBatch | pyarrow.Table) -> None:
        """Store one Arrow batch in the named table, durably when this returns. Columns match by name;
        `run_id` and `card_uid` may be among them."""
        client = self._held.get()
        await client._run(write(client.server_url, table, batch))

    async def flush(self, timeout: float = DRAIN_SECONDS) -> None:
        """Wait until all that is queued is stored. Raises the first refusal since the last call, with
        `details.table`, `details.rows_refused` and `details.refused`; CLIENT_504_FLUSH_TIMEOUT when the
        server has not taken everything in `timeout` seconds (it stays queued)."""
        await asyncio.to_thread(self._drain, timeout, close=False)

    async def shutdown(self, timeout: float = DRAIN_SECONDS) -> None:
        """`flush`, and take no more rows. After a time-out it may be called again."""
        try:
            await asyncio.to_thread(self._drain, timeout, close=True)
        finally:
            if (own := self._held.own) is not None:
                await own.close()

    @overload
    async def sql(self, query: str, params: Sequence[QueryParam] | None = None) -> QueryResult: ...
    @overload
    async def sql(self, query: str, params: type[M]) -> list[M]: ...
    @overload
    async def sql(
        self, query: str, params: Sequence[QueryParam] | None = None, *, model: type[M]
    ) -> list[M]: ...
    async def sql(
        self,
        query: str,
        params: Sequence[QueryParam] | type[M] | None = None,
        *,
        model: type[M] | None = None,
    ) -> QueryResult | list[M]:
        """Run one SELECT and gather its rows; with a model, as instances of it.

        `params` are the values of `$1` and on. Errors: VALA_400_QUERY_INVALID_SQL and others of the
        query; CLIENT_422_ROW_DESERIALIZATION for a row that is no such model;
        VALA_502_QUERY_STREAM_INCOMPLETE for an answer that broke off.
        """
        if isinstance(params, type):
            params, model = None, params
        client = self._held.get()
        result = await client._run(queries.sql(client.server_url, query, params))
        return result if model is None else typed_rows(result, model)

    query = sql

    async def stream(
        self, query: str, params: Sequence[QueryParam] | None = None, deadline_ms: int | None = None
    ) -> BifrostQueryStream:
        """Run one SELECT and read its batches as they come. `deadline_ms` is how long it may take."""
        client = self._held.get()
        call = queries.asked(query, params, deadline_ms, streamed=True)
        return BifrostQueryStream(await client._run(call.run(client.server_url)))

    async def running(self) -> list[dict[str, Any]]:
        """The tenant's queries that are running."""
        client = self._held.get()
        return await client._run(queries.running(client.server_url))

    async def status(self, request_id: str) -> dict[str, Any]:
        """One running query. VALA_404_RUNNING_QUERY_NOT_FOUND."""
        client = self._held.get()
        return await client._run(queries.status(client.server_url, request_id))

    async def cancel(self, request_id: str) -> dict[str, Any]:
        """Ask the server to end a query. VALA_404_RUNNING_QUERY_NOT_FOUND."""
        client = self._held.get()
        return await client._run(queries.cancel(client.server_url, request_id))

    async def trace_timeline(self, trace_id: str) -> list[dict[str, Any]]:
        """The spans of a trace and of every trace that links straight to it, by start; none when none
        is recorded (yet). `trace_id` is 32 lower-case hexadecimal digits (SPEC_400_VALIDATION)."""
        client = self._held.get()
        return await client._run(trace_timeline(client.server_url, trace_id))

    async def list_tables(self) -> list[dict[str, Any]]:
        """An entry for every table the caller may read."""
        client = self._held.get()
        return await client._run(tables.listing(client.server_url))

    async def describe_table(self, namespace: str, name: str) -> dict[str, Any]:
        """Columns and layout of one table. VALA_404_BIFROST_TABLE_NOT_FOUND."""
        client = self._held.get()
        return await client._run(tables.description(client.server_url, namespace, name))
