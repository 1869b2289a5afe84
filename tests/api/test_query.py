"""`/v1/query`: three kinds of answers, refusals before them, failures within them, and what is running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
import uvicorn
from fastapi import FastAPI

from api.services import Services
from tests.api.conftest import Person, person
from tests.bifrost.asked import until
from tests.servers import free_ports
from wyrd._client.query_frames import CONTENT_TYPE, FrameReader
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import RunningQuery
from wyrd.wire.ids import uuid7

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
STREAM = "SELECT range AS n FROM range(1000000000000)"
FAILS_LATE = "SELECT CASE WHEN n < 3000000 THEN '1' ELSE 'x' END::INTEGER AS n FROM range(4000000) AS t(n)"


@pytest.fixture
async def url(app: FastAPI) -> AsyncIterator[str]:
    """Where the application listens."""
    port = free_ports(1)[0]
    config = uvicorn.Config(app, host="127.0.0.1", port=port, lifespan="off", log_level="warning", ws="none")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done()
        await asyncio.sleep(0.005)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await running


@pytest.fixture
async def http(url: str, admin: Person) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, headers=admin.headers, timeout=60) as client:
        yield client


async def ask(
    http: httpx.AsyncClient, sql: str, accept: str = JSON, headers: dict[str, str] | None = None, **more: Any
) -> httpx.Response:
    return await http.post(
        "/v1/query", json={"sql": sql, **more}, headers={"accept": accept, **(headers or {})}
    )


async def test_json_rows_are_exact_and_carry_the_deadline(http: httpx.AsyncClient) -> None:
    sql = """SELECT 9007199254740993 AS big, 12.50 AS money, 'NaN'::DOUBLE AS nan,
                    TIMESTAMPTZ '2026-12-01 10:00Z' AS at"""
    request_id = uuid7()
    answer = await ask(http, sql, headers={"wyrd-request-id": request_id}, deadline_ms=5000)
    assert answer.json() == {
        "columns": ["big", "money", "nan", "at"],
        "rows": [[9007199254740993, "12.50", "NaN", "2026-12-01T10:00:00Z"]],
        "row_count": 1,
    }
    assert answer.headers["x-wyrd-query-deadline-ms"] == "5000"
    assert answer.headers["wyrd-request-id"] == request_id


async def test_an_arrow_stream_holds_every_row(http: httpx.AsyncClient) -> None:
    answer = await ask(http, "SELECT n, $1 AS word FROM range(50000) AS t(n)", ARROW, params=["a"])
    assert answer.headers["content-type"] == ARROW
    with pa.ipc.open_stream(answer.content) as stream:
        found = stream.read_all()
    assert found.num_rows == 50_000
    assert found.column("word").unique().to_pylist() == ["a"]


async def test_frames_end_with_a_terminal_that_counts_them(http: httpx.AsyncClient) -> None:
    request_id = uuid7()
    answer = await ask(http, "FROM range(50000)", CONTENT_TYPE, {"wyrd-request-id": request_id})
    assert answer.headers["content-type"] == CONTENT_TYPE
    assert answer.headers["wyrd-request-id"] == request_id
    assert int(answer.headers["x-wyrd-query-deadline-ms"]) > 0
    reader = FrameReader()
    rows = sum(batch.num_rows for batch in reader.feed(answer.content))
    terminal = reader.finish()
    assert (rows, terminal.row_count, terminal.outcome) == (50_000, 50_000, "success")
    assert set(terminal.source_completion) == {"iceberg", "hot_sealed", "live_tail"}


async def test_frames_of_no_rows_still_tell_the_columns(http: httpx.AsyncClient) -> None:
    answer = await ask(http, "SELECT ticket FROM (SELECT 1 AS ticket) WHERE false", CONTENT_TYPE)
    reader = FrameReader()
    assert list(reader.feed(answer.content)) == []
    assert reader.finish().row_count == 0
    assert reader.schema is not None
    assert reader.schema.names == ["ticket"]


async def test_what_fails_after_rows_were_sent_is_told_by_the_terminal(http: httpx.AsyncClient) -> None:
    answer = await ask(http, FAILS_LATE, CONTENT_TYPE)
    assert answer.status_code == 200
    reader = FrameReader()
    with pytest.raises(WyrdError) as failed:
        list(reader.feed(answer.content))
    assert failed.value.member is Code.VALA_400_QUERY_INVALID_SQL
    assert "'x'" in failed.value.detail
    assert reader.terminal is not None
    assert (reader.terminal.outcome, reader.terminal.error_code) == ("failed", failed.value.code)
    assert reader.terminal.row_count > 0


async def test_an_arrow_stream_that_fails_has_no_end(http: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(http, FAILS_LATE, ARROW)


@pytest.mark.parametrize("accept", [JSON, ARROW, CONTENT_TYPE])
@pytest.mark.parametrize(
    ("body", "status", "code", "data"),
    [
        ({"sql": "DROP TABLE x"}, 400, "WYRD_VALA_400_QUERY_INVALID_SQL",
         {"detail": "a query is one SELECT statement"}),
        ({"sql": "SELECT 'x'::INTEGER"}, 400, "WYRD_VALA_400_QUERY_INVALID_SQL", None),
        (
            {"sql": "SELECT * FROM vala.datasets.nothing"},
            404,
            "WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND",
            {"table": "vala.datasets.nothing"},
        ),
        ({"sql": "FROM range(5)", "max_rows": 4}, 413, "WYRD_VALA_413_QUERY_RESULT_TOO_LARGE", None),
        ({"sql": "SELECT sum(hash(range)) FROM range(1000000000000)", "deadline_ms": 200}, 504,
         "WYRD_VALA_504_QUERY_TIMEOUT", None),
    ],
    ids=["sql", "value", "table", "rows", "time"],
)  # fmt: skip
async def test_what_fails_before_any_row_is_a_problem_document(
    http: httpx.AsyncClient,
    accept: str,
    body: dict[str, Any],
    status: int,
    code: str,
    data: dict[str, Any] | None,
) -> None:
    if body.get("max_rows") and accept == CONTENT_TYPE:
        reader = FrameReader()
        with pytest.raises(WyrdError, match=code):
            list(reader.feed((await ask(http, accept=accept, **body)).content))
        return
    if body.get("max_rows") and accept == ARROW:
        with pytest.raises(httpx.RemoteProtocolError):
            await ask(http, accept=accept, **body)
        return
    answer = await ask(http, accept=accept, **body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    if data is not None:
        assert answer.json()["details"]["data"] == data


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"sql": "SELECT 1", "max_rows": 10_001}, "max_rows"),
        ({"sql": "SELECT 1", "max_bytes": 2**24 + 1}, "max_bytes"),
        ({"sql": "SELECT 1", "deadline_ms": 0}, "deadline_ms"),
        ({"sql": "SELECT $1", "params": [[1]]}, "params[0]"),
        ({"sql": "SELECT $1", "params": [2**130]}, "params[0]"),
        ({"sql": 1}, "sql"),
        ({}, "sql"),
    ],
)
async def test_a_wrong_request_names_its_field(
    http: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    answer = await http.post("/v1/query", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "WYRD_SPEC_400_VALIDATION")
    assert answer.json()["details"]["field"].startswith(field)


async def test_an_answer_of_another_kind_is_refused(http: httpx.AsyncClient) -> None:
    answer = await ask(http, "SELECT 1", "text/csv")
    assert (answer.status_code, answer.json()["details"]["field"]) == (400, "accept")


async def test_json_is_limited_to_a_thousand_rows_unless_it_is_asked_otherwise(
    http: httpx.AsyncClient,
) -> None:
    assert (await ask(http, "FROM range(1001)")).status_code == 413
    assert (await ask(http, "FROM range(1001)", max_rows=1001)).json()["row_count"] == 1001
    assert (await ask(http, "SELECT repeat('x', 5000000)")).status_code == 413


async def test_who_may_not_read_may_not_ask_or_look(
    http: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    nobody = await person(services, "acme", "nobody")
    for method, path in (
        ("POST", ""),
        ("GET", "/running"),
        ("GET", f"/{uuid7()}"),
        ("DELETE", f"/{uuid7()}"),
    ):
        body = {"json": {"sql": "SELECT 1"}} if method == "POST" else {}
        answer = await http.request(method, f"/v1/query{path}", headers=nobody.headers, **body)  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()["code"]) == (403, "WYRD_VALA_403_QUERY_FORBIDDEN")


async def test_a_running_query_is_listed_shown_and_cancelled_within_its_tenant(
    http: httpx.AsyncClient, rival: Person
) -> None:
    request_id = uuid7()
    sql = "SELECT sum(hash(range)) FROM range(1000000000000)"
    asking = asyncio.create_task(ask(http, sql, headers={"wyrd-request-id": request_id}))
    listed: list[dict[str, Any]] = []
    while not listed:
        listed = (await http.get("/v1/query/running")).json()["queries"]
    (entry,) = listed
    assert set(entry) == set(RunningQuery.model_fields)
    assert entry["request_id"] == request_id
    path = f"/v1/query/{request_id}"
    assert (await http.get(path)).json()["request_id"] == request_id
    assert (await http.get("/v1/query/running", headers=rival.headers)).json() == {"queries": []}
    for method in ("GET", "DELETE"):
        answer = await http.request(method, path, headers=rival.headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "WYRD_VALA_404_RUNNING_QUERY_NOT_FOUND")
    assert (await http.delete(path)).json() == {"request_id": request_id, "cancellation_started": True}
    answer = await asking
    assert (answer.status_code, answer.json()["detail"]) == (504, "the query was cancelled")
    assert (await http.get(path)).status_code == 404


@pytest.mark.parametrize("accept", [JSON, ARROW, CONTENT_TYPE])
async def test_a_client_that_hangs_up_stops_its_query(
    http: httpx.AsyncClient, services: Services, admin: Person, accept: str
) -> None:
    oracle = services.bifrost.oracle
    sql = "SELECT sum(hash(range)) FROM range(1000000000000)" if accept == JSON else STREAM

    async def hang_up() -> None:
        body, headers = {"sql": sql}, {"accept": accept}
        async with http.stream("POST", "/v1/query", json=body, headers=headers) as answer:
            async for _ in answer.aiter_raw():
                return

    asking = asyncio.create_task(hang_up())
    await until(lambda: oracle.running(admin.tenant))
    if accept == JSON:
        asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: not oracle.running(admin.tenant))
