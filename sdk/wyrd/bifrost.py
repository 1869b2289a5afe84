"""Bifrost from outside a service: register tables, insert rows, ask with SQL. Needs the extra `bifrost`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from wyrd._client import query as queries
from wyrd._client import tables
from wyrd._client.bifrost_view import BifrostView, limits_of
from wyrd._client.delivery import write
from wyrd._client.flow import Reply
from wyrd._client.held import Held
from wyrd._client.query import QueryParam, QueryResult, RowModel, typed_rows
from wyrd._client.query_frames import FrameReader, QueryTerminal, incomplete
from wyrd._client.recording import BATCH_BYTES, BATCH_ROWS, DRAIN_SECONDS
from wyrd._client.tables import TableConfig
from wyrd._client.timeline import trace_timeline
from wyrd.client import WyrdClient

if TYPE_CHECKING:
    import pyarrow

    from wyrd.aio.bifrost import Bifrost as AsyncBifrost
    from wyrd.aio.bifrost import BifrostQueryStream

__all__ = [
    "AsyncBifrost",
    "Bifrost",
    "BifrostBatchIterator",
    "BifrostQueryStream",
    "QueryParam",
    "QueryResult",
    "QueryTerminal",
    "RowModel",
    "TableConfig",
]

M = TypeVar("M")

_ASYNC = {"AsyncBifrost": "Bifrost", "BifrostQueryStream": "BifrostQueryStream"}


def __getattr__(name: str) -> Any:
    if name not in _ASYNC:
        raise AttributeError(f"module 'wyrd.bifrost' has no attribute {name!r}")
    from wyrd.aio import bifrost

    return getattr(bifrost, _ASYNC[name])


class BifrostBatchIterator(Iterator["pyarrow.RecordBatch"]):
    """The batches of a query as they arrive. It ends only after the server's own last word: an answer
    that breaks off raises VALA_502_QUERY_STREAM_INCOMPLETE, a query that fails its own error."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._reader = FrameReader()
        self._batches = self._read()

    def _read(self) -> Iterator[pyarrow.RecordBatch]:
        from wyrd._client.connections import FAILURES

        try:
            for piece in self._reply.rest.iter_bytes():
                yield from self._reader.feed(piece)
        except FAILURES:
            raise incomplete() from None
        finally:
            self._reply.rest.close()
        self._reader.finish()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pyarrow.RecordBatch:
        return next(self._batches)

    @property
    def request_id(self) -> str:
        """What `status` and `cancel` take."""
        return self._reply.headers.get("wyrd-request-id", "")

    @property
    def terminal(self) -> QueryTerminal | None:
        """How the query ended; None before it has."""
        return self._reader.terminal

    def close(self) -> None:
        """Read no further. The query itself is ended by `cancel`."""
        self._batches.close()  # type: ignore[attr-defined]  # a generator
        self._reply.rest.close()


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
        table: TableConfig | WyrdClient | None = None,
        client: WyrdClient | TableConfig | None = None,
        client_byte_limit_bytes: int | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        if isinstance(table, WyrdClient) or isinstance(client, TableConfig):
            table, client = client, table
        limits = limits_of(client_byte_limit_bytes, batch_rows, batch_bytes)
        super().__init__(Held(client, WyrdClient), table, limits)  # type: ignore[arg-type]  # checked there

    @classmethod
    def connect(
        cls,
        table: TableConfig | WyrdClient | None = None,
        client: WyrdClient | TableConfig | None = None,
        client_byte_limit_bytes: int | None = None,
    ) -> Self:
        """As the constructor, with the credential proved to the server now."""
        found = cls(table, client, client_byte_limit_bytes)
        found._held.get().access_token()
        return found

    def register(self) -> str:
        """Create the chosen table: `created`, or `already_exists` when it is there as it is declared.

        Errors: VALA_409_BIFROST_FINGERPRINT_MISMATCH, _LAYOUT_MISMATCH and _COMPACTION_*_MISMATCH when
        it is there otherwise; VALA_400_BIFROST_INVALID_PHYSICAL_LAYOUT and others of its schema.
        """
        client = self._held.get()
        return client._run(tables.register(client.server_url, self._active()))

    def use_table_by_name(self, table: str) -> None:
        """Choose a registered table. VALA_404_BIFROST_TABLE_NOT_FOUND."""
        client = self._held.get()
        self.use_table(client._run(tables.configuration(client.server_url, table)))

    def insert(self, row: Any, correlation: Mapping[str, Any] | None = None) -> None:
        """Queue one row for the chosen table; `flush` says that it is stored.

        `row` is a mapping with string keys, a dataclass or Pydantic instance, or the text of a JSON
        object; `correlation` may hold `run_id` and `card_uid`.
        Errors: SPEC_400_VALIDATION, VALA_400_BIFROST_RESERVED_COLUMN, CLIENT_429_QUEUE_FULL,
        SDK_409_BIFROST_CLOSED.
        """
        self._insert(row, correlation)

    def write_batch(self, table: str, batch: pyarrow.RecordBatch | pyarrow.Table) -> None:
        """Store one Arrow batch in the named table, durably when this returns. Columns match by name;
        `run_id` and `card_uid` may be among them."""
        client = self._held.get()
        client._run(write(client.server_url, table, batch))

    def flush(self, timeout: float = DRAIN_SECONDS) -> None:
        """Wait until all that is queued is stored. Raises the first refusal since the last call, with
        `details.table`, `details.rows_refused` and `details.refused`; CLIENT_504_FLUSH_TIMEOUT when the
        server has not taken everything in `timeout` seconds (it stays queued)."""
        self._drain(timeout, close=False)

    def shutdown(self, timeout: float = DRAIN_SECONDS) -> None:
        """`flush`, and take no more rows. After a time-out it may be called again."""
        self._drain(timeout, close=True)

    @overload
    def sql(self, query: str, params: Sequence[QueryParam] | None = None) -> QueryResult: ...
    @overload
    def sql(self, query: str, params: type[M]) -> list[M]: ...
    @overload
    def sql(self, query: str, params: Sequence[QueryParam] | None = None, *, model: type[M]) -> list[M]: ...
    def sql(
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
        result = client._run(queries.sql(client.server_url, query, params))
        return result if model is None else typed_rows(result, model)

    query = sql

    def stream(
        self, query: str, params: Sequence[QueryParam] | None = None, deadline_ms: int | None = None
    ) -> BifrostBatchIterator:
        """Run one SELECT and read its batches as they come. `deadline_ms` is how long it may take."""
        client = self._held.get()
        call = queries.asked(query, params, deadline_ms, streamed=True)
        return BifrostBatchIterator(client._run(call.run(client.server_url)))

    def running(self) -> list[dict[str, Any]]:
        """The tenant's queries that are running."""
        client = self._held.get()
        return client._run(queries.running(client.server_url))

    def status(self, request_id: str) -> dict[str, Any]:
        """One running query. VALA_404_RUNNING_QUERY_NOT_FOUND."""
        client = self._held.get()
        return client._run(queries.status(client.server_url, request_id))

    def cancel(self, request_id: str) -> dict[str, Any]:
        """Ask the server to end a query. VALA_404_RUNNING_QUERY_NOT_FOUND."""
        client = self._held.get()
        return client._run(queries.cancel(client.server_url, request_id))

    def trace_timeline(self, trace_id: str) -> list[dict[str, Any]]:
        """The spans of a trace and of every trace that links straight to it, by start; none when none
        is recorded (yet). `trace_id` is 32 lower-case hexadecimal digits (SPEC_400_VALIDATION)."""
        client = self._held.get()
        return client._run(trace_timeline(client.server_url, trace_id))

    def list_tables(self) -> list[dict[str, Any]]:
        """An entry for every table the caller may read."""
        client = self._held.get()
        return client._run(tables.listing(client.server_url))

    def describe_table(self, namespace: str, name: str) -> dict[str, Any]:
        """Columns and layout of one table. VALA_404_BIFROST_TABLE_NOT_FOUND."""
        client = self._held.get()
        return client._run(tables.description(client.server_url, namespace, name))
