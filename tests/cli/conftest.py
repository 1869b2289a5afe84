"""The command line in this process, with a peer to talk to and no credentials of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.peer import KEY, Peer, running
from wyrd.cli.app import run


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.err)
        return found


Command = Callable[..., Said]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "WYRD_SERVER_URL",
        "WYRD_ACCESS_TOKEN",
        "WYRD_API_KEY",
        "WYRD_HOME",
        "WYRD_PORT",
        "WYRD_HOST",
    ):
        monkeypatch.delenv(name, raising=False)
    home, work = tmp_path / "user-home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    with running() as one:
        monkeypatch.setenv("WYRD_SERVER_URL", one.url)
        monkeypatch.setenv("WYRD_API_KEY", KEY)
        yield one


@pytest.fixture
def wyrd(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run one command line; its exit code and what it printed."""

    def command(*arguments: str) -> Said:
        capsys.readouterr()
        code = run(arguments)
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return command
