"""The process that runs queries: `python -m bifrost.oracle.worker DESCRIPTOR PARENT`.

It holds no secret but what its storage needs, has no environment, writes no file, and ends with
the service. It is given up after anything that did not end well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import resource
import signal
import socket
import sys
import threading
from typing import Any, Final

import orjson
import pyarrow as pa

from bifrost.oracle.channel import ARROW, DOCUMENT, HEAD, PIECE_BYTES, ROWS, document, framed, unpacked
from bifrost.oracle.database import Broken, Database, OutOfMemory, Stopped
from bifrost.oracle.shapes import Refused

_PR_SET_PDEATHSIG: Final = 1
_MORE_BYTES: Final = 2 * 1024**3
"""Address space beyond what the process has when it starts."""


class Gone(Exception):
    """The service closed the channel."""


def confine(parent: int) -> None:
    """Bound the process for its whole life, before it is given anything to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with (
            contextlib.suppress(OSError),
            open("/proc/self/oom_score_adj", "w", encoding="ascii") as score,
        ):
            score.write("1000")
        with open("/proc/self/statm", encoding="ascii") as sizes:
            now = int(sizes.read().split()[0]) * resource.getpagesize()
        _lower(resource.RLIMIT_AS, now + _MORE_BYTES)
    # It may have ended before we asked to end with it.
    if os.getppid() != parent:
        os._exit(1)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(kind: int, limit: int) -> None:
    _, ceiling = resource.getrlimit(kind)
    if ceiling != resource.RLIM_INFINITY:
        limit = min(limit, ceiling)
    # macOS refuses some of them; deadlines and the engine's own limit still hold there.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (limit, limit))


class Worker:
    """Takes one query after the other, each with a database of its own."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._inbox: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._database = Database()

    def serve(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        self._send(document("ready"))
        while True:
            kind, payload = self._inbox.get()
            asked = orjson.loads(payload) if kind == DOCUMENT else {}
            if asked.get("is") != "ask":
                raise Gone
            if not self._answer(asked):
                return
            # The next query's database is made while nobody waits for it.
            self._database.close()
            self._database = Database()

    def _listen(self) -> None:
        """Frames come in on a thread of their own: one may say that the query is to stop."""
        try:
            while True:
                length, kind = HEAD.unpack(self._exactly(HEAD.size))
                payload = self._exactly(length)
                if kind == DOCUMENT and orjson.loads(payload).get("is") == "stop":
                    self._database.interrupt()
                else:
                    self._inbox.put((kind, payload))
        finally:
            # The service is gone or wants no more of this process. No destructor is waited for.
            os._exit(0)

    def _exactly(self, length: int) -> bytes:
        parts: list[bytes] = []
        while length:
            part = self._stream.recv(min(length, 1 << 20))
            if not part:
                raise Gone
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _send(self, frame: bytes) -> None:
        self._stream.sendall(frame)

    def _answer(self, asked: dict[str, Any]) -> bool:
        """Whether the process may take another query."""
        try:
            self._run(asked["sql"], [unpacked(value) for value in asked["params"]])
        except Refused as refused:
            self._send(document("refused", why=str(refused)))
        except OutOfMemory:
            self._send(document("memory"))
            return False
        except Stopped:
            self._send(document("stopped"))
            return False
        except Broken as broken:
            self._send(document("broken", where=broken.where))
            return False
        return True

    def _run(self, sql: str, values: list[Any]) -> None:
        database = self._database
        tables = database.passed(sql, len(values)).tables
        self._send(document("tables", tables=tables))
        for schema, name in tables:
            cut = orjson.loads(self._inbox.get()[1])
            if cut["is"] != "cut":
                # There is no such table: nothing is run.
                return
            database.add(schema, name, cut, self._inbox.get()[1])
        database.lock()
        schema, batches = database.run(sql, values)
        self._send(framed(ARROW, schema.serialize().to_pybytes()))
        rows = 0
        for batch in batches:
            for piece in pieces(batch):
                rows += piece.num_rows
                self._send(framed(ARROW, ROWS.pack(piece.num_rows) + piece.serialize().to_pybytes()))
        self._send(document("end", rows=rows))


def pieces(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """A batch in parts of about `PIECE_BYTES`."""
    if not batch.num_rows:
        return []
    step = max(1, batch.num_rows * PIECE_BYTES // max(1, batch.nbytes))
    return [batch.slice(start, step) for start in range(0, batch.num_rows, step)]


def main(descriptor: int, parent: int) -> None:
    stream = socket.socket(fileno=descriptor)
    worker = Worker(stream)
    confine(parent)
    try:
        worker.serve()
    except (Gone, BrokenPipeError, ConnectionResetError):
        pass
    except MemoryError:
        with contextlib.suppress(OSError, MemoryError):
            stream.sendall(document("memory"))
    # Not by way of destructors: they may need memory that is not there.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
