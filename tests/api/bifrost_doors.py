"""Every door by which rows come into Bifrost, asked alike: who sends, what, and what is answered.

JSON and Arrow by HTTP, `InsertBatch` by gRPC, and the three signals of OTLP; all to the tables of
`TABLES`, so that what holds for one can be asked of each.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import grpc.aio
import httpx
import pyarrow as pa

from api.grpc.door import InsertDoor
from api.grpc.messages import METHOD, InsertBatchRequest
from api.grpc.statuses import TRAILER
from api.services import Services
from tests.api.conftest import Person

NOTES = {
    "namespace": "datasets",
    "name": "notes",
    "fields": [{"name": "note", "data_type": "Utf8", "nullable": False}],
}
BATCHES = "/v1/bifrost/tables/datasets/notes/batches"
ARROW = "application/vnd.apache.arrow.stream"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

TABLES = {
    "json": "vala.datasets.notes",
    "arrow": "vala.datasets.notes",
    "grpc": "vala.datasets.notes",
    "traces": "vala.traces.spans",
    "logs": "vala.logs.records",
    "metrics": "vala.metrics.points",
}
"""Where the rows of each door go."""
WORD = {
    "vala.datasets.notes": "note",
    "vala.traces.spans": "name",
    "vala.logs.records": "body",
    "vala.metrics.points": "metric_name",
}
"""The column of each table that holds the word of a row."""
DOORS = list(TABLES)


@dataclass(frozen=True)
class Told:
    """What a door answered: its HTTP status, or the one of the problem document; and that document."""

    status: int
    problem: dict[str, Any]
    text: str

    @property
    def code(self) -> str:
        return str(self.problem.get("code", ""))


@dataclass
class Row:
    """One row about a Card and of a run, or of neither; `word` is what it says."""

    word: str
    card_uid: str | None = None
    run_id: str | None = None
    trace_id: str = TRACE


class Doors:
    """Sends rows through any door."""

    def __init__(self, http: httpx.AsyncClient, channel: Any) -> None:
        self._http = http
        self._channel = channel

    async def register(self, who: Person) -> None:
        made = await self._http.post("/v1/bifrost/tables", json=NOTES, headers=who.headers)
        assert made.status_code in (200, 201), made.text

    async def send(self, door: str, who: Person, batch_id: str, *rows: Row) -> Told:
        """Send rows as one batch, or one export. OTLP takes its identity from the rows."""
        if door == "grpc":
            return await self._insert(who, batch_id, rows)
        if door == "json":
            answer = await self._http.post(
                BATCHES,
                json={"batch_id": batch_id, "rows": [_columns(row) for row in rows]},
                headers=who.headers,
            )
        elif door == "arrow":
            answer = await self._http.post(
                BATCHES,
                params={"batch_id": batch_id},
                content=arrow(rows),
                headers={**who.headers, "content-type": ARROW},
            )
        else:
            answer = await self._http.post(f"/v1/{door}", json=export(door, rows), headers=who.headers)
        return _told(answer)

    async def _insert(self, who: Person, batch_id: str, rows: tuple[Row, ...]) -> Told:
        message = InsertBatchRequest(
            table="datasets.notes", arrow_ipc=arrow(rows), wyrd_batch_id=uuid.UUID(batch_id).bytes
        )
        metadata = [("x-wyrd-access-token", f"Bearer {who.key}")]
        try:
            await self._channel.unary_unary(METHOD)(
                message.SerializeToString(), metadata=metadata, timeout=30
            )
        except grpc.aio.AioRpcError as error:
            sent = dict(error.trailing_metadata() or ())[TRAILER]
            problem = json.loads(sent)
            return Told(problem["status"], problem, f"{error.details()} {sent!r}")
        return Told(200, {}, "")

    async def words(self, who: Person, table: str) -> list[str]:
        """The words of a table's rows that a query of that caller sees, sorted."""
        column = WORD[table]
        answer = await self.query(who, f"SELECT {column} FROM {table} ORDER BY 1")
        assert answer.status_code == 200, answer.text
        return [row[0] for row in answer.json()["rows"]]

    async def query(self, who: Person, sql: str, *params: Any) -> httpx.Response:
        headers = {**who.headers, "accept": "application/json"}
        return await self._http.post("/v1/query", json={"sql": sql, "params": list(params)}, headers=headers)

    async def tool(self, who: Person, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Whether a tool of MCP failed, and what it said."""
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        }
        headers = {**who.headers, "accept": "application/json, text/event-stream"}
        answer = await self._http.post("/mcp", json=message, headers=headers)
        assert answer.status_code == 200, answer.text
        result = answer.json()["result"]
        [content] = result["content"]
        return bool(result["isError"]), str(content["text"])


@asynccontextmanager
async def doors_of(services: Services, http: httpx.AsyncClient) -> AsyncIterator[Doors]:
    """The doors of an application, gRPC on a port of its own."""
    settings = services.settings.model_copy(update={"grpc_port": 0})
    parts: Any = SimpleNamespace(settings=settings, tokens=services.tokens, bifrost=services.bifrost)
    door = InsertDoor(parts)
    await door.open()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
            yield Doors(http, channel)
    finally:
        await door.close()


def _told(answer: httpx.Response) -> Told:
    if answer.status_code == 200:
        return Told(200, {}, answer.text)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return Told(answer.status_code, answer.json(), answer.text)


def _columns(row: Row) -> dict[str, str]:
    found = {"note": row.word, "card_uid": row.card_uid, "run_id": row.run_id}
    return {name: value for name, value in found.items() if value is not None}


def arrow(rows: tuple[Row, ...]) -> bytes:
    """An Arrow IPC stream of notes with both columns of the correlation, as the published client sends."""
    columns = {
        "note": pa.array([row.word for row in rows], pa.string()),
        "card_uid": pa.array([row.card_uid for row in rows], pa.string()),
        "run_id": pa.array([row.run_id for row in rows], pa.string()),
    }
    batch = pa.record_batch(columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def export(signal: str, rows: tuple[Row, ...]) -> dict[str, Any]:
    """An export of one record a row: a span, a log record or a data point."""
    if signal == "traces":
        spans = [
            {
                "traceId": row.trace_id,
                "spanId": uuid.uuid5(uuid.NAMESPACE_OID, row.word).hex[:16],
                "name": row.word,
                "startTimeUnixNano": "1",
                "endTimeUnixNano": "2",
                "attributes": _attributes(row),
            }
            for row in rows
        ]
        return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    if signal == "logs":
        records = [{"body": {"stringValue": row.word}, "attributes": _attributes(row)} for row in rows]
        return {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    metrics = [
        {"name": row.word, "gauge": {"dataPoints": [{"asInt": "1", "attributes": _attributes(row)}]}}
        for row in rows
    ]
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}


def _attributes(row: Row) -> list[dict[str, Any]]:
    told = {"wyrd.card_uid": row.card_uid, "wyrd.run_id": row.run_id}
    return [{"key": key, "value": {"stringValue": value}} for key, value in told.items() if value is not None]
