"""Bifrost: rows recorded, made queryable, joined and exported, each beside what it cannot be faster than."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import httpx
import numpy as np
import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pyarrow import parquet

import wyrd
from benchmarks.stack import Target, stack
from wyrd.wire.ids import uuid7

ROWS = 1_000_000
SPANS = 512
_SETTLING_SECONDS = 10.0
WORDS = "the parcel left our warehouse this morning and should be with you tomorrow before noon"
EVENTS = {
    "type": "object",
    "properties": {
        "ticket": {"type": "string"},
        "answer": {"type": "string"},
        "score": {"type": "number"},
        "turn": {"type": "integer"},
        "refund": {"type": "boolean"},
    },
    "required": ["ticket", "answer", "score", "turn", "refund"],
}


def measure() -> dict[str, Any]:
    with stack() as target:
        client = wyrd.WyrdClient(target.api, target.key)
        _awake(client, target)
        found: dict[str, Any] = {}
        for size, rows in ((1, 400), (100, 60_000), (10_000, 600_000)):
            found[f"recorded_at_{size}"] = _recorded(client, size, rows)
        found |= {"inserted_at_100": _inserted(100), "inserted_at_10000": _inserted(10_000)}
        found["queryable_ms"] = _queryable(client)
        found |= _exported(target)
        found |= _joined(client, target)
    return found | asyncio.run(_growth())


def _awake(client: wyrd.WyrdClient, target: Target) -> None:
    """Wait until the worker publishes, and has read the libraries that it reads while it does already:
    they take a core for seconds, which no figure is about."""
    bifrost = wyrd.Bifrost(wyrd.TableConfig.from_json_schema("vala.datasets.awake", EVENTS), client)
    bifrost.register()
    for number in range(5_000):
        bifrost.insert(_row(number))
    bifrost.shutdown()
    _until(lambda: any((Path(target.home) / "warehouse").rglob("awake/data/**/*.parquet")))
    time.sleep(_SETTLING_SECONDS)


def _row(number: int) -> dict[str, Any]:
    return {
        "ticket": f"T-{number}",
        "answer": WORDS,
        "score": number / 7,
        "turn": number,
        "refund": number % 3 == 0,
    }


def _recorded(client: wyrd.WyrdClient, size: int, rows: int) -> float:
    """Rows a second from the first `insert` until the server has acknowledged the last."""
    table = wyrd.TableConfig.from_json_schema(f"vala.datasets.events_{size}", EVENTS)
    bifrost = wyrd.Bifrost(table, client, batch_rows=size, batch_bytes=1 << 24)
    bifrost.register()
    told = [_row(number) for number in range(min(rows, 50_000))]
    bifrost.insert(told[0])
    bifrost.flush()
    began = time.perf_counter()
    for number in range(rows):
        bifrost.insert(told[number % len(told)])
    bifrost.flush(120)
    taken = time.perf_counter() - began
    bifrost.shutdown()
    return rows / taken


def _inserted(size: int) -> float:
    """The floor: the same rows as one durable INSERT a batch, into SQLite as the outbox is set up."""
    payload = b"x" * (size * 40)
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(f"{folder}/floor.db", isolation_level=None)
        database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (a, b)")
        began, batches = time.perf_counter(), 200
        for number in range(batches):
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO t VALUES (?, ?)", (number, payload))
            database.execute("COMMIT")
        taken = time.perf_counter() - began
        database.close()
    return batches * size / taken


def _queryable(client: wyrd.WyrdClient, count: int = 20) -> float:
    """Milliseconds from an acknowledgement until a query shows the row, median."""
    bifrost = wyrd.Bifrost(client)
    table = wyrd.TableConfig.from_json_schema("vala.datasets.events_1", EVENTS)
    writer = wyrd.Bifrost(table, client, batch_rows=1)
    sql = "SELECT count(*) AS n FROM vala.datasets.events_1 WHERE ticket = $1"
    taken = []
    for _ in range(count):
        ticket = uuid7()
        writer.insert({**_row(0), "ticket": ticket})
        writer.flush()
        began = time.perf_counter()
        while bifrost.sql(sql, [ticket]).to_pylist() != [{"n": 1}]:
            continue
        taken.append((time.perf_counter() - began) * 1000)
    writer.shutdown()
    return statistics.median(taken)


def _exported(target: Target, exports: int = 60) -> dict[str, float]:
    """Spans a second that OTLP/HTTP stores, from four exporters at once."""
    bodies = [_export() for _ in range(exports)]
    headers = {**target.headers, "content-type": "application/x-protobuf"}
    local = threading.local()

    def send(body: bytes) -> None:
        if not hasattr(local, "http"):
            local.http = httpx.Client(base_url=target.api, headers=headers, timeout=60)
        assert local.http.post("/v1/traces", content=body).status_code == 200

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(send, bodies[:4]))
        began = time.perf_counter()
        list(threads.map(send, bodies[4:]))
        taken = time.perf_counter() - began
    return {"spans_per_second": (exports - 4) * SPANS / taken}


def _export() -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    chance = np.random.Generator(np.random.PCG64(int(uuid7().replace("-", "")[-12:], 16)))
    for number in range(SPANS):
        span = spans.add(name="chat", trace_id=chance.bytes(16), span_id=chance.bytes(8), kind=3)
        span.start_time_unix_nano, span.end_time_unix_nano = number, number + 1000
        for key in ("gen_ai.request.model", "gen_ai.system", "http.route"):
            span.attributes.add(key=key).value.string_value = WORDS[:24]
    return request.SerializeToString()


def _joined(client: wyrd.WyrdClient, target: Target) -> dict[str, float]:
    """A join of 1e6 x 1e6 rows and a point query, against DuckDB on the very same files."""
    bifrost = wyrd.Bifrost(client)
    keys = np.random.Generator(np.random.PCG64(1)).permutation(ROWS)
    for name, column in (("left_rows", np.arange(ROWS)), ("right_rows", keys)):
        fields = {"type": "object", "properties": {"key": {"type": "integer"}, "value": {"type": "number"}}}
        table = wyrd.TableConfig.from_json_schema(
            f"vala.datasets.{name}", {**fields, "required": ["key", "value"]}
        )
        wyrd.Bifrost(table, client).register()
        for start in range(0, ROWS, 50_000):
            part = column[start : start + 50_000]
            bifrost.write_batch(
                f"vala.datasets.{name}", pa.record_batch({"key": part, "value": part.astype(np.float64)})
            )
    bifrost.flush(120)
    warehouse = Path(target.home) / "warehouse"
    for name in ("left_rows", "right_rows"):
        _until(partial(_all_published, warehouse, name))
    join = (
        "SELECT count(*), sum(l.value + r.value) FROM vala.datasets.left_rows AS l"
        " JOIN vala.datasets.right_rows AS r ON l.key = r.key"
    )
    point = "SELECT value FROM vala.datasets.left_rows WHERE key = 424242"
    raw = duckdb.connect()
    raw.execute("SET threads = 2")

    def plain(sql: str) -> str:
        for name in ("left_rows", "right_rows"):
            listed = [str(path) for path in _files(warehouse, name)]
            sql = sql.replace(f"vala.datasets.{name}", f"read_parquet({listed})")
        return sql

    found = {}
    for name, sql in (("join", join), ("point", point)):
        floor_sql = plain(sql)
        ours, floor = [], []
        for _ in range(9):
            ours.append(_timed(partial(bifrost.sql, sql)))
            floor.append(_timed(partial(_fetched, raw, floor_sql)))
        found[f"{name}_ms"], found[f"{name}_floor_ms"] = statistics.median(ours), statistics.median(floor)
    return found


def _files(warehouse: Path, name: str) -> list[Path]:
    """The files of a table that hold its rows once: what compaction has replaced is not counted twice."""
    found, rows = [], 0
    for path in sorted(warehouse.rglob(f"{name}/data/**/*.parquet"), key=lambda path: path.stat().st_mtime):
        try:
            size: int = parquet.read_metadata(path).num_rows
        except pa.ArrowInvalid:
            # It is being written.
            continue
        if rows + size > ROWS:
            continue
        found.append(path)
        rows += size
    return found


def _all_published(warehouse: Path, name: str) -> bool:
    rows: int = sum(parquet.read_metadata(path).num_rows for path in _files(warehouse, name))
    return rows == ROWS


def _fetched(raw: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    return raw.execute(sql).fetchall()


async def _growth() -> dict[str, float]:
    """Milliseconds of one publication and of one read, after 10 and after 1,000 publications."""
    # The rooms of the server: everything else here is what a client can import.
    from bifrost.catalog import Catalogs
    from bifrost.names import TableName
    from bifrost.reading import Cuts
    from bifrost.scribe.publisher import Publisher
    from bifrost.tables import Tables
    from store.database import Database, utc_now
    from store.first_start import ensure_tenant
    from store.outbox import Batch, add_batches
    from store.schema import upgrade
    from store.settings import Settings
    from wyrd.wire.bifrost import FieldSpec, RegisterTable

    name = TableName("vala.datasets", "growing")
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home))
        upgrade(settings.sql_url)
        database = Database(settings.sql_url)
        tenant = await ensure_tenant(database, "bench")
        asked = RegisterTable(
            namespace="datasets", name="growing", fields=[FieldSpec(name="n", data_type="Int64")]
        )
        await database.write(lambda connection: Tables(connection, tenant).register(asked))
        catalogs = Catalogs(settings, database)
        cuts, publisher = Cuts(database, catalogs), Publisher(database, catalogs, settings)
        passes, reads = [], []
        for number in range(1000):
            batch = Batch(name.full, uuid7(), "json", b'[{"n":1},{"n":2}]', 2, "bench", "bench", utc_now())
            await database.write(add_batches, [(tenant, batch)])
            began = time.perf_counter()
            await publisher.pass_once(everything=True)
            passes.append((time.perf_counter() - began) * 1000)
            if number % 10 == 9:
                began = time.perf_counter()
                rows = await cuts.rows(tenant, name)
                reads.append((time.perf_counter() - began) * 1000)
                assert rows.num_rows == 2 * (number + 1)
        publisher.close()
        cuts.close()
        database.close()
    return {
        "publish_ms_first": statistics.median(passes[5:25]),
        "publish_ms_last": statistics.median(passes[-20:]),
        "read_ms_first": statistics.median(reads[:3]),
        "read_ms_last": statistics.median(reads[-3:]),
    }


def _until(found: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        if time.monotonic() > deadline:
            raise RuntimeError("the rows were not published in time")
        time.sleep(0.5)


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000
