"""A peer that speaks the API, and an environment without credentials of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.bundled import Bundled, stored_bundle
from tests.sdk.peer import KEY, Peer, running
from wyrd.client import WyrdClient
from wyrd.registry import Cards

_VARIABLES = ("WYRD_SERVER_URL", "WYRD_GRPC_URL", "WYRD_ACCESS_TOKEN", "WYRD_API_KEY", "WYRD_HOME")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No variables, an empty home, an empty working directory."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "user-home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return home


@pytest.fixture
def peer() -> Iterator[Peer]:
    with running() as one:
        yield one


@pytest.fixture
def client(peer: Peer) -> Iterator[WyrdClient]:
    with WyrdClient(peer.url, KEY) as one:
        yield one


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port that is bound, so that nobody else gets it, and refuses connections."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(scope="session")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundled, Path]:
    """A bundle, pulled once, with what is in it. Tests that change it change a copy."""
    folder = tmp_path_factory.mktemp("pulled") / "bundle"
    with running() as one, WyrdClient(one.url, KEY) as client:
        stored = stored_bundle(one)
        Cards(client).pull(stored.ref, folder)
    return stored, folder
