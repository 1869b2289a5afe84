"""One query process as the service sees it: started, spoken to, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from pathlib import Path
from typing import Any, Final

from bifrost.oracle.channel import DOCUMENT, HEAD, MAX_FRAME, document
from wyrd.wire.canonical import strict_loads

_ROOMS: Final = Path(__file__).resolve().parent.parent.parent
_READ_AHEAD: Final = 1024 * 1024
"""Bytes read ahead of the client; a query waits when its client takes no more."""
_STOP_SECONDS: Final = 2.0

# Libraries are found by their path alone, and two arenas keep the address space for the query.
_ENVIRONMENT: Final = {
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

_BOOT: Final = (
    "import sys; n = int(sys.argv[3]); sys.path[:] = sys.argv[4:4 + n]; "
    "from bifrost.oracle import worker; worker.main(int(sys.argv[1]), int(sys.argv[2]))"
)


def _library_paths() -> list[str]:
    return [os.path.abspath(path) for path in (str(_ROOMS), *sys.path)]


class Lost(Exception):
    """The process ended, or speaks what it should not."""


class QueryProcess:
    """A process that is ready for one query, and for the next one when that ended well."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls) -> QueryProcess:
        """A process that said it is ready. Raises `Lost`."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        paths = _library_paths()
        arguments = (str(theirs.fileno()), str(os.getpid()), str(len(paths)), *paths)
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, *arguments),
                    pass_fds=(theirs.fileno(),),
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    stderr=DEVNULL,
                    env={**_ENVIRONMENT, **kept},
                    cwd="/",
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise Lost from None
        reader, writer = await asyncio.open_connection(sock=ours, limit=_READ_AHEAD)
        started = cls(process, reader, writer)
        try:
            kind, found = await started.receive()
            if kind != DOCUMENT or found.get("is") != "ready":
                raise Lost
        except BaseException:
            # It may be dead already: that it was killed is a reason to be here.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(started.end())
            raise
        return started

    @property
    def alive(self) -> bool:
        return self._ending is None and self._process.returncode is None and not self._reader.at_eof()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, *frames: bytes) -> None:
        """Raises `Lost`."""
        try:
            for frame in frames:
                self._writer.write(frame)
                await self._writer.drain()
        except OSError:
            raise Lost from None

    async def receive(self) -> tuple[int, Any]:
        """The next frame: a document, or bytes. Raises `Lost`."""
        try:
            length, kind = HEAD.unpack(await self._reader.readexactly(HEAD.size))
            if length > MAX_FRAME:
                raise Lost
            payload = await self._reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            raise Lost from None
        return kind, strict_loads(payload) if kind == DOCUMENT else payload

    def wake(self, why: Exception) -> None:
        """Whoever waits for a frame gets this instead, and so does whoever asks for one later."""
        self._reader.set_exception(why)

    async def end(self) -> None:
        """Ask it to stop; kill it when it has not. Returns when it is gone."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        try:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    self._writer.write(document("stop"))
                    # What it still has to say is not read: its pipe may be full, and closing ours
                    # is what makes it stop then.
                    self._writer.write_eof()
                    await self._process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._writer.close()
            with contextlib.suppress(Exception):
                await self._writer.wait_closed()
