"""Flows: the client's logic as generators that say what they need and never do it themselves.

A flow yields an `Effect` and is sent its outcome; a transport (sync or async) drives it. So each
rule about retries, tokens, waiting and uploads exists once and has no thread or event loop in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from wyrd._client.saving import Save

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileBody:
    """A request body that is streamed from evidence; `size` and `sha256` are what was announced."""

    source: Path | bytes
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Send:
    """Make one HTTP attempt. The outcome is a `Reply`; `Unanswered` is thrown in when there is none.

    `timeout` is in seconds and bounds connecting and each silence of the peer. With `streamed`, the
    body of a 2xx answer is left to be read: `Reply.rest` has it.
    """

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | FileBody | None = None
    timeout: float = 30.0
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """`rest` is the open answer of a streamed request, an `httpx.Response`; whoever takes it closes it."""

    status: int
    headers: dict[str, str]
    body: bytes
    rest: Any = None


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Token:
    """Get the bearer token; `refused` is one that the server has just answered 401 to."""

    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Offload:
    """Run work that blocks on the disk; its return value is the outcome, its exception is thrown in."""

    work: Callable[[], Any]


Effect = Send | Pause | Token | Offload | Save
Flow = Generator[Effect, Any, T]


class Unanswered(Exception):
    """No HTTP answer came back: `timed_out`, or the connection could not be made or broke."""

    def __init__(self, reason: str, *, timed_out: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.timed_out = timed_out
