"""Arrow IPC streams from outside: bounded before anything of them is inflated.

A compressed buffer says how long it will be, and Arrow believes it: a few bytes can ask for all the
memory there is. The messages are therefore looked into first; their layout is Arrow's published one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from wyrd.errors import Code, WyrdError
from wyrd.wire.arrow_batches import MAX_DECODED_BYTES, require_taken, too_large

_DICTIONARY, _RECORDS = 2, 3
# Batches come in beside others: handing a few buffers to threads costs more than it saves.
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
ONE_THREAD: Final = pa.ipc.IpcReadOptions(use_threads=False)
_FAULTS: Final = (pa.ArrowException, OSError, ValueError, KeyError, struct.error, MemoryError)


@dataclass(frozen=True, slots=True)
class Received:
    """The rows of a stream as one batch. `as_sent`: the stream may be stored as it came, because it
    is one compressed batch and nothing else."""

    batch: pa.RecordBatch
    as_sent: bool


def read_stream(stream: bytes, max_rows: int) -> Received:
    """Read and check a whole stream.

    Raises `WYRD_VALA_400_INGEST_PROTO` (details message) for what is not one or has no rows,
    `WYRD_VALA_413_PAYLOAD_TOO_LARGE` (bytes, limit) for more than 64 MiB once inflated,
    `WYRD_SPEC_400_VALIDATION` for more than `max_rows` rows.
    """
    try:
        decoded, messages, compressed = _measured(stream)
        if decoded > MAX_DECODED_BYTES:
            raise too_large(decoded)
        with pa.ipc.open_stream(stream, options=ONE_THREAD) as reader:
            # Names that are not UTF-8 come out here, too.
            require_taken(reader.schema)
            batches = list(reader)
        rows = sum(batch.num_rows for batch in batches)
        if rows == 0:
            raise unreadable("the stream holds no rows")
        if rows > max_rows:
            raise too_many_rows(rows, max_rows)
        for batch in batches:
            batch.validate(full=True)
        if len(batches) > 1:
            batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    except _FAULTS as error:
        raise unreadable(f"it is not one Arrow IPC stream: {str(error)[:200]}") from None
    return Received(batches[0], compressed and messages == 1)


def written_stream(batch: pa.RecordBatch) -> bytes:
    """One batch as a compressed stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unreadable(message: str) -> WyrdError:
    """`WYRD_VALA_400_INGEST_PROTO` with `details.message`."""
    return WyrdError(Code.VALA_400_INGEST_PROTO, message, message=message)


def too_many_rows(rows: int, limit: int) -> WyrdError:
    return WyrdError(
        Code.SPEC_400_VALIDATION,
        f"a batch has at most {limit} rows, not {rows}",
        field="rows",
        reason=f"at most {limit} rows",
    )


def _measured(stream: bytes) -> tuple[int, int, bool]:
    """Bytes of all buffers once inflated, how many messages carry them, and whether all are compressed."""
    total, messages, compressed = 0, 0, True
    for metadata, body in _messages(stream):
        message = _Table.root(metadata)
        kind = message.byte(1)
        records = message.table(2)
        if kind == _DICTIONARY and records is not None:
            records = records.table(1)
        if kind not in (_DICTIONARY, _RECORDS) or records is None:
            continue
        messages += 1
        inflated = records.table(3) is not None
        compressed = compressed and inflated
        for start, length in records.pairs(2):
            if not 0 <= start <= start + length <= len(body):
                raise ValueError("a buffer lies outside its message")
            total += _length_of(body, start, length) if inflated else length
            if total > MAX_DECODED_BYTES:
                return total, messages, compressed
    return total, messages, compressed


def _messages(stream: bytes) -> Iterator[tuple[memoryview, memoryview]]:
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(stream))
    for message in reader:
        yield memoryview(message.metadata), memoryview(message.body if message.body is not None else b"")


def _length_of(body: memoryview, start: int, length: int) -> int:
    """What a compressed buffer says it will be; a length of -1 says that it is not compressed."""
    if length == 0:
        return 0
    (said,) = struct.unpack_from("<q", body[start : start + length])
    if said < -1:
        raise ValueError("a buffer has a negative length")
    return length - 8 if said == -1 else int(said)


@dataclass(frozen=True, slots=True)
class _Table:
    """One table of a flatbuffer: its members are found by number through its vtable."""

    data: memoryview
    at: int

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def _member(self, number: int) -> int | None:
        vtable = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        if vtable < 0:
            raise ValueError("a vtable lies outside its message")
        if 4 + 2 * number >= struct.unpack_from("<H", self.data, vtable)[0]:
            return None
        offset = struct.unpack_from("<H", self.data, vtable + 4 + 2 * number)[0]
        return self.at + offset if offset else None

    def byte(self, number: int) -> int:
        at = self._member(number)
        return 0 if at is None else int(self.data[at])

    def table(self, number: int) -> _Table | None:
        at = self._member(number)
        return None if at is None else _Table(self.data, at + struct.unpack_from("<I", self.data, at)[0])

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """A vector of structs of two 64-bit integers."""
        at = self._member(number)
        if at is None:
            return
        at += struct.unpack_from("<I", self.data, at)[0]
        count = struct.unpack_from("<I", self.data, at)[0]
        end = at + 4 + 16 * count
        if end > len(self.data):
            raise ValueError("a vector lies outside its message")
        yield from struct.iter_unpack("<qq", self.data[at + 4 : end])
