"""Calls with the tests' clock and seed, and a host that notices what happens to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from activities.sandbox import CodeCall, Sandbox
from engine.failure import BlockFailure, ReasonKind

NOW = datetime(2026, 3, 14, 15, 9, 26, 535897, tzinfo=UTC)
SEED = "5eed" * 16


def code(source: str, entrypoint: str = "check", timeout: float = 10, **members: Any) -> CodeCall:
    """A call with the tests' clock and seed."""
    return CodeCall(
        source=source,
        entrypoint=entrypoint,
        timeout=timeout,
        seed=members.pop("seed", SEED),
        now=members.pop("now", NOW),
        **members,
    )


@dataclass(frozen=True)
class Outcome:
    """What came of a call: a value and what was printed, or the kind of failure and its reason."""

    value: Any = None
    stdout: str = ""
    kind: ReasonKind | None = None
    reason: str = ""


async def outcome(sandbox: Sandbox, call: CodeCall) -> Outcome:
    try:
        reply = await sandbox.call(call)
    except BlockFailure as failure:
        return Outcome(kind=failure.kind, reason=failure.reason)
    return Outcome(reply.value, reply.stdout)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other processes do; the test's own time-out ends it."""
    while not condition():  # noqa: ASYNC110 - other processes set no event of ours
        await asyncio.sleep(0.01)


SERVERS = frozenset({"weed", "temporal", "postgres"})
"""What other tests of the same process may have started, and still need; so is the parser of files."""


def processes() -> list[psutil.Process]:
    """Every living process below this one, servers of other tests left out."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            parser = any("extract" in part for part in child.cmdline())
            if child.name() not in SERVERS and not parser:
                found += [child, *child.children(recursive=True)]
    return [process for process in found if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass
class Host:
    """What an attack would change or reach: a folder, a listener, our processes, our descriptors."""

    folder: Path
    port: int
    connections: list[object] = field(default_factory=list)

    @property
    def secret(self) -> Path:
        return self.folder / "secret"

    @property
    def target(self) -> Path:
        return self.folder / "pwned"

    def inputs(self) -> dict[str, Any]:
        return {"port": self.port, "secret": str(self.secret), "target": str(self.target), "pid": os.getpid()}

    def state(self) -> dict[str, object]:
        return {
            "folder": sorted(os.listdir(self.folder)),
            "secret": self.secret.read_text(encoding="utf-8"),
            "mode": self.secret.stat().st_mode,
            "connections": len(self.connections),
            "pwned": [path for path in ("/tmp/pwned", "/pwned", "/dev/shm/pwned") if os.path.lexists(path)],
            "process": (os.getcwd(), psutil.Process().nice()),
        }
