"""Publishers that are killed at any moment, while rows keep arriving: every row is there once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq

from bifrost.warehouse import plain_path
from store.outbox import Outbox
from tests.bifrost.published import TICKETS, Desk

ROOT = Path(__file__).parents[2]
KILLS = 30


def test_p62_publishers_killed_at_any_moment_publish_every_row_once(embedded_desk: Desk) -> None:
    desk, chance = embedded_desk, random.Random(62)
    expected: list[str] = []
    stop = threading.Event()

    def arrive() -> None:
        while not stop.is_set():
            ids = [f"{len(expected) + number:06}" for number in range(3)]
            desk.put(*ids)
            expected.extend(ids)
            stop.wait(0.004)

    command = [sys.executable, "-m", "tests.bifrost.publishing_process"]
    arriving = threading.Thread(target=arrive)
    halfway = 0
    with subprocess.Popen(
        [*command, desk.database.url, str(desk.settings.home)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'sdk'}:{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        bufsize=1,
    ) as processes:
        assert processes.stdin is not None
        assert processes.stdout is not None
        arriving.start()
        try:
            for _ in range(KILLS):
                processes.stdin.write("start\n")
                child = int(processes.stdout.readline())
                # Not waiting for anything: the kill may come at any moment.
                stop.wait(chance.uniform(0.02, 0.12))
                os.kill(child, signal.SIGKILL)
                assert processes.stdout.readline() == "dead\n"
                halfway += bool(_open_claims(desk))
                seen = desk.ids()
                assert len(seen) == len(set(seen)), "a reader sees no row twice"
        finally:
            stop.set()
            arriving.join()
            processes.stdin.close()
    assert halfway > 5, "hardly a kill met a publication half-way: the test shows nothing"
    assert desk.ids() == expected
    while desk.waiting():
        desk.publisher.publish(desk.tenant, TICKETS)
    assert desk.ids() == desk.iceberg_ids() == expected
    table = desk.catalogs.table(desk.tenant, TICKETS)
    assert table is not None
    plain = [
        one
        for task in table.scan().plan_files()
        for one in pq.read_table(plain_path(task.file.file_path))["ticket_id"].to_pylist()
    ]
    assert sorted(plain) == expected


def _open_claims(desk: Desk) -> list[str]:
    return desk.database.read_now(
        lambda connection: Outbox(connection, desk.tenant).open_claims(TICKETS.full)
    )
