"""The queue between `record` and the server: bounded, batched by table, sent by threads of its own.

A batch keeps its id through every attempt, so that a repeat is stored once. Failures that may pass are
repeated until they do; a refusal costs only the rows that are at fault, as far as the server tells.
"""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wyrd._client.refusals import Refusals
from wyrd._client.rows import stamped
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7

QUEUE_BYTES = 256 << 20
BATCH_ROWS = 5_000
BATCH_BYTES = 1 << 20
LEAST_QUEUE_BYTES = 64 << 10
DRAIN_SECONDS = 60.0
"""How long `flush` and `shutdown` wait for the server when they are not told."""

_ROW_COST = 256
"""Bytes that a queued row takes beside its values."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_SENDERS = 16
"""Batches under way at once: the server commits together what arrives together."""
_IDLE_SECONDS = 5.0
_SPLITS = 64
"""Requests that finding the rows at fault in one refused batch may take."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`queue_bytes` bounds what waits or is under way; a batch is sent at `batch_rows`, at `batch_bytes`
    or after `linger` seconds."""

    queue_bytes: int = QUEUE_BYTES
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES
    linger: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("queue_bytes", LEAST_QUEUE_BYTES), ("batch_rows", 1), ("batch_bytes", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise WyrdError(
                    Code.CLIENT_400_CONFIG_INVALID, f"{name} is a whole number from {least}", field=name
                )


class RowsRefused(Exception):
    """Rows of a batch that cannot be sent, by their index; the others can."""

    def __init__(self, rows: dict[int, WyrdError]) -> None:
        super().__init__("rows refused")
        self.rows = rows


class Batch:
    """Rows of one table under one id. `turn` rises with the order in which batches were sealed."""

    __slots__ = ("batch_id", "body", "rows", "splits", "stream", "turn", "weight")

    def __init__(
        self, stream: Stream, rows: list[dict[str, Any]], weight: int, turn: int, splits: list[int]
    ) -> None:
        self.stream = stream
        self.rows = rows
        self.weight = weight
        self.turn = turn
        self.splits = splits
        self.batch_id = uuid7()
        self.body: Any = None
        """What an attempt made of the rows, kept for the next one."""

    @property
    def table(self) -> str:
        return self.stream.table

    def part(self, rows: list[dict[str, Any]]) -> Batch:
        """Some of its rows under an id of their own: the whole was refused, so nothing of it is stored."""
        return Batch(self.stream, rows, 0, self.turn, self.splits)


class Stream:
    """What waits for one table."""

    __slots__ = ("failures", "opened", "ready", "retry_at", "rows", "size", "table")

    def __init__(self, table: str) -> None:
        self.table = table
        self.rows: list[dict[str, Any]] = []
        self.size = 0
        self.opened = 0.0
        self.ready: deque[Batch] = deque()
        self.failures = 0
        self.retry_at = 0.0


Send = Callable[[Batch], None]
"""One attempt. Raises `WyrdError`, or `RowsRefused` before anything is sent."""


class Recorder:
    """Takes rows from any thread and has them stored. Rows that are queued when the process ends without
    `shutdown` are lost; its threads never hold up the end. A forked child starts empty."""

    def __init__(self, send: Send, limits: Limits | None = None) -> None:
        self._send = send
        self._limits = limits or Limits()
        self._refusals = Refusals()
        self._streams: dict[str, Stream] = {}
        self._empty()
        self._closed = False
        _recorders.add(self)

    def _empty(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._held = 0
        self._open: set[Batch] = set()
        self._turn = 0
        self._senders = 0
        self._rotation: deque[Stream] = deque(self._streams.values())
        self._last: WyrdError | None = None
        for stream in self._streams.values():
            stream.rows, stream.size, stream.failures, stream.retry_at = [], 0, 0, 0.0
            stream.ready.clear()

    def stream(self, table: str) -> Stream:
        """The stream of a table, made on first use."""
        found = self._streams.get(table)
        if found is not None:
            return found
        with self._lock:
            found = self._streams.get(table)
            if found is None:
                found = self._streams[table] = Stream(table)
                self._rotation.append(found)
            return found

    @property
    def tables(self) -> int:
        return len(self._streams)

    def add(
        self,
        stream: Stream,
        row: Any,
        run_id: str | None = None,
        card_uid: str | None = None,
        *,
        text: bool = False,
    ) -> None:
        """Queue a snapshot of one row.

        Errors: SPEC_400_VALIDATION, VALA_400_BIFROST_RESERVED_COLUMN, CLIENT_429_QUEUE_FULL,
        SDK_409_BIFROST_CLOSED; nothing of the row is queued then.
        """
        taken, size = stamped(row, run_id, card_uid, text=text)
        with self._lock:
            if self._closed:
                raise closed()
            held = self._held + size + _ROW_COST
            if held > self._limits.queue_bytes:
                raise self._full()
            self._held = held
            rows = stream.rows
            rows.append(taken)
            stream.size += size
            count = len(rows)
            if count >= self._limits.batch_rows or stream.size >= self._limits.batch_bytes:
                self._seal(stream)
                self._wake()
            elif count == 1:
                stream.opened = time.monotonic()
                self._wake()

    def add_all(self, stream: Stream, rows: list[dict[str, Any]], run_id: str, card_uid: str) -> None:
        """Queue several rows, all or none of them."""
        taken = [stamped(row, run_id, card_uid) for row in rows]
        size = sum(one for _, one in taken)
        with self._lock:
            if self._closed:
                raise closed()
            if self._held + size + _ROW_COST * len(taken) > self._limits.queue_bytes:
                raise self._full()
            self._held += size + _ROW_COST * len(taken)
            if not stream.rows:
                stream.opened = time.monotonic()
            stream.rows.extend(row for row, _ in taken)
            stream.size += size
            if len(stream.rows) >= self._limits.batch_rows or stream.size >= self._limits.batch_bytes:
                self._seal(stream)
            self._wake()

    def drain(self, seconds: float = DRAIN_SECONDS, *, close: bool = False) -> None:
        """Wait until everything queued so far is stored or refused; `close` takes no more rows after it.

        Raises the first refusal since the last drain. CLIENT_504_FLUSH_TIMEOUT when the server has not
        taken everything within `seconds`: the rows stay queued, and a later drain waits on.
        """
        deadline = time.monotonic() + seconds
        with self._lock:
            self._closed = self._closed or close
            for stream in self._streams.values():
                stream.retry_at = 0.0
                if stream.rows:
                    self._seal(stream)
            turn = self._turn
            threaded = self._wake()
            self._changed.notify_all()
        while True:
            with self._lock:
                if not any(batch.turn <= turn for batch in self._open):
                    break
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._late(seconds)
                batch = None if threaded else self._due(time.monotonic())
                if batch is None:
                    self._changed.wait(left if threaded else min(left, 0.05))
            if batch is not None:
                # An interpreter that is ending starts no threads: this one does their work.
                self._attempt(batch)
        if (refused := self._refusals.take()) is not None:
            raise refused

    def _full(self) -> WyrdError:
        return WyrdError(
            Code.CLIENT_429_QUEUE_FULL,
            f"{self._held} bytes wait to be stored; the row was not queued",
            queued_bytes=self._held,
            limit=self._limits.queue_bytes,
            last_failure=None if self._last is None else self._last.code,
        )

    def _late(self, seconds: float) -> WyrdError:
        rows = sum(len(batch.rows) for batch in self._open)
        why = "" if self._last is None else f"; last seen: {self._last.detail}"
        return WyrdError(
            Code.CLIENT_504_FLUSH_TIMEOUT,
            f"{rows} rows are not stored after {seconds:g} s and stay queued{why}",
            rows=rows,
            last_failure=None if self._last is None else self._last.code,
        )

    def _seal(self, stream: Stream) -> None:
        self._turn += 1
        weight = stream.size + _ROW_COST * len(stream.rows)
        batch = Batch(stream, stream.rows, weight, self._turn, [_SPLITS])
        stream.ready.append(batch)
        self._open.add(batch)
        stream.rows, stream.size = [], 0

    def _wake(self) -> bool:
        """See that threads are at work; whether there are any."""
        waiting = sum(len(stream.ready) for stream in self._rotation)
        if self._senders == 0 or (waiting > 1 and self._senders < _SENDERS):
            thread = threading.Thread(target=self._work, name="wyrd-bifrost", daemon=True)
            self._senders += 1
            try:
                thread.start()
            except RuntimeError:
                self._senders -= 1
        else:
            self._changed.notify()
        return self._senders > 0

    def _due(self, now: float) -> Batch | None:
        """The next batch to attempt, tables in turn."""
        for _ in range(len(self._rotation)):
            stream = self._rotation[0]
            self._rotation.rotate(-1)
            if stream.retry_at > now:
                continue
            if not stream.ready and stream.rows and now - stream.opened >= self._limits.linger:
                self._seal(stream)
            if stream.ready:
                return stream.ready.popleft()
        return None

    def _next(self, now: float) -> float:
        """Seconds until something may be due."""
        times = [
            max(stream.retry_at, 0.0 if stream.ready else stream.opened + self._limits.linger)
            for stream in self._rotation
            if stream.ready or stream.rows
        ]
        return max(min(times) - now, 0.001) if times else _IDLE_SECONDS

    def _work(self) -> None:
        while True:
            with self._lock:
                while (batch := self._due(time.monotonic())) is None:
                    told = self._changed.wait(self._next(time.monotonic()))
                    idle = not told and not self._open and not any(one.rows for one in self._rotation)
                    if idle:
                        self._senders -= 1
                        return
            self._attempt(batch)
            del batch

    def _attempt(self, batch: Batch) -> None:
        """One attempt at one batch, and what follows from how it went."""
        stream, again, refused = batch.stream, [], None
        try:
            self._send(batch)
        except RowsRefused as found:
            again = self._without(batch, found.rows)
        except WyrdError as error:
            refused = error
        except Exception as error:  # A batch that cannot even be tried must not stop the others.
            told = WyrdError(Code.SPEC_500_INTERNAL, f"the batch cannot be sent: {error}")
            self._refuse(batch, told)
        if refused is not None and not passing(refused):
            again, refused = self._split(batch, refused), None
        with self._lock:
            self._last = refused
            if refused is not None:
                stream.failures += 1
                pause = min(_FIRST_PAUSE * 2 ** min(stream.failures - 1, 16), _LONGEST_PAUSE)
                stream.retry_at = time.monotonic() + pause * _chance.uniform(0.8, 1.2)
                stream.ready.appendleft(batch)
            else:
                stream.failures, stream.retry_at = 0, 0.0
                self._open.discard(batch)
                # The weight of a batch that was split goes with its first part.
                if again:
                    again[0].weight += batch.weight
                else:
                    self._held -= batch.weight
                self._open.update(again)
                stream.ready.extendleft(reversed(again))
            self._changed.notify_all()

    def _refuse(self, batch: Batch, error: WyrdError) -> None:
        self._refusals.add(batch.table, [(row, error) for row in batch.rows])

    def _without(self, batch: Batch, refused: dict[int, WyrdError]) -> list[Batch]:
        self._refusals.add(batch.table, [(batch.rows[index], error) for index, error in refused.items()])
        left = [row for index, row in enumerate(batch.rows) if index not in refused]
        return [batch.part(left)] if left else []

    def _split(self, batch: Batch, error: WyrdError) -> list[Batch]:
        """The parts to try after a refusal: all but the row it names, or the rows of each Card, or halves.

        A refusal that is about the caller or the table holds for every row."""
        rows = batch.rows
        about_rows = error.status in (400, 413, 422) or error.member is Code.VALA_403_BIFROST_CARD_SCOPE
        if len(rows) == 1 or not about_rows or batch.splits[0] <= 0:
            self._refuse(batch, error)
            return []
        batch.splits[0] -= 1
        index = row_of(error)
        if index is not None and index < len(rows):
            return self._without(batch, {index: error})
        if error.member is Code.VALA_403_BIFROST_CARD_SCOPE:
            cards: dict[Any, list[dict[str, Any]]] = {}
            for row in rows:
                cards.setdefault(row.get("card_uid"), []).append(row)
            if len(cards) == 1:
                self._refuse(batch, error)
                return []
            return [batch.part(group) for group in cards.values()]
        middle = len(rows) // 2
        return [batch.part(rows[:middle]), batch.part(rows[middle:])]


def closed() -> WyrdError:
    return WyrdError(Code.SDK_409_BIFROST_CLOSED, "it was shut down; nothing more is taken")


def passing(error: WyrdError) -> bool:
    """Whether a failure may pass by itself."""
    return error.status >= 500 or error.status in (408, 425, 429)


def row_of(error: WyrdError) -> int | None:
    """The row that a refusal names."""
    data = error.details.get("data")
    found = (data if isinstance(data, dict) else error.details).get("row")
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


_chance = random.Random()
"""Not the module's own: an application that has seeded that one must find it as it left it."""
_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    # Its parent sends what was queued, and its parent's threads and locks are not here.
    for recorder in list(_recorders):
        recorder._empty()
        recorder._refusals = Refusals()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
