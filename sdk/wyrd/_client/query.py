"""SQL to the server: the calls, and what a finished query is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

from wyrd._client.calls import Call
from wyrd._client.flow import Flow, Offload, Reply
from wyrd._client.query_frames import CONTENT_TYPE, FrameReader, QueryTerminal
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import QueryCancelled, RunningQueries, RunningQuery
from wyrd.wire.canonical import JsonRefused, strict_loads
from wyrd.wire.ids import is_uuid7

if TYPE_CHECKING:
    import pyarrow

QueryParam = bool | int | float | str | None
"""A value for `$1` and on."""

LONGEST_DEADLINE = 4_294_967_295
"""Milliseconds."""
_DEFAULT_SILENCE = 90.0
_GRACE = 10.0
"""Seconds that a server may take longer than a query's deadline, to say so."""


class RowModel(Protocol):
    """What `sql` makes rows of: a Pydantic model class, or any with its `model_validate`."""

    @classmethod
    def model_validate(cls, obj: Any, /) -> Any: ...


M = TypeVar("M")


def _body(query: object, params: object, deadline_ms: object) -> dict[str, Any]:
    if not isinstance(query, str) or not query.strip():
        raise WyrdError(Code.SPEC_400_VALIDATION, "a query is one SELECT statement", field="query")
    body: dict[str, Any] = {"sql": query}
    if params is not None:
        if isinstance(params, str | bytes) or not isinstance(params, Sequence):
            raise WyrdError(Code.SPEC_400_VALIDATION, "params is a list of values", field="params")
        for index, value in enumerate(params):
            if value is None or isinstance(value, bool | int | str):
                continue
            if not isinstance(value, float) or value - value != 0.0:
                raise WyrdError(
                    Code.SPEC_400_VALIDATION,
                    f"${index + 1} is null, true or false, a finite number or text",
                    field=f"params[{index}]",
                )
        body["params"] = list(params)
    if deadline_ms is not None:
        if (
            not isinstance(deadline_ms, int)
            or isinstance(deadline_ms, bool)
            or not 1 <= deadline_ms <= LONGEST_DEADLINE
        ):
            raise WyrdError(
                Code.SPEC_400_VALIDATION, "deadline_ms is a number of milliseconds", field="deadline_ms"
            )
        body["deadline_ms"] = deadline_ms
    return body


def asked(
    query: object,
    params: object = None,
    deadline_ms: int | None = None,
    *,
    accept: str = CONTENT_TYPE,
    streamed: bool = False,
    **limits: int,
) -> Call:
    """The request of a query. `limits` are max_rows and max_bytes."""
    body = {**_body(query, params, deadline_ms), **limits}
    silence = _DEFAULT_SILENCE if deadline_ms is None else deadline_ms / 1000 + _GRACE
    return Call(
        "POST", "/v1/query", json=body, headers={"accept": accept}, timeout=silence, streamed=streamed
    )


def sql(server_url: str, query: object, params: object = None) -> Flow[QueryResult]:
    """Run a query to its end. One attempt."""
    reply: Reply = yield from asked(query, params).run(server_url)
    result: QueryResult = yield Offload(lambda: collected(reply))
    return result


def collected(reply: Reply) -> QueryResult:
    """A whole answer as a result."""
    reader = FrameReader()
    batches = list(reader.feed(reply.body))
    terminal = reader.finish()
    return QueryResult(reader.schema, batches, terminal)


def running(server_url: str) -> Flow[list[dict[str, Any]]]:
    found = yield from Call("GET", "/v1/query/running").model(server_url, RunningQueries)
    return [one.model_dump(mode="json") for one in found.queries]


def status(server_url: str, request_id: object) -> Flow[dict[str, Any]]:
    """VALA_404_RUNNING_QUERY_NOT_FOUND when it is not running (any more)."""
    found = yield from Call("GET", _path(request_id)).model(server_url, RunningQuery)
    return found.model_dump(mode="json")


def cancel(server_url: str, request_id: object) -> Flow[dict[str, Any]]:
    found = yield from Call("DELETE", _path(request_id)).model(server_url, QueryCancelled)
    return found.model_dump(mode="json")


def _path(request_id: object) -> str:
    if not isinstance(request_id, str) or not is_uuid7(request_id):
        raise WyrdError(Code.SPEC_400_VALIDATION, "a request id is a UUIDv7", field="request_id")
    return f"/v1/query/{quote(request_id, safe='')}"


class QueryResult:
    """All rows of a query, as Arrow; converted when asked."""

    def __init__(
        self, schema: pyarrow.Schema, batches: Sequence[pyarrow.RecordBatch], terminal: QueryTerminal
    ) -> None:
        self._schema = schema
        self._batches = tuple(batches)
        self._terminal = terminal

    def to_arrow(self) -> pyarrow.Table:
        """The rows as one `pyarrow.Table`."""
        import pyarrow as pa

        return pa.Table.from_batches(self._batches, self._schema)

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame. ImportError without pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The rows as a Polars DataFrame. ImportError without polars."""
        from importlib import import_module

        return import_module("polars").from_arrow(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries; JSON columns are decoded where the answer says that they are JSON."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        for field in self._schema:
            if _is_json(field):
                for row in rows:
                    row[field.name] = _decoded(row[field.name])
        return rows

    def to_bytes(self) -> bytes:
        """The rows as one Arrow IPC stream."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema) as writer:
            for batch in self._batches:
                writer.write_batch(batch)
        return bytes(sink.getvalue().to_pybytes())

    @property
    def batches(self) -> list[pyarrow.RecordBatch]:
        """The batches as the server sent them; none when no row matched."""
        return list(self._batches)

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns, also when no row matched."""
        return self._schema

    @property
    def num_rows(self) -> int:
        return self._terminal.row_count

    @property
    def terminal(self) -> QueryTerminal:
        """How the query ended."""
        return self._terminal

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        return f"QueryResult({self.num_rows} rows: {', '.join(self._schema.names)})"


def _is_json(field: pyarrow.Field) -> bool:
    metadata = field.metadata or {}
    return (
        metadata.get(b"wyrd.type") == b"variant"
        or metadata.get(b"ARROW:extension:name") == b"arrow.json"
        or getattr(field.type, "extension_name", None) == "arrow.json"
    )


def _decoded(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return strict_loads(text)
    except JsonRefused:
        return text


def typed_rows(result: QueryResult, model: type[M]) -> list[M]:
    """Every row as an instance of the model; all or none (CLIENT_422_ROW_DESERIALIZATION)."""
    validate = getattr(model, "model_validate", None)
    if not callable(validate):
        raise WyrdError(Code.SPEC_400_VALIDATION, "a row model has model_validate", field="model")
    found: list[M] = []
    for index, row in enumerate(result.to_pylist()):
        try:
            found.append(validate(row))
        except ValueError as error:
            place = _place(error)
            raise WyrdError(
                Code.CLIENT_422_ROW_DESERIALIZATION,
                f"row {index} is no {model.__name__}: {place}",
                row=index,
                field=place.partition(":")[0],
            ) from error
    return found


def _place(error: ValueError) -> str:
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return str(error)
    first = listed(include_url=False, include_context=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
