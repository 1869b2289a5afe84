"""One call of untrusted code: what goes in, what comes out, and how every other end is told."""

from __future__ import annotations

import hashlib
import json
import math
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from activities.sandbox.inside import answer
from engine.failure import BlockFailure, ReasonKind
from wyrd.wire.canonical import JsonRefused, strict_loads

INPUTS_FOLDER = "/inputs"
"""Where a call's files are inside the sandbox."""

MAX_HEAD_BYTES = 256 * 1024
MAX_REPLY_BYTES = MAX_HEAD_BYTES + answer.MAX_VALUE_BYTES
"""More than an honest answer can hold; whoever writes more is cut off."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
_SEED = re.compile(r"[0-9a-f]{1,128}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def path_inside(name: str) -> str:
    """The path under which the file `name` of a call is readable inside the sandbox."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} cannot name a file of a code call")
    return f"{INPUTS_FOLDER}/{name}"


@dataclass(frozen=True, slots=True)
class CodeCall:
    """Run `entrypoint` of `source` with `inputs` as keyword arguments.

    `inputs` holds JSON values only. `files` maps names (letters, digits, `_`, `-`, `.`) to host files; each
    is a read-only file at `Sandbox.path_of(name)` for this call alone. `timeout` is in seconds and counts
    from when the code starts, not from when the call began to wait for a free worker. `seed` is a lower-case
    hex digest; `now` is aware, and is what every clock inside returns. Raises ValueError where a member is
    not of that shape.
    """

    source: str
    entrypoint: str
    timeout: float
    seed: str
    now: datetime
    inputs: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise ValueError("timeout must be a positive number of seconds")
        if _SEED.fullmatch(self.seed) is None:
            raise ValueError("seed must be a lower-case hexadecimal digest")
        if self.now.utcoffset() is None:
            raise ValueError("now must carry a time zone")
        for name in self.files:
            path_inside(name)

    @property
    def nanoseconds(self) -> int:
        """`now` as nanoseconds since 1970."""
        return (self.now - _EPOCH) // timedelta(microseconds=1) * 1000

    @property
    def source_sha256(self) -> str:
        """SHA-256 of the source as UTF-8, in hex. Half a surrogate pair (it never runs) counts as `?`."""
        return hashlib.sha256(self.source.encode("utf-8", "replace")).hexdigest()

    def payload(self) -> bytes:
        """The call as the JSON document that the sandbox reads."""
        document = {
            "source": self.source,
            "entrypoint": self.entrypoint,
            "inputs": dict(self.inputs),
            "seed": self.seed,
            "now": self.nanoseconds,
        }
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


@dataclass(frozen=True, slots=True)
class CodeReply:
    """What the code returned, parsed strictly outside the sandbox, and what ran it.

    `stdout` holds what the code printed (both streams), at most 16 KiB and then a mark that says how much was
    cut.
    """

    value: Any
    stdout: str
    duration_ms: int
    engine: str
    python: str
    source_sha256: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended, as the worker saw it: trusted, but for `reply`, which the code may have written."""

    reply: bytes
    overflowed: bool = False
    timed_out: bool = False
    exit_code: int | None = None
    signal: int | None = None


def _failed(kind: ReasonKind, reason: str, *, retryable: bool = False) -> BlockFailure:
    return BlockFailure(kind, reason, retryable=retryable)


def _killed(number: int, timeout: float) -> BlockFailure:
    if number == signal.SIGXCPU:
        return _failed(ReasonKind.TIMEOUT, f"the code used more than {timeout:g} s of processor time")
    if number == signal.SIGSYS:
        return _failed(
            ReasonKind.SANDBOX_FAILED, "the code made a system call that is forbidden, and was killed"
        )
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return _failed(ReasonKind.SANDBOX_FAILED, f"the code's process was ended by {name}")


def _text(head: dict[str, Any], member: str) -> str:
    value = head.get(member)
    if not isinstance(value, str):
        return "?"
    return value if len(value) <= answer.MAX_MESSAGE + 10 else value[: answer.MAX_MESSAGE] + " [cut]"


def _told(head: dict[str, Any], entrypoint: str) -> BlockFailure:
    """The failure that the inside names. It can only name failures that the code could cause anyhow."""
    kind = head.get("kind")
    line = head.get("line")
    where = f" (line {line})" if type(line) is int else ""
    if kind == answer.RAISED:
        said = _text(head, "message")
        reason = f"{_text(head, 'type')}{where}: {said}" if said else f"{_text(head, 'type')}{where}"
        return _failed(ReasonKind.CODE_FAILED, reason)
    if kind == answer.SYNTAX:
        return _failed(ReasonKind.CODE_FAILED, f"the source is not Python{where}: {_text(head, 'message')}")
    if kind == answer.NO_ENTRYPOINT:
        return _failed(ReasonKind.CODE_FAILED, f"the source defines no function named {entrypoint!r}")
    if kind == answer.NOT_JSON:
        return _failed(ReasonKind.CODE_FAILED, f"the return value is not JSON: {_text(head, 'message')}")
    if kind == answer.TOO_LARGE:
        return _failed(ReasonKind.LIMIT_EXCEEDED, _TOO_LARGE)
    if kind == answer.MEMORY:
        return _failed(ReasonKind.LIMIT_EXCEEDED, "the code used more than 256 MiB of memory")
    if kind == answer.RECURSION:
        return _failed(
            ReasonKind.LIMIT_EXCEEDED, f"the code recursed deeper than {answer.RECURSION_LIMIT} calls{where}"
        )
    return _failed(ReasonKind.CODE_FAILED, "the code wrote an answer of its own that cannot be read")


_TOO_LARGE = f"the return value is over {answer.MAX_VALUE_BYTES // 1024} KiB"


def judged(ending: Ending, call: CodeCall) -> tuple[Any, str]:
    """The returned value and the printed text of a call that ended well.

    Raises `BlockFailure`: TIMEOUT, LIMIT_EXCEEDED, SANDBOX_FAILED, CODE_FAILED. An answer counts only if its
    process ended by itself, in time, and wrote nothing else.
    """
    if ending.overflowed:
        raise _failed(
            ReasonKind.LIMIT_EXCEEDED, "the code wrote more than an answer may hold, and was killed"
        )
    if ending.timed_out:
        raise _failed(ReasonKind.TIMEOUT, f"the code ran longer than {call.timeout:g} s and was killed")
    if ending.signal is not None:
        raise _killed(ending.signal, call.timeout)
    if ending.exit_code != 0 or not ending.reply:
        raise _failed(
            ReasonKind.SANDBOX_FAILED,
            f"the code's process ended without an answer (exit code {ending.exit_code})",
        )
    first, _, rest = ending.reply.partition(b"\n")
    try:
        head = strict_loads(first)
    except JsonRefused:
        head = None
    if not isinstance(head, dict) or not isinstance(head.get("stdout"), str):
        raise _failed(ReasonKind.CODE_FAILED, "the code wrote an answer of its own that cannot be read")
    if head.get("kind") != answer.VALUE:
        raise _told(head, call.entrypoint)
    if len(rest) > answer.MAX_VALUE_BYTES:
        raise _failed(ReasonKind.LIMIT_EXCEEDED, _TOO_LARGE)
    try:
        return strict_loads(rest), head["stdout"]
    except JsonRefused as refused:
        raise _failed(ReasonKind.CODE_FAILED, f"the return value is not JSON: {refused.reason}") from None
