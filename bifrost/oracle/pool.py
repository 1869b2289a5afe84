"""The query processes of one service: so many at once, one ahead, and a short queue before them.

A place is free again only when the process that had it is back or gone, so what is stopped never
runs beside what comes next. Among those that wait, the tenant with the fewest queries running is next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Final

from bifrost.oracle.process import Lost, QueryProcess
from wyrd.errors import Code, WyrdError

QUEUE_PER_PLACE: Final = 8
_MOST_QUERIES: Final = 200
"""Queries that one process runs before a new one takes its place."""


class Pool:
    """At most `places` queries at once."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._idle: list[QueryProcess] = []
        self._served: Counter[int] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._closed = False

    async def take(self, tenant: str) -> QueryProcess:
        """A process for one query of a tenant; `give` or `discard` it after.

        Raises `WYRD_VALA_429_QUERY_QUEUE_FULL`, and `Lost` when no process can be started.
        """
        await self._place(tenant)
        try:
            process = None
            while self._idle and process is None:
                # The one that came back first: the last one may still be making its next engine.
                process = self._idle.pop(0)
                if not process.alive:
                    self._aside(process.end())
                    process = None
            if process is None:
                process = await QueryProcess.start()
            self.ahead()
            return process
        except BaseException:
            self._free(tenant)
            raise

    def give(self, tenant: str, process: QueryProcess) -> None:
        """The query ended well: the process may take another."""
        self._served[process.pid] += 1
        if self._closed or not process.alive or self._served[process.pid] >= _MOST_QUERIES:
            self.discard(tenant, process)
            return
        self._idle.append(process)
        self._free(tenant)

    def discard(self, tenant: str, process: QueryProcess) -> None:
        """The process is not used again."""
        self._aside(self._ended(tenant, process))

    def ahead(self) -> None:
        """Have one process ready that nobody waits for yet."""
        if not self._idle and not self._starting and not self._closed:
            self._starting += 1
            self._aside(self._start())

    async def close(self) -> None:
        self._closed = True
        for process in self._idle:
            self._aside(process.end())
        self._idle.clear()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _place(self, tenant: str) -> None:
        if self._running.total() < self._places and not self._waiting:
            self._running[tenant] += 1
            return
        mine = sum(waiting == tenant for waiting, _ in self._waiting)
        if (
            mine >= self._places * QUEUE_PER_PLACE // 2
            or len(self._waiting) >= self._places * QUEUE_PER_PLACE
        ):
            raise WyrdError(Code.VALA_429_QUERY_QUEUE_FULL, "too many queries wait already")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (tenant, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
            elif not turn.cancelled():
                self._free(tenant)
            raise

    def _free(self, tenant: str) -> None:
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._waiting = [entry for entry in self._waiting if not entry[1].done()]
        if self._waiting:
            entry = min(self._waiting, key=lambda waiting: self._running[waiting[0]])
            self._waiting.remove(entry)
            self._running[entry[0]] += 1
            entry[1].set_result(None)

    async def _ended(self, tenant: str, process: QueryProcess) -> None:
        await process.end()
        self._served.pop(process.pid, None)
        self._free(tenant)
        self.ahead()

    async def _start(self) -> None:
        try:
            with contextlib.suppress(Lost):
                process = await QueryProcess.start()
                if self._closed:
                    await process.end()
                else:
                    self._idle.append(process)
        finally:
            self._starting -= 1

    def _aside(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
