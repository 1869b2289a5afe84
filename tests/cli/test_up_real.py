"""`wyrd up` with the real Temporal server, API and worker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import wyrd
from wyrd import Cards, WyrdClient

SDK = Path(wyrd.__file__).resolve().parents[1]
TRAP = "raise SystemExit('an application\\'s own module was taken for the server\\'s')\n"


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WYRD_")}
    return {**kept, "PYTHONPATH": str(SDK)}


def _up(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "wyrd.cli", "up", "--format", "json", *arguments],
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _document(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The document it prints when it is ready, read up to its closing brace."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            found: dict[str, Any] = json.loads("".join(lines))
            return found
    _out, err = process.communicate()
    raise AssertionError(f"wyrd up ended with {process.returncode}: {err}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of an application whose modules are named like our rooms."""
    for name in ("worker.py", "api/__init__.py", "api/main.py", "store.py", "temporalio.py"):
        path = tmp_path / "application" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TRAP, encoding="utf-8")
    return tmp_path / "application"


@pytest.fixture
def stack(folder: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    process = _up(folder, "--port", "0", "--home", "home")
    try:
        yield process, _document(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_it_runs_everything_and_leaves_nothing_behind(
    folder: Path, stack: tuple[subprocess.Popen[str], dict[str, Any]]
) -> None:
    process, document = stack
    assert document["ready"] is True
    assert Path(document["home"]) == folder / "home"
    assert httpx.get(f"{document['api']}/readyz", trust_env=False).status_code == 200
    assert httpx.get(document["docs"], trust_env=False).status_code == 200
    assert httpx.get(document["temporal_ui"], trust_env=False, follow_redirects=True).status_code == 200
    grpc_port = document["grpc"].rpartition(":")[2]
    socket.create_connection(("127.0.0.1", int(grpc_port))).close()
    key = Path(document["dev_key_file"])
    assert key.stat().st_mode & 0o077 == 0
    with WyrdClient(document["api"], key.read_text(encoding="utf-8")) as client:
        assert Cards(client).list().items == []

    second = _up(folder, "--home", "home")
    out, err = second.communicate(timeout=60)
    assert (second.returncode, out) == (1, "")
    refusal = json.loads(err)
    assert refusal["code"] == "WYRD_SPEC_409_CONFLICT"
    assert refusal["details"] == {
        "field": "home",
        "home": str(folder / "home"),
        "pid": process.pid,
        "api": document["api"],
    }

    port = document["api"].rpartition(":")[2]
    third = _up(folder, "--home", "other", "--port", port)
    out, err = third.communicate(timeout=60)
    assert third.returncode == 64
    assert json.loads(err)["details"]["field"] == "--port"

    fourth = _up(folder, "--home", "other", "--port", "0", "--grpc-port", grpc_port)
    out, err = fourth.communicate(timeout=60)
    assert fourth.returncode == 64
    assert json.loads(err)["details"]["field"] == "--grpc-port"

    alone = subprocess.run(
        [sys.executable, "-m", "wyrd.cli", "serve"],
        cwd=folder,
        env={**_environment(), "WYRD_GRPC_PORT": grpc_port, "WYRD_HOME": "other"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert alone.returncode == 1
    assert "WYRD_GRPC_PORT" in alone.stderr
    assert "Traceback" not in alone.stderr

    children = psutil.Process(process.pid).children(recursive=True)
    assert {"temporal"} < {child.name() for child in children}
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=90)
    assert (process.returncode, err) == (0, "")
    _gone, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


def test_killing_it_kills_its_servers(stack: tuple[subprocess.Popen[str], dict[str, Any]]) -> None:
    process, _document = stack
    servers = psutil.Process(process.pid).children(recursive=True)
    assert len(servers) >= 3
    process.kill()
    _gone, alive = psutil.wait_procs(servers, timeout=30)
    assert alive == []
