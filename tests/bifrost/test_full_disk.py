"""Publishing to a disk that is full: rows wait where they are, and go on when there is room."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers import PostgresServer

ROOT = Path(__file__).parents[2]
FULL = "WYRD_VALA_507_WAL_DISK_FULL"
_SMALL = 'mount -t tmpfs -o size=3m tmpfs "$1" && shift && exec "$@"'


class Publishing:
    """`tests.bifrost.full_disk_process`, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def told(self, order: str, number: int = 0) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order} {number}\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert found["whole"], "a reader sees every ticket that was taken, once"
        return found


@contextmanager
def publishing(url: str, home: Path, *before: str) -> Iterator[Publishing]:
    with subprocess.Popen(
        [*before, sys.executable, "-m", "tests.bifrost.full_disk_process", url, str(home)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'sdk'}:{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield Publishing(process)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_a_warehouse_that_takes_no_more_leaves_the_rows_where_they_are(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """The system refuses each file of a publication in turn: metadata, rows, manifest, and their list."""
    url = postgres.new_database()
    with publishing(url, tmp_path) as publisher:
        rows = 0
        # A table that is not there yet, one that holds something, and one with several snapshots.
        for _ in range(3):
            publisher.told("put", 2)
            for limit in range(1024, 64 * 1024, 512):
                publisher.told("limit", limit)
                told = publisher.told("publish")
                if told["published"]:
                    break
                assert (told["waiting"], told["in_iceberg"]) == (2, rows)
            rows += 2
            assert limit > 4096, "hardly a file was refused"
            assert (told["published"], told["waiting"], told["in_iceberg"]) == (2, 0, rows)
            publisher.told("limit", -1)
    postgres.drop(url)


def test_a_disk_without_a_byte_left_loses_nothing_that_it_took(tmp_path: Path) -> None:
    """Database, its log and the tables on one file system of 3 MiB, until it is full."""
    small = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _SMALL, "sh", str(tmp_path))
    tried = subprocess.run([*small, "true"], capture_output=True, encoding="utf-8")
    if tried.returncode:
        pytest.skip(f"this machine mounts no file system for its users: {tried.stderr.strip()}")
    with publishing(f"sqlite:///{tmp_path / 'wyrd.db'}", tmp_path, *small) as publisher:
        told = publisher.told("put large", 1000)
        assert told["refusal"] == FULL
        assert told["acknowledged"] == told["waiting"] > 10
        for _ in range(3):
            assert publisher.told("publish")["published"] == 0
            assert publisher.told("put large", 1)["refusal"] == FULL
        publisher.told("room", 64)
        assert publisher.told("put large", 1)["refusal"] == ""
        told = publisher.told("publish")
        assert told["published"] == told["acknowledged"] == told["in_iceberg"]
        assert told["waiting"] == 0
