"""kill −9 of API, publisher and query processes while rows are recorded: every row is there once."""

from __future__ import annotations

import contextlib
import io
import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pytest

from tests.e2e.test_crashes import Up, eventually, started
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.timeout(400)

BATCHES = 600
"""A producer."""
KILLS = 30
SEED = 20261201
BATCHES_URL = "/v1/bifrost/tables/datasets/events/batches"


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Up]:
    monkeypatch.setenv("WYRD_PUBLISH_ROWS", "200")
    monkeypatch.setenv("WYRD_PUBLISH_SECONDS", "0.5")
    with started(tmp_path) as running:
        yield running


def field(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "data_type": kind, "nullable": False}


class Producer(threading.Thread):
    """Sends its batches as a client does: the same batch under the same id until it is acknowledged."""

    def __init__(self, up: Up, name: str, done: threading.Event) -> None:
        super().__init__(name=name)
        self._up = up
        self._random = random.Random(f"{SEED} {name}")
        self._done = done
        self.acknowledged: dict[str, list[str]] = {}
        self.failed: list[str] = []

    def run(self) -> None:
        pause = threading.Event()
        headers = {"authorization": f"Bearer {self._up.key}"}
        with httpx.Client(
            base_url=self._up.addresses["api"], headers=headers, timeout=20, trust_env=False
        ) as http:
            for number in range(BATCHES):
                batch_id = uuid7()
                rows = [f"{self.name}-{number}-{row}" for row in range(self._random.choice((1, 3, 40)))]
                # A fifth is sent twice, as after an answer that was lost.
                for _ in range(2 if number % 5 == 0 else 1):
                    while not self._sent(http, batch_id, rows):
                        pause.wait(0.05)
                self.acknowledged[batch_id] = rows
        self._done.set()

    def _sent(self, http: httpx.Client, batch_id: str, rows: list[str]) -> bool:
        try:
            if len(rows) > 10:
                answer = http.post(
                    BATCHES_URL,
                    params={"batch_id": batch_id},
                    content=_arrow(rows),
                    headers={"content-type": "application/vnd.apache.arrow.stream"},
                )
            else:
                body = {"batch_id": batch_id, "rows": [{"key": key, "size": len(key)} for key in rows]}
                answer = http.post(BATCHES_URL, json=body)
        except httpx.TransportError:
            return False
        if answer.status_code not in (200, 500, 503):
            self.failed.append(answer.text)
            return True
        return answer.status_code == 200


def _arrow(rows: list[str]) -> bytes:
    batch = pa.record_batch({"key": rows, "size": pa.array([len(key) for key in rows], pa.int64())})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def asked(up: Up, sql: str) -> list[list[Any]]:
    answer = up.call("POST", "/v1/query", json={"sql": sql}, headers={"accept": "application/json"})
    assert answer.status_code == 200, answer.text
    rows: list[list[Any]] = answer.json()["rows"]
    return rows


def victim(up: Up, kind: str) -> psutil.Process | None:
    marks = {"api": "uvicorn", "publisher": "worker.py", "query": "bifrost.oracle"}
    found = []
    for process in psutil.Process(up.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            if marks[kind] in command and "tether" not in command:
                found.append(process)
    return found[0] if found else None


def slain(up: Up, kind: str) -> bool:
    found = victim(up, kind)
    if found is None:
        return False
    with contextlib.suppress(psutil.Error):
        found.kill()
    return True


def ask_on(up: Up, enough: threading.Event) -> None:
    """Query all the time, so that there are query processes, some of them in the middle of a query."""
    while not enough.wait(0.05):
        with contextlib.suppress(httpx.HTTPError), up.http as http:
            http.post("/v1/query", json={"sql": "SELECT count(*) FROM vala.datasets.events"})


def test_every_row_is_there_once_after_thirty_kills_under_two_producers(up: Up) -> None:
    table = {"namespace": "datasets", "name": "events"}
    made = up.call(
        "POST", "/v1/bifrost/tables", json={**table, "fields": [field("key", "Utf8"), field("size", "Int64")]}
    )
    assert made.status_code in (200, 201), made.text
    ended = [threading.Event(), threading.Event()]
    producers = [Producer(up, f"p{number}", done) for number, done in enumerate(ended)]
    for producer in producers:
        producer.start()
    # The supervisor waits longer before each start of a process that keeps dying; a query process is
    # replaced at once, so most kills are of those.
    victims = ["api"] * 5 + ["publisher"] * 6 + ["query"] * (KILLS - 11)
    chance, pause = random.Random(SEED), threading.Event()
    chance.shuffle(victims)
    asking = threading.Event()
    reader = threading.Thread(target=ask_on, args=(up, asking))
    reader.start()
    for kind in victims:
        eventually(partial(slain, up, kind), f"a process of the {kind} to kill", 90)
        pause.wait(chance.uniform(0.05, 0.8))
    asking.set()
    reader.join()
    for producer in producers:
        producer.join()
        assert producer.failed == []
        assert len(producer.acknowledged) == BATCHES
    expected = [key for producer in producers for rows in producer.acknowledged.values() for key in rows]
    counted = asked(up, "SELECT count(*), count(DISTINCT key), sum(size) FROM vala.datasets.events")
    assert counted == [[len(expected), len(expected), sum(len(key) for key in expected)]]
    by_batch = "SELECT wyrd_batch_id, max(wyrd_row_ordinal) + 1 - count(*) AS gap FROM vala.datasets.events"
    assert asked(up, f"SELECT count(*) FROM ({by_batch} GROUP BY 1 HAVING gap <> 0)") == [[0]]
    # And all of it is published, by whoever publishes now.
    warehouse = Path(up.addresses["home"]) / "warehouse"
    eventually(lambda: published(warehouse) or None, "published files", 60)
    assert asked(up, "SELECT count(DISTINCT wyrd_batch_id) FROM vala.datasets.events") == [[2 * BATCHES]]


def published(warehouse: Path) -> list[Path]:
    return list(warehouse.rglob("events/data/**/*.parquet"))
