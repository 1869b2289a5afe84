"""kill −9 of API, publisher and query processes while rows are recorded: every row is there once."""

from __future__ import annotations

import io
import os
import random
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from tests.e2e.kept_running import Pace, Service, eventually, kept_running
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.timeout(300)

BATCHES = 600
"""A producer."""
VICTIMS = {"api": 8, "publisher": 9, "query": 13}
"""Kills of each kind, thirty in all. The API takes some seconds to come back."""
SEED = int(os.environ.get("WYRD_TEST_SEED", "20261201"))
EVENTS = "/v1/bifrost/tables/datasets/events/batches"
ARROW = "application/vnd.apache.arrow.stream"
WAITING = "SELECT count(*), count(publish_id) FROM bifrost_outbox WHERE published_at IS NULL"

Rows = dict[str, list[str]]
"""Keys of the rows of each batch id, in their order."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with kept_running(tmp_path, WYRD_PUBLISH_ROWS="200", WYRD_PUBLISH_SECONDS="0.5") as service:
        yield service


class Producer(threading.Thread):
    """Sends its batches as a client does: the same batch under the same id until it is acknowledged."""

    def __init__(self, service: Service, name: str, pace: Pace) -> None:
        super().__init__(name=name, daemon=True)
        self._service = service
        self._random = random.Random(f"{SEED} {name}")
        self._pace = pace
        self.acknowledged: Rows = {}
        self.repeats_known = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self._service.client() as http:
                twice = set(self._random.sample(range(BATCHES), BATCHES // 5))
                for number in range(BATCHES):
                    size = self._random.choice((1, 3, 40))
                    rows = [f"{self.name}-{number}-{row}" for row in range(size)]
                    batch_id = uuid7()
                    self._sent(http, batch_id, rows)
                    self.acknowledged[batch_id] = rows
                    if number in twice:
                        # As after an answer that was lost.
                        self.repeats_known += self._sent(http, batch_id, rows)["duplicate"]
        except BaseException as failure:
            self.failure = failure

    def _sent(self, http: httpx.Client, batch_id: str, rows: list[str]) -> dict[str, Any]:
        self._pace.send()
        pause = threading.Event()
        while True:
            try:
                answer = self._posted(http, batch_id, rows)
            except httpx.TransportError:
                pause.wait(0.05)
                continue
            if answer.status_code != 503:
                break
            pause.wait(0.05)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert (found["batch_id"], found["rows"]) == (batch_id, len(rows))
        return found

    def _posted(self, http: httpx.Client, batch_id: str, rows: list[str]) -> httpx.Response:
        if len(rows) > 10:
            headers = {"content-type": ARROW}
            return http.post(EVENTS, params={"batch_id": batch_id}, content=_arrow(rows), headers=headers)
        body = {"batch_id": batch_id, "rows": [{"key": key, "size": len(key)} for key in rows]}
        return http.post(EVENTS, json=body)


def _arrow(rows: list[str]) -> bytes:
    batch = pa.record_batch({"key": rows, "size": pa.array([len(key) for key in rows], pa.int64())})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


class Reader(threading.Thread):
    """Asks all the time: whatever dies, an answer never lacks a row that was acknowledged before it was
    asked for, nor has one twice."""

    def __init__(self, service: Service, producers: list[Producer]) -> None:
        super().__init__(name="reader", daemon=True)
        self._service = service
        self._producers = producers
        self.enough = threading.Event()
        self.answers = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self._service.client() as http:
                while not self.enough.wait(0.02):
                    self._ask(http)
        except BaseException as failure:
            self.failure = failure

    def _ask(self, http: httpx.Client) -> None:
        before = sum(len(rows) for one in self._producers for rows in list(one.acknowledged.values()))
        sql = "SELECT count(*), count(DISTINCT key) FROM vala.datasets.events"
        try:
            answer = http.post("/v1/query", json={"sql": sql}, headers={"accept": "application/json"})
        except httpx.TransportError:
            return
        if answer.status_code == 200:
            [[count, distinct]] = answer.json()["rows"]
            assert count == distinct >= before, (count, distinct, before)
            self.answers += 1
        else:
            # Its process was killed, or the API has just come back.
            assert answer.status_code in (500, 503), answer.text
            assert answer.json()["code"] in ("WYRD_VALA_500_BIFROST_INTERNAL", "WYRD_SERVER_503_NOT_READY")


def _slain(service: Service, kind: str, chance: random.Random) -> bool:
    """SIGKILL of one process of a kind; whether there was one."""
    if kind == "api":
        return service.api.kill()
    if kind == "publisher":
        if chance.random() < 0.5:
            # In the middle of a publication, where there is one soon.
            pause = threading.Event()
            for _ in range(800):
                if service.ask_sql("SELECT 1 FROM leases WHERE name LIKE 'publish/%'"):
                    break
                pause.wait(0.002)
        return service.worker.kill()
    found = service.api.children("bifrost.oracle")
    if not found:
        return False
    try:
        chance.choice(found).kill()
    except psutil.NoSuchProcess:
        return False
    return True


def test_every_row_is_there_once_after_thirty_kills_under_two_producers(service: Service) -> None:
    sys.stdout.write(f"seed {SEED}\n")
    chance = random.Random(SEED)
    sends = 2 * (BATCHES + BATCHES // 5)
    pace = Pace(sorted(chance.sample(range(20, sends - 20), sum(VICTIMS.values()))))
    victims = [kind for kind, times in VICTIMS.items() for _ in range(times)]
    chance.shuffle(victims)
    with service.client() as http:
        kinds = {"key": "Utf8", "size": "Int64"}
        fields = [{"name": name, "data_type": kind, "nullable": False} for name, kind in kinds.items()]
        body = {"namespace": "datasets", "name": "events", "fields": fields}
        assert http.post("/v1/bifrost/tables", json=body).status_code == 201
    producers = [Producer(service, f"p{number}", pace) for number in range(2)]
    reader = Reader(service, producers)
    for thread in (*producers, reader):
        thread.start()
    for kind in victims:
        pace.await_place()
        eventually(partial(_slain, service, kind, chance), f"a process to kill: {kind}", 120)
        pace.killed()
        assert reader.failure is None, reader.failure
    for producer in producers:
        producer.join(120)
        assert not producer.is_alive(), service.told()
        assert producer.failure is None, producer.failure
    reader.enough.set()
    reader.join(60)
    assert reader.failure is None, reader.failure
    assert reader.answers > 0
    starts = {"api": service.api.starts - 1, "publisher": service.worker.starts - 1}
    assert starts == {kind: VICTIMS[kind] for kind in starts}, "one died without being killed"
    assert sum(producer.repeats_known for producer in producers) == 2 * BATCHES // 5

    expected = {batch: rows for one in producers for batch, rows in one.acknowledged.items()}
    assert len(expected) == 2 * BATCHES
    eventually(service.ready, "the API")
    assert asked(service) == expected
    # Whoever publishes now ends what the killed ones began; nobody lends a hand.
    eventually(lambda: service.ask_sql(WAITING) == [(0, 0)], "everything to be published", 60)
    assert asked(service) == expected
    [(location,)] = service.ask_sql("SELECT metadata_location FROM iceberg_tables")
    published = StaticTable.from_metadata(str(location)).scan().to_arrow()
    assert by_batch(published) == expected


def asked(service: Service) -> Rows:
    """Every row, by way of a query."""
    sql = "SELECT key, size, wyrd_batch_id, wyrd_row_ordinal FROM vala.datasets.events"
    with service.client() as http:
        answer = http.post("/v1/query", json={"sql": sql}, headers={"accept": ARROW})
    assert answer.status_code == 200, answer.text
    return by_batch(pa.ipc.open_stream(answer.content).read_all())


def by_batch(table: pa.Table) -> Rows:
    """The keys of each batch by their ordinals, which are 0 to the last without a gap or a repeat."""
    assert table["size"].to_pylist() == [len(key) for key in table["key"].to_pylist()]
    found: dict[str, list[tuple[int, str]]] = {}
    columns = (table[name].to_pylist() for name in ("wyrd_batch_id", "wyrd_row_ordinal", "key"))
    for batch, ordinal, key in zip(*columns, strict=True):
        found.setdefault(batch, []).append((ordinal, key))
    for rows in found.values():
        rows.sort()
        assert [ordinal for ordinal, _ in rows] == list(range(len(rows)))
    return {batch: [key for _, key in rows] for batch, rows in found.items()}
