"""The parent's side of the zygote: start it, hand it a file, wait for the answer, have it killed."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from activities.extract import limits
from activities.extract.framing import ANSWER_LENGTH, REQUEST_LENGTH, STARTED, STATUS
from engine.failure import BlockFailure, ReasonKind

_BOOT = (
    "import sys; count = int(sys.argv[3]); sys.path[:] = sys.argv[4:4 + count]; "
    "from activities.extract.zygote import main; main()"
)
_READ = 1 << 20
_KILL_SECONDS = 5.0
_CROWDED_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Answer:
    """What a child wrote (UTF-8 JSON, unchecked) and how long it took, in milliseconds."""

    content: bytes
    duration_ms: int


async def ask(request: dict[str, Any], *, timeout: float) -> Answer:
    """Have one file parsed by a process of its own, within `timeout` seconds of its start.

    Raises TIMEOUT, EVIDENCE_UNREADABLE when the parser dies on the file, WORKER_LOST (retryable)
    when no process came to be. The process is dead when this returns, raises or is cancelled.
    """
    message = json.dumps(request | {"timeout": timeout}).encode("utf-8")
    reader, writer = await _open_stream()
    try:
        writer.write(REQUEST_LENGTH.pack(len(message)) + message)
        try:
            async with asyncio.timeout(limits.START_SECONDS):
                await reader.readexactly(len(STARTED))
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            raise _lost() from None
        began = time.monotonic()
        content = bytearray()
        try:
            async with asyncio.timeout(timeout):
                await _read_to_end(reader, content)
        except TimeoutError:
            await _end(reader, writer)
            raise _timed_out(timeout) from None
        except OSError:
            raise _lost() from None
        return Answer(_unframe(bytes(content), timeout), round((time.monotonic() - began) * 1000))
    finally:
        # Closing our end is what has the child killed, should it still live.
        writer.transport.abort()


async def _open_stream() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            await _ZYGOTE.send(theirs)
        return await asyncio.open_unix_connection(sock=ours, limit=_READ)
    except BaseException:
        ours.close()
        raise


async def _read_to_end(reader: asyncio.StreamReader, content: bytearray) -> None:
    most = limits.OUTPUT_BYTES + ANSWER_LENGTH.size + STATUS.size
    while piece := await reader.read(_READ):
        content += piece
        if len(content) > most:
            raise BlockFailure(ReasonKind.LIMIT_EXCEEDED, "the answer about the file is over the limit")


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Have the child killed and see it dead, so that a caller may rely on it."""
    with contextlib.suppress(TimeoutError, OSError):
        writer.write_eof()
        async with asyncio.timeout(_KILL_SECONDS):
            while await reader.read(_READ):
                pass


def _unframe(content: bytes, timeout: float) -> bytes:
    if len(content) < STATUS.size:
        raise _lost()
    (status,) = STATUS.unpack_from(content, len(content) - STATUS.size)
    answer = content[: -STATUS.size]
    if status == 0 and len(answer) >= ANSWER_LENGTH.size:
        (length,) = ANSWER_LENGTH.unpack_from(answer)
        if length == len(answer) - ANSWER_LENGTH.size:
            return answer[ANSWER_LENGTH.size :]
    code = os.waitstatus_to_exitcode(status)
    if code in (-signal.SIGXCPU, -signal.SIGALRM):
        raise _timed_out(timeout)
    how = signal.Signals(-code).name if -code in signal.valid_signals() else f"exit code {code}"
    raise BlockFailure(ReasonKind.EVIDENCE_UNREADABLE, f"the parser died on the file ({how})")


def _timed_out(timeout: float) -> BlockFailure:
    return BlockFailure(ReasonKind.TIMEOUT, f"reading the file took longer than {timeout:g} s")


def _lost() -> BlockFailure:
    return BlockFailure(ReasonKind.WORKER_LOST, "the process that reads files was lost", retryable=True)


class _ZygoteProcess:
    """This process's one zygote, started when first needed and again when it was lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0

    async def send(self, stream: socket.socket) -> None:
        """Give a stream to the zygote. Raises WORKER_LOST when none can be started."""
        deadline = time.monotonic() + limits.START_SECONDS
        for attempt in (1, 2):
            control = self._control if self._alive() else await asyncio.to_thread(self._running)
            assert control is not None
            try:
                while not _sent(control, stream):
                    # A burst while it still starts: its queue has room again in a moment.
                    if time.monotonic() > deadline:
                        raise _lost()
                    await asyncio.sleep(_CROWDED_SECONDS)
                return
            except OSError:
                await asyncio.to_thread(self._discard, control)
                if attempt == 2:
                    raise _lost() from None

    def stop(self) -> None:
        """End the zygote and its children, if this process started one."""
        with self._lock:
            self._forget()

    def _alive(self) -> bool:
        # After a fork the parent's zygote is not ours to use.
        return self._owner == os.getpid() and self._process is not None and self._process.poll() is None

    def _running(self) -> socket.socket:
        with self._lock:
            if self._owner != os.getpid():
                self._process, self._control, self._owner = None, None, os.getpid()
            if not self._alive():
                self._forget()
                self._start()
            assert self._control is not None
            return self._control

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        paths = [os.path.abspath(path) for path in sys.path]
        arguments = [str(theirs.fileno()), str(os.getpid()), str(len(paths)), *paths]
        # Library folders only: a parser has no business with keys, tokens or proxies.
        environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, *arguments],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=environment,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise _lost() from None
        self._control = ours

    def _discard(self, control: socket.socket) -> None:
        with self._lock:
            if self._control is control:
                self._forget()

    def _forget(self) -> None:
        if self._owner != os.getpid():
            return
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._control, self._process = None, None


def _sent(control: socket.socket, stream: socket.socket) -> bool:
    try:
        return socket.send_fds(control, [b"\0"], [stream.fileno()]) == 1
    except BlockingIOError:
        return False


_ZYGOTE = _ZygoteProcess()
atexit.register(_ZYGOTE.stop)
