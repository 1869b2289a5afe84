"""Asking: from a caller's question to Arrow batches, within a deadline, a place and a card scope."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from bifrost.cut import Cut
from bifrost.names import TableName
from bifrost.oracle.channel import ARROW, ROWS, document, framed, packed
from bifrost.oracle.pool import Pool
from bifrost.oracle.process import Lost, QueryProcess
from bifrost.oracle.question import Question, checked, invalid_sql, too_large
from bifrost.reading import Cuts
from bifrost.scope import card_scope
from store.caller import Caller, Permission, Tenant
from store.database import Database, utc_now
from store.settings import Settings
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import QueryProgress, RunningQuery


@dataclass(slots=True, eq=False)
class _Running:
    """A question that was admitted and has not ended."""

    tenant: Tenant
    question: Question
    started_at: datetime
    seconds: float
    until: float
    state: str = "admitted"
    process: QueryProcess | None = None
    stopped: WyrdError | None = None
    released: bool = False
    spent: bool = True
    """The process is in the middle of this query: it takes no other."""
    wakes: list[Callable[[], None]] = field(default_factory=list)

    @property
    def query_class(self) -> str:
        return "analytical" if self.question.max_rows is None else "interactive"

    def stop(self, why: WyrdError) -> None:
        """Whatever is awaited for this query raises `why` from now on."""
        if self.stopped is not None:
            return
        self.stopped = why
        if self.process is not None:
            self.process.wake(why)
        for wake in self.wakes:
            wake()

    def document(self) -> RunningQuery:
        cancelling = self.stopped is not None
        return RunningQuery(
            request_id=self.question.request_id,
            query_class="analytical" if self.question.max_rows is None else "interactive",
            started_at=self.started_at,
            deadline=self.started_at + timedelta(seconds=self.seconds),
            state="cancelling" if cancelling else "running" if self.state == "running" else "admitted",
            progress=QueryProgress(completed_participants=0, total_participants=1),
            cancellation_requested=cancelling,
        )


class Answer:
    """A query's answer: its columns now, its rows as they come. Iterate once."""

    def __init__(self, running: _Running, process: QueryProcess, schema: bytes) -> None:
        self.schema_message = schema
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(schema))
        self.deadline_seconds = running.seconds
        self.query_class = running.query_class
        self.row_count = 0
        self.ended = False
        self._bytes = 0
        self._running = running
        self._process = process
        self._first: tuple[int, Any] | None = None

    async def look_ahead(self) -> None:
        """Wait for the first rows, so that what fails before them is told before an answer begins."""
        self._first = await self._receive()

    async def messages(self) -> AsyncIterator[bytes]:
        """Every record batch as an encapsulated Arrow message. `row_count` counts with them.

        Raises `WYRD_VALA_400_QUERY_INVALID_SQL` (a value that cannot be converted, say),
        `WYRD_VALA_413_QUERY_RESULT_TOO_LARGE`, `WYRD_VALA_504_QUERY_TIMEOUT`,
        `WYRD_VALA_500_BIFROST_INTERNAL`, `WYRD_VALA_503_BIFROST_STORAGE_UNREACHABLE`.
        """
        while not self.ended:
            kind, found = self._first or await self._receive()
            self._first = None
            if kind == ARROW:
                rows, message = ROWS.unpack_from(found)[0], memoryview(found)[ROWS.size :]
                self._count(rows, len(message))
                yield bytes(message)

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        async for message in self.messages():
            yield pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)

    async def _receive(self) -> tuple[int, Any]:
        kind, found = await _received(self._running, self._process)
        if kind != ARROW:
            if found.get("is") != "end":
                raise Lost
            self.ended, self._running.spent = True, False
        return kind, found

    def _count(self, rows: int, size: int) -> None:
        self.row_count += rows
        self._bytes += size
        limits = self._running.question
        if limits.max_rows is not None and self.row_count > limits.max_rows:
            raise too_large(f"the answer has more than {limits.max_rows} rows")
        if limits.max_bytes is not None and self._bytes > limits.max_bytes:
            raise too_large(f"the answer has more than {limits.max_bytes} bytes")


class Oracle:
    """Answers questions over the tables of any tenant."""

    def __init__(self, settings: Settings, database: Database, cuts: Cuts) -> None:
        self._database = database
        self._cuts = cuts
        self._longest = settings.query_seconds
        self._pool = Pool(settings.query_workers or os.cpu_count() or 1)
        self._asked: dict[str, list[_Running]] = {}

    async def open(self) -> None:
        """Start a process ahead of the first query; it does not wait for it."""
        self._pool.ahead()

    async def close(self) -> None:
        for entries in self._asked.values():
            for entry in entries:
                self._stop(entry, WyrdError(Code.SERVER_503_SERVICE_UNAVAILABLE, "the server is stopping"))
        await self._pool.close()

    @asynccontextmanager
    async def ask(self, caller: Caller, question: Question) -> AsyncIterator[Answer]:
        """Run a query; it is stopped when the block is left before its end.

        Raises `WYRD_VALA_403_QUERY_FORBIDDEN`, `WYRD_SPEC_400_VALIDATION` (a limit or parameter),
        `WYRD_VALA_400_QUERY_INVALID_SQL` (detail), `WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND`,
        `WYRD_VALA_413_QUERY_RESULT_TOO_LARGE` (also when the query needs too much memory),
        `WYRD_VALA_429_QUERY_QUEUE_FULL`, `WYRD_VALA_504_QUERY_TIMEOUT` (also when it was cancelled),
        `WYRD_VALA_500_BIFROST_INTERNAL`, `WYRD_VALA_503_BIFROST_STORAGE_UNREACHABLE`.
        """
        if not caller.may(Permission.BIFROST_READ):
            raise WyrdError(Code.VALA_403_QUERY_FORBIDDEN, "the credential's roles do not permit queries")
        checked(question)
        tenant, loop = caller.tenant, asyncio.get_running_loop()
        seconds = self._longest if question.deadline is None else min(question.deadline, self._longest)
        running = _Running(tenant, question, utc_now(), seconds, loop.time() + seconds)
        watch = loop.call_at(running.until, self._stop, running, _late(seconds))
        entries = self._asked.setdefault(tenant.id, [])
        entries.append(running)
        answer: Answer | None = None
        try:
            try:
                running.process = await self._taken(running)
                running.state = "running"
                answer = await self._begun(caller, running, running.process)
            except Lost:
                raise _crashed(running) from None
            yield answer
        finally:
            watch.cancel()
            entries.remove(running)
            if not entries:
                self._asked.pop(tenant.id, None)
            if running.process is not None and not running.released:
                if not running.spent:
                    self._pool.give(tenant.id, running.process)
                else:
                    self._pool.discard(tenant.id, running.process)

    def running(self, tenant: Tenant) -> list[RunningQuery]:
        """The tenant's queries in this process, the oldest first."""
        return [entry.document() for entry in self._asked.get(tenant.id, [])]

    def find(self, tenant: Tenant, request_id: str) -> RunningQuery:
        """Raises `WYRD_VALA_404_RUNNING_QUERY_NOT_FOUND`."""
        return self._found(tenant, request_id)[-1].document()

    def cancel(self, tenant: Tenant, request_id: str) -> bool:
        """Stop a query; whether this call is what stops it.

        Raises `WYRD_VALA_404_RUNNING_QUERY_NOT_FOUND`.
        """
        entries = self._found(tenant, request_id)
        started = any(entry.stopped is None for entry in entries)
        for entry in entries:
            self._stop(entry, WyrdError(Code.VALA_504_QUERY_TIMEOUT, "the query was cancelled"))
        return started

    def _found(self, tenant: Tenant, request_id: str) -> list[_Running]:
        mine = self._asked.get(tenant.id, [])
        found = [entry for entry in mine if entry.question.request_id == request_id]
        if not found:
            raise WyrdError(Code.VALA_404_RUNNING_QUERY_NOT_FOUND, "no such query is running")
        return found

    def _stop(self, running: _Running, why: WyrdError) -> None:
        """End a query now, also one whose client takes nothing any more: its place is needed."""
        running.stop(why)
        if running.process is not None and not running.released:
            running.released = True
            self._pool.discard(running.tenant.id, running.process)

    async def _taken(self, running: _Running) -> QueryProcess:
        """A process, unless the query is stopped before there is one."""
        tenant = running.tenant.id
        task = asyncio.ensure_future(self._pool.take(tenant))
        try:
            process: QueryProcess = await _or_stopped(running, task)
        except asyncio.CancelledError:
            if task.done() and not task.cancelled() and task.exception() is None:
                self._pool.discard(tenant, task.result())
            raise
        return process

    async def _begun(self, caller: Caller, running: _Running, process: QueryProcess) -> Answer:
        """Parse, take what it reads, and wait for the first rows."""
        question = running.question
        await process.send(
            document("ask", sql=question.sql, params=[packed(value) for value in question.params])
        )
        _, found = await _received(running, process)
        if found.get("is") != "tables":
            raise Lost
        names = [TableName.of(f"vala.{schema}", name) for schema, name in found["tables"]]
        scope = question.scope
        if scope is None and names:
            scope = (await card_scope(self._database, caller)).readable
        try:
            cuts = await _or_stopped(running, self._cuts.take(caller.tenant, names))
        except WyrdError:
            if running.stopped is None:
                await process.send(document("nothing"))
                running.spent = False
            raise
        for name in names:
            await process.send(*await asyncio.to_thread(_frames, cuts[name], scope))
        kind, schema = await _received(running, process)
        if kind != ARROW:
            raise Lost
        answer = Answer(running, process, schema)
        await answer.look_ahead()
        return answer


async def _or_stopped(running: _Running, work: Any) -> Any:
    """What the work gives, unless the query is stopped first."""
    task = asyncio.ensure_future(work)
    running.wakes.append(task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        if running.stopped is not None:
            raise running.stopped from None
        raise
    finally:
        running.wakes.remove(task.cancel)


async def _received(running: _Running, process: QueryProcess) -> tuple[int, Any]:
    """The next frame of the answer. Raises what the process says of a query that failed."""
    if running.stopped is not None:
        raise running.stopped
    try:
        kind, found = await process.receive()
    except Lost:
        raise _crashed(running) from None
    if kind == ARROW:
        return kind, found
    match found.get("is"):
        case "refused":
            running.spent = False
            raise invalid_sql(found["why"])
        case "memory":
            raise too_large("the query needs more memory than a query may have")
        case "broken" if found["where"] == "storage":
            raise WyrdError(
                Code.VALA_503_BIFROST_STORAGE_UNREACHABLE,
                "the storage of the tables cannot be read",
                detail="the storage of the tables cannot be read",
            )
        case "broken" | "stopped":
            raise _crashed(running)
    return kind, found


def _crashed(running: _Running) -> WyrdError:
    if running.stopped is not None:
        return running.stopped
    told = "the process of this query ended before the query did"
    return WyrdError(Code.VALA_500_BIFROST_INTERNAL, told, detail=told)


def _late(seconds: float) -> WyrdError:
    return WyrdError(Code.VALA_504_QUERY_TIMEOUT, f"the query took longer than {seconds:g} seconds")


def _frames(cut: Cut, scope: frozenset[str] | None) -> tuple[bytes, bytes]:
    """A cut as the process reads it."""
    tail = pa.BufferOutputStream()
    with pa.ipc.new_stream(tail, cut.schema) as stream:
        for batch in cut.tail:
            stream.write_batch(batch)
    told = document(
        "cut",
        files=list(cut.files),
        storage=cut.storage.options,
        cards=None if scope is None else sorted(scope),
    )
    return told, framed(ARROW, tail.getvalue().to_pybytes())
