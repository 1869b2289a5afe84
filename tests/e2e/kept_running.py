"""A Temporal server, an API and a worker over one home, each started again whenever it dies.

As an init system keeps them, without `wyrd up`'s growing pauses: a test that kills one thirty times
would wait for those most of its time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import httpx
import psutil

from wyrd.up.ports import LOOPBACK, Ports
from wyrd.up.rooms import Rooms, temporal_binary, temporal_server

T = TypeVar("T")

# A lease outlives the process that held it: it is waited out, here for two seconds and not for 120. And
# no model is called, so no start loads the library for it, which would take two seconds of a core.
_WORKER = """
from bifrost.scribe import lease
from gateway import library
import worker
lease.LEASE_SECONDS, library.load = 2.0, lambda: None
worker.main()
"""


def eventually(look: Callable[[], T | None], what: str, seconds: float = 60.0) -> T:
    """Poll other processes until they show something; fails when they do not."""
    pause, until = threading.Event(), time.monotonic() + seconds
    while time.monotonic() < until:
        if found := look():
            return found
        pause.wait(0.01)
    raise AssertionError(f"waited {seconds:g} s for {what}")


class Kept(threading.Thread):
    """One command that is kept running until `stop`."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], folder: Path) -> None:
        super().__init__(name=name, daemon=True)
        self._command = command
        self._environment = environment
        self._folder = folder
        self._stopping = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / f"{name}.log"
        self._began = 0
        self.starts = 0

    def run(self) -> None:
        with self._log.open("ab") as log:
            while True:
                with self._lock:
                    if self._stopping:
                        return
                    self._began = self._log.stat().st_size
                    self._process = subprocess.Popen(
                        self._command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=self._environment,
                        cwd=self._folder,
                        start_new_session=True,
                    )
                    self.starts += 1
                self._process.wait()
                # What it left behind in its own session goes with it, as it does with a service.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> bool:
        """SIGKILL; whether there was a process to kill."""
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                return False
            process.kill()
            return True

    def said(self, text: str) -> bool:
        """Whether the process that runs now has written that."""
        with self._lock, self._log.open("rb") as log:
            log.seek(self._began)
            return text.encode() in log.read()

    def children(self, mark: str) -> list[psutil.Process]:
        """The children of the process whose command lines hold `mark`."""
        process, found = self._process, []
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid if process else 0).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if any(mark in part for part in child.cmdline()):
                        found.append(child)
        return found

    def stop(self) -> int:
        """Its exit code when it is asked to stop."""
        with self._lock:
            self._stopping = True
            process = self._process
        if process is None:
            return 0
        process.terminate()
        try:
            return process.wait(30)
        finally:
            process.kill()
            self.join()


class Pace:
    """Counts what is sent, and lets no sender run ahead of a kill: each happens among requests."""

    AHEAD = 6

    def __init__(self, places: list[int]) -> None:
        self._places = places
        self._sent = self._killed = 0
        self._moved = threading.Condition()

    def send(self) -> None:
        with self._moved:
            self._sent += 1
            self._moved.notify_all()
            assert self._moved.wait_for(lambda: self._sent < self._next + self.AHEAD, 120), "no kill came"

    @property
    def _next(self) -> int:
        return self._places[self._killed] if self._killed < len(self._places) else sys.maxsize

    def await_place(self) -> None:
        """Until so much was sent that the next kill is due."""
        with self._moved:
            assert self._moved.wait_for(lambda: self._sent >= self._next, 120), "nothing is sent any more"

    def killed(self) -> None:
        with self._moved:
            self._killed += 1
            self._moved.notify_all()


class Service:
    """What the three processes are, and where."""

    def __init__(self, home: Path, url: str, temporal: Kept, api: Kept, worker: Kept) -> None:
        self.home = home
        self.url = url
        self.temporal = temporal
        self.api = api
        self.worker = worker

    @property
    def key(self) -> str:
        return (self.home / "dev-key").read_text(encoding="utf-8").strip()

    def client(self, seconds: float = 20.0) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=seconds, trust_env=False)

    def ready(self) -> bool:
        try:
            return bool(httpx.get(f"{self.url}/readyz", timeout=5.0, trust_env=False).status_code == 200)
        except httpx.HTTPError:
            return False

    def ask_sql(self, sql: str) -> list[tuple[object, ...]]:
        """Rows of the service's own database, which is SQLite."""
        with contextlib.closing(sqlite3.connect(f"file:{self.home / 'wyrd.db'}?mode=ro", uri=True)) as found:
            return found.execute(sql).fetchall()

    def told(self) -> str:
        """The ends of the logs, for a failure that has to explain itself."""
        ends = (path.read_text(encoding="utf-8", errors="replace")[-3000:] for path in self.logs)
        return "\n".join(ends)

    @property
    def logs(self) -> list[Path]:
        return sorted(self.home.parent.glob("*.log"))


@contextmanager
def kept_running(folder: Path, **settings: str) -> Iterator[Service]:
    """A service that is ready; `settings` are added to its environment."""
    rooms, ports, home = Rooms.find(), Ports(), folder / "home"
    port, temporal_port = ports.any(), ports.any()
    url = f"http://{LOOPBACK}:{port}"
    environment = rooms.environment(
        {
            "WYRD_HOME": str(home),
            "WYRD_HOST": LOOPBACK,
            "WYRD_PORT": str(port),
            "WYRD_GRPC_PORT": str(ports.any()),
            "WYRD_TEMPORAL_ADDRESS": f"{LOOPBACK}:{temporal_port}",
            "WYRD_DEV_KEY": "true",
            **settings,
        }
    )
    # What they compile of our modules is kept, or every one of their many starts would compile it anew.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    database = folder / "temporal.db"
    server = temporal_server(temporal_binary(), LOOPBACK, temporal_port, ports.any(), database)
    temporal = Kept("temporal", server, environment, folder)
    api = Kept("api", rooms.serve(LOOPBACK, port), environment, folder)
    worker = Kept("worker", [sys.executable, "-c", _WORKER], environment, folder)
    service = Service(home, url, temporal, api, worker)
    try:
        temporal.start()
        eventually(lambda: _listens(temporal_port), "the Temporal server")
        api.start()
        eventually(service.ready, "the API")
        worker.start()
        yield service
        codes = {kept.name: kept.stop() for kept in (worker, api)}
        # uvicorn stops in order, and then ends by the signal that told it to.
        assert set(codes.values()) <= {0, -signal.SIGTERM}, (codes, service.told())
    finally:
        for kept in (worker, api, temporal):
            if kept.is_alive():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    kept.stop()


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1.0).close()
    except OSError:
        return False
    return True
