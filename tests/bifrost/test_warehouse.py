"""Where tables are kept: local files last before they are named, and a bucket may be away for a while."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bifrost.catalog import TenantCatalog
from bifrost.warehouse import Warehouse, plain_path
from store.settings import Settings
from tests.bifrost.conftest import bucket
from tests.bifrost.published import TICKETS, Desk
from tests.conftest import opened
from tests.servers import S3Server
from wyrd.errors import Code, WyrdError


def test_p69_everything_a_commit_names_is_on_the_disk_before_the_commit(
    embedded_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = embedded_desk
    folder = desk.settings.home / "warehouse"
    lasting: set[int] = set()
    plain_sync, plain_swap = os.fsync, TenantCatalog._swap
    looked: list[int] = []

    def synced(descriptor: int) -> None:
        plain_sync(descriptor)
        lasting.add(os.fstat(descriptor).st_ino)

    def swapped(self: Any, *arguments: Any) -> None:
        files = [path for path in folder.rglob("*") if path.is_file()]
        folders = {path.parent for path in folder.rglob("*")}
        assert {path.stat().st_ino for path in files} <= lasting
        assert {path.stat().st_ino for path in folders} <= lasting
        looked.append(len(files))
        plain_swap(self, *arguments)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(TenantCatalog, "_swap", swapped)
    desk.put("a")
    assert desk.publisher.publish(desk.tenant, TICKETS) == 1
    # Two metadata files, a list of manifests, a manifest, and the rows.
    assert looked == [5]


def test_p69_a_folder_may_have_any_name(tmp_path: Path) -> None:
    home = tmp_path / "a home? #1 50% ü"
    home.mkdir()
    database = opened(f"sqlite:///{tmp_path / 'wyrd.db'}")
    desk = Desk(database, home)
    desk.put("a")
    assert desk.publisher.publish(desk.tenant, TICKETS) == 1
    assert desk.ids() == desk.iceberg_ids() == ["a"]
    assert all(Path(path).is_file() for path in desk.cuts.take_now(desk.tenant, [TICKETS])[TICKETS].files)
    desk.close()
    database.close()


def test_p69_a_warehouse_url_that_is_no_bucket_is_refused() -> None:
    with pytest.raises(WyrdError) as raised:
        Warehouse(Settings(warehouse_url="https://example.com/tables"))
    assert raised.value.member is Code.CFG_400_SCHEMA_MISMATCH
    assert plain_path("s3://bucket/key") == "bucket/key"
    assert plain_path("file:///a/b") == "/a/b"


async def test_p64_publishing_goes_on_by_itself_once_the_bucket_is_reachable_again(
    tmp_path: Path, s3: S3Server
) -> None:
    with _Way(s3.endpoint) as way:
        settings = bucket(s3) | {"s3_endpoint": way.endpoint}
        database = opened(f"sqlite:///{tmp_path / 'wyrd.db'}")
        desk = Desk(database, tmp_path, **settings)
        desk.put("before")
        assert await desk.publisher.pass_once(everything=True) == 1
        way.close()
        desk.put("during")
        assert await desk.publisher.pass_once(everything=True) == 0
        assert desk.waiting() == 1
        way.open()
        assert await desk.publisher.pass_once(everything=True) == 1
        assert desk.ids() == desk.iceberg_ids() == ["before", "during"]
        desk.close()
        database.close()


class _Way:
    """The way to a server on loopback, which can be closed and opened again at the same address."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("http://").partition(":")
        self._target = host, int(port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> _Way:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()
        self._ends, self._threads = [], []

    def _start(self) -> None:
        self._run(self._accept, self._listening)

    def _run(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket) -> None:
        for client in _clients(listening):
            server = socket.create_connection(self._target)
            self._ends += [client, server]
            self._run(_carry, client, server)
            self._run(_carry, server, client)


def _clients(listening: socket.socket) -> Iterator[socket.socket]:
    with contextlib.suppress(OSError):
        while True:
            yield listening.accept()[0]


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
