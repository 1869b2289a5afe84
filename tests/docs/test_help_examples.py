"""The example of each command's `--help` works as it stands against a fresh `wyrd up`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import typer

from tests.docs.fences import ROOT
from tests.docs.stack import running
from wyrd.cli.app import app

SERVERS = ("up", "serve", "worker")
ORDER = (
    *("declare", "get", "list", "latest", "verify", "submit"),
    *("executions list", "executions show", "executions wait", "executions cancel"),
    *("query", "tables list", "tables show", "pull"),
    *("bindings list", "bindings show", "bindings run-now", "bindings backfill"),
    *("keys issue", "keys list", "keys revoke"),
    *("operator-connection create", "operator-connection list", "operator-connection get"),
    *("operator-connection disable", "operator-connection update"),
    *("cards deactivate", "cards reactivate", "delete", "mcp proxy"),
)
"""As a reader would try them: what one needs, another has made before."""

PREPARED = {
    # No Service of the other examples has a schedule.
    "bindings show": "echo words > answers.csv && seq 200 >> answers.csv"
    " && wyrd declare examples/support_desk/watch/desk-watch.yaml"
    " --file support/Data/approved-answers=answers.csv"
}
"""What a reader would have done before."""

PRINTS = {
    "query": "passed",
    "tables list": "vala.datasets.tickets",
    "tables show": "evidence_digests",
    "bindings list": "verify and submit",
    "bindings show": "schedule",
    "verify": "verdict: passed",
    "submit": "verdict: passed",
    "executions show": "Temporal UI",
    "executions wait": "verdict: passed",
    "keys revoke": "is revoked",
    "operator-connection create": "pager_duty",
    "operator-connection disable": "is disabled",
    "operator-connection update": "active",
    "cards reactivate": "is active",
    "delete": "deleted",
    "mcp proxy": "cards.get",
}


def examples(command: Any = None, name: str = "") -> Iterator[tuple[str, str]]:
    command = command or typer.main.get_command(app)
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command.epilog
        return
    for child, nested in children.items():
        yield from examples(nested, f"{name} {child}".strip())


def test_every_command_is_tried_here() -> None:
    assert sorted(name for name, _ in examples()) == sorted([*SERVERS, *ORDER])


def test_the_examples_work_one_after_the_other(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    found = dict(examples())
    with running(tmp_path / "home") as environment:
        for name in ORDER:
            if name in PREPARED:
                subprocess.run(["sh", "-c", PREPARED[name]], cwd=tmp_path, env=environment, check=True)
            done = subprocess.run(
                ["sh", "-c", found[name]],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=100,
                check=False,
            )
            assert done.returncode == 0, f"$ {found[name]}\n{done.stdout}{done.stderr}"
            assert done.stderr == ""
            assert PRINTS.get(name, "") in done.stdout, f"$ {found[name]}\n{done.stdout}"


@contextlib.contextmanager
def started(line: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WYRD_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        ["sh", "-c", re.sub(r"\bwyrd ", "exec wyrd ", line)],
        cwd=folder,
        env={**kept, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def wait_until_ready(url: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 90
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        time.sleep(0.2)
    process.terminate()
    raise AssertionError(process.communicate()[0])


def test_the_examples_that_start_servers_start_them(tmp_path: Path) -> None:
    found = dict(examples())
    ports = {}
    for asked in ("8080", "8081", "50052", "7233"):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            ports[asked] = str(one.getsockname()[1])
    lines = {name: re.sub(r"\b\d{4,5}\b", lambda it: ports[it.group()], found[name]) for name in SERVERS}
    with started(lines["up"], tmp_path) as up:
        wait_until_ready(f"http://127.0.0.1:{ports['8080']}", up)
        with started(lines["serve"], tmp_path) as serve, started(lines["worker"], tmp_path) as worker:
            wait_until_ready(f"http://127.0.0.1:{ports['8081']}", serve)
            assert worker.poll() is None
    assert up.returncode == 0
