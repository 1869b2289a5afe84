"""The sandbox as the rest of the worker process sees it: choose an engine, prove it, keep a pool of its
workers.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Literal

from activities.folder import Folder
from activities.sandbox import bubblewrap, wasm
from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.call import CodeCall, CodeReply, path_inside
from activities.sandbox.selftest import breaches
from activities.sandbox.wasm import Wasm
from activities.sandbox.worker import Wall, Worker, WorkerLost
from engine.failure import BlockFailure, ReasonKind

Engine = Literal["bubblewrap", "wasmtime", "none"]

CALLS_PER_WORKER = 1000
"""After so many calls a worker is replaced, so that nothing that grows in it grows for ever."""


class Sandbox:
    """Start with `Sandbox.start`, end with `close`. Belongs to the event loop it was started on, whose thread
    must outlive it: the sandboxed processes die with that thread, however it ends.

    `engine` is what runs code here ("none": nothing does, and `unavailable` says why); `python_version` is
    the version the code sees.
    """

    engine: Engine
    unavailable: str
    python_version: str

    def __init__(self, engine: Engine, unavailable: str, python_version: str) -> None:
        self.engine = engine
        self.unavailable = unavailable
        self.python_version = python_version
        self._wall: Wall | None = None
        self._folder: Folder | None = None
        # None stands for a place whose worker could not be started; whoever takes it tries again.
        self._free: asyncio.Queue[Worker | None] = asyncio.Queue()
        self._workers: set[Worker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @classmethod
    async def start(
        cls,
        *,
        workers: int | None = None,
        allow_wasm: bool = True,
        walls: Sequence[Wall | type[Bubblewrap] | type[Wasm]] | None = None,
    ) -> Sandbox:
        """Try the engines in order and keep the first that withstands the self-test.

        `workers` is how many calls run at once, by default one a core and at least two. `allow_wasm=False`
        leaves only bubblewrap. `walls` names the engines to try instead, in order. Never raises for want of
        an engine: then `engine` is "none" and every call raises SANDBOX_UNAVAILABLE.
        """
        places = workers if workers is not None else max(2, len(os.sched_getaffinity(0)))
        if places < 1:
            raise ValueError("workers must be at least 1")
        if walls is None:
            walls = (Bubblewrap, Wasm) if allow_wasm else (Bubblewrap,)
        refusals = []
        for candidate in walls:
            try:
                return await cls._proven(candidate, places)
            except (WorkerLost, BlockFailure, OSError) as refused:
                refusals.append(str(refused))
        return cls("none", "no sandbox works here: " + "; ".join(refusals), "")

    @classmethod
    async def _proven(cls, candidate: Wall | type[Bubblewrap] | type[Wasm], places: int) -> Sandbox:
        folder = Folder(bubblewrap.unprivileged())
        sandbox = cls("none", "", "")
        sandbox._folder = folder
        try:
            wall = await candidate.prepare(folder) if isinstance(candidate, type) else candidate
            sandbox._wall = wall
            first = await sandbox._new()
            sandbox._free.put_nowait(first)
            sandbox.engine = "wasmtime" if wall.name == wasm.NAME else "bubblewrap"
            version, found = await breaches(sandbox.call, folder)
            if found:
                raise WorkerLost(f"{wall.name} failed its self-test: {'; '.join(found)}")
            sandbox.python_version = version
            for worker in await asyncio.gather(*(sandbox._new() for _ in range(places - 1))):
                sandbox._free.put_nowait(worker)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    @staticmethod
    def path_of(name: str) -> str:
        """The path at which the file `name` of a call is readable inside the sandbox.

        Raises ValueError for a name that is not made of letters, digits, `_`, `-` and `.`.
        """
        return path_inside(name)

    async def call(self, code: CodeCall) -> CodeReply:
        """Run one call on a free worker, waiting for one if need be.

        Raises `BlockFailure`. CODE_FAILED: an exception (its type, line and message), no such function, not
        Python, a return value that is not JSON. TIMEOUT. LIMIT_EXCEEDED: memory, recursion, the size of the
        return value. EVIDENCE_UNREADABLE: a file is gone. SANDBOX_FAILED: the process was killed for what it
        did, or died. SANDBOX_UNAVAILABLE: nothing here can run code safely.
        """
        if self._wall is None or self._closed:
            raise BlockFailure(ReasonKind.SANDBOX_UNAVAILABLE, self.unavailable or "the sandbox is closed")
        worker = await self._taken()
        started = time.monotonic()
        try:
            value, stdout = await worker.run(code)
        finally:
            self._put_back(worker)
        return CodeReply(
            value=value,
            stdout=stdout,
            duration_ms=round((time.monotonic() - started) * 1000),
            engine=self.engine,
            python=self.python_version,
            source_sha256=code.source_sha256,
        )

    async def close(self) -> None:
        """Kill what runs, delete what lies about. Calls in flight end with SANDBOX_FAILED."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in list(self._workers):
            await worker.stop()
        self._workers.clear()
        self._free.put_nowait(None)
        if self._folder is not None:
            await asyncio.to_thread(self._folder.remove)

    async def _new(self) -> Worker:
        assert self._wall is not None
        assert self._folder is not None
        worker = await Worker.start(self._wall, self._folder)
        if self._closed:
            await worker.stop()
            raise WorkerLost("the sandbox is closed")
        self._workers.add(worker)
        return worker

    async def _taken(self) -> Worker:
        while True:
            worker = await self._free.get()
            if self._closed:
                self._free.put_nowait(None)  # for the next in the queue
                raise BlockFailure(ReasonKind.SANDBOX_UNAVAILABLE, "the sandbox is closed")
            if worker is None:
                return await self._filled()
            if worker.alive:
                return worker
            self._retire(worker)  # killed while it waited, by no call's fault

    async def _filled(self) -> Worker:
        """A worker for a vacant place. The place stays vacant where none starts."""
        try:
            return await self._new()
        except BaseException as error:
            self._free.put_nowait(None)
            if isinstance(error, WorkerLost | OSError):
                raise BlockFailure(ReasonKind.SANDBOX_FAILED, str(error), retryable=True) from None
            raise

    def _put_back(self, worker: Worker) -> None:
        if self._closed:
            return
        if worker.lost or worker.calls >= CALLS_PER_WORKER:
            self._retire(worker)
        else:
            self._free.put_nowait(worker)

    def _retire(self, worker: Worker) -> None:
        task = asyncio.get_running_loop().create_task(self._replace(worker))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, worker: Worker) -> None:
        """Put a new worker in the old one's place, or a vacancy where none starts."""
        successor: Worker | None = None
        try:
            successor = await self._new()
        except (WorkerLost, OSError):
            successor = None
        finally:
            self._free.put_nowait(successor)
            await worker.stop()
            self._workers.discard(worker)
