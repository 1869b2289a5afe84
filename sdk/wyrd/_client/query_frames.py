"""The frames of a query's answer: one schema, then batches, then how it ended. Does no I/O.

Each frame is a protobuf message behind its length; of the messages, only the fields that matter are
read. Whatever breaks the order, or ends before its end, is an error and never a shorter answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wyrd._client.answers import error_of
from wyrd._client.flow import Reply
from wyrd.errors import Code, WyrdError

if TYPE_CHECKING:
    import pyarrow

CONTENT_TYPE = "application/vnd.wyrd.bifrost-query-stream"

_OUTCOMES = {1: "success", 2: "degraded", 3: "failed"}
_CLASSES = {1: "interactive", 2: "analytical"}
_WARNINGS = {1: "live_tail_unavailable", 2: "stale_cut_replanned"}
_SOURCES = {1: "iceberg", 2: "hot_sealed", 3: "live_tail"}
_COMPLETIONS = {1: "complete", 2: "unavailable"}
_LONGEST_FRAME = 1 << 30


@dataclass(frozen=True, slots=True)
class QueryTerminal:
    """How a query ended. `degraded`: the newest rows could not be read; `warnings` says so too."""

    outcome: str
    query_class: str
    row_count: int
    warnings: list[str] = field(default_factory=list)
    source_completion: dict[str, str] = field(default_factory=dict)
    error_code: str | None = None
    error_detail: str | None = None


def broken(why: str) -> WyrdError:
    return WyrdError(Code.VALA_502_QUERY_STREAM_PROTOCOL, why, reason=why)


def incomplete() -> WyrdError:
    return WyrdError(Code.VALA_502_QUERY_STREAM_INCOMPLETE, "the answer ended before its last frame")


class FrameReader:
    """Takes bytes as they come; gives record batches. `schema` is there after the first frame,
    `terminal` after the last."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._rows = 0
        self.schema: pyarrow.Schema | None = None
        self.terminal: QueryTerminal | None = None

    def feed(self, data: bytes) -> Iterator[pyarrow.RecordBatch]:
        """The batches that these bytes complete. A failed query raises its own error."""
        self._waiting += data
        while (frame := self._next()) is not None:
            if self.terminal is not None:
                raise broken("there is a frame after the last")
            yield from self._read(frame)

    def finish(self) -> QueryTerminal:
        """The end of the bytes. VALA_502_QUERY_STREAM_INCOMPLETE when it came too early."""
        if self.terminal is None or self._waiting:
            raise incomplete()
        return self.terminal

    def _next(self) -> bytes | None:
        length = shift = 0
        for at, byte in enumerate(self._waiting[:10]):
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if length > _LONGEST_FRAME:
                    raise broken("a frame is too long")
                if len(self._waiting) < at + 1 + length:
                    return None
                frame = bytes(self._waiting[at + 1 : at + 1 + length])
                del self._waiting[: at + 1 + length]
                return frame
        if len(self._waiting) >= 10:
            raise broken("a frame has no length")
        return None

    def _read(self, frame: bytes) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        members = _members(frame)
        if len(members) != 1 or not isinstance(members[0][1], bytes):
            raise broken("a frame is not exactly one message")
        number, body = members[0]
        found = dict(_members(body))
        try:
            if number == 1 and self.schema is None:
                self.schema = pa.ipc.read_schema(pa.py_buffer(found.get(2, b"")))
            elif number == 2 and self.schema is not None:
                batch = pa.ipc.read_record_batch(pa.py_buffer(found.get(1, b"")), self.schema)
                self._rows += batch.num_rows
                yield batch
            elif number == 3:
                self._end(body)
            else:
                raise broken("frames are out of order")
        except (pa.ArrowException, OSError, TypeError) as error:
            raise broken(f"a frame holds no Arrow message: {error}") from None

    def _end(self, body: bytes) -> None:
        members = _members(body)
        found = dict(members)
        outcome = _OUTCOMES.get(found.get(1, 0))
        if outcome is None or (outcome != "failed" and self.schema is None):
            raise broken("the last frame does not say how it ended")
        problem = found.get(9)
        error = None
        if outcome == "failed":
            error = error_of(Reply(500, {}, problem if isinstance(problem, bytes) else b""))
        elif found.get(3, 0) != self._rows:
            raise broken(f"the last frame counts {found.get(3, 0)} rows; {self._rows} came")
        sources: dict[str, str] = {}
        for number, value in members:
            if number == 5 and isinstance(value, bytes):
                one = dict(_members(value))
                sources[_SOURCES.get(one.get(1, 0), "unknown")] = _COMPLETIONS.get(one.get(2, 0), "unknown")
        self.terminal = QueryTerminal(
            outcome=outcome,
            query_class=_CLASSES.get(found.get(8, 1), "interactive"),
            row_count=self._rows,
            warnings=[_WARNINGS.get(one, "unknown") for one in _numbers(members, 4)],
            source_completion=sources,
            error_code=None if error is None else error.code,
            error_detail=None if error is None else error.detail,
        )
        if error is not None:
            raise error


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise broken("a frame is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _members(data: bytes) -> list[tuple[int, Any]]:
    """Field numbers and values of a protobuf message: numbers, or bytes."""
    found: list[tuple[int, Any]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            found.append((key >> 3, value))
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise broken("a frame is no protobuf message")
        if at + size > len(data):
            raise broken("a frame is cut off")
        found.append((key >> 3, data[at : at + size]))
        at += size
    return found


def _numbers(members: list[tuple[int, Any]], number: int) -> list[int]:
    """A repeated number, packed or not."""
    found: list[int] = []
    for key, value in members:
        if key != number:
            continue
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = _varint(value, at)
            found.append(one)
    return found
