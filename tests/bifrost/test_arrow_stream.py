"""Arrow streams from outside: read whole, or refused before they cost anything."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pyarrow as pa
import pytest

from bifrost.scribe.arrow_stream import read_stream, written_stream
from wyrd.errors import WyrdError
from wyrd.wire.arrow_batches import MAX_DECODED_BYTES, fitted_batch
from wyrd.wire.bifrost import FieldSpec

ROWS = pa.RecordBatch.from_pydict(
    {
        "a": list(range(40)),
        "b": [f"row {n}" for n in range(40)],
        "c": pa.array([["p", "q"], None] * 20),
        "d": pa.array(["k", "l"] * 20).dictionary_encode(),
        "e": pa.array([{"s": 1, "t": "u"}, None] * 20),
        "f": pa.array(["a view of a long text"] * 40, pa.string_view()),
    }
)
COLUMNS = [
    FieldSpec.model_validate({"name": name, "data_type": data_type, "nullable": True})
    for name, data_type in {
        "a": "Int64",
        "b": "Utf8",
        "c": {"List": {"name": "item", "data_type": "Utf8"}},
        "d": "Utf8",
        "e": {"Struct": [{"name": "s", "data_type": "Int64"}, {"name": "t", "data_type": "Utf8"}]},
        "f": "Utf8",
    }.items()
]


def stream_of(*batches: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def refused(stream: bytes, max_rows: int = 1000) -> WyrdError:
    with pytest.raises(WyrdError) as caught:
        read_stream(stream, max_rows)
    return caught.value


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_the_batches_of_a_stream_are_read_as_one(compression: str | None) -> None:
    received = read_stream(stream_of(ROWS[:10], ROWS[10:], compression=compression), 1000)
    assert received.batch.to_pylist() == ROWS.to_pylist()
    assert not received.as_sent


def test_only_a_compressed_stream_of_one_batch_may_be_stored_as_it_came() -> None:
    plain = ROWS.select(["a", "b"])
    assert read_stream(written_stream(plain), 1000).as_sent
    assert not read_stream(stream_of(plain), 1000).as_sent
    assert not read_stream(stream_of(ROWS, compression="zstd"), 1000).as_sent, "it has a dictionary"


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"PAR1",
        b"\xff" * 64,
        b"\x00" * 64,
        stream_of(ROWS)[:200],
        stream_of(ROWS[:0]),
        pa.ipc.serialize_pandas.__doc__.encode() if pa.ipc.serialize_pandas.__doc__ else b"text",
    ],
)
def test_what_is_no_stream_with_rows_is_unreadable(stream: bytes) -> None:
    error = refused(stream)
    assert error.code == "WYRD_VALA_400_INGEST_PROTO"
    assert error.details["message"]


def test_rows_are_counted_before_they_are_looked_at() -> None:
    endless = pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])], ["a"])
    assert refused(stream_of(endless)).details["field"] == "rows"
    assert refused(stream_of(ROWS), max_rows=39).details["field"] == "rows"


def bomb(said: int | None = None) -> bytes:
    """A few kilobytes that inflate to a gigabyte, or that only say how much they will be."""
    zeros = pa.array([0], pa.int64()).take(pa.array([0] * (2**20), pa.int32()))
    stream = stream_of(
        pa.RecordBatch.from_arrays([zeros] * 16, [f"c{n}" for n in range(16)]), compression="zstd"
    )
    if said is not None:
        stream = stream.replace(struct.pack("<q", 8 * 2**20), struct.pack("<q", said))
    return stream


@pytest.mark.parametrize("said", [None, 2**40, 2**62])
def test_a_bomb_is_refused_without_being_inflated(said: int | None) -> None:
    stream = bomb(said)
    assert len(stream) < 100_000
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    error = refused(stream, 2**21)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.code == "WYRD_VALA_413_PAYLOAD_TOO_LARGE"
    assert error.details["bytes"] > error.details["limit"] == MAX_DECODED_BYTES
    assert peak < 1024**2
    assert pa.total_allocated_bytes() - before < 1024**2


@pytest.mark.parametrize("said", [0, 7, 2**20])
def test_a_buffer_that_is_not_as_long_as_it_says_is_unreadable(said: int) -> None:
    assert refused(bomb(said), 2**21).code == "WYRD_VALA_400_INGEST_PROTO"


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_stream_is_read_or_refused_and_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    originals = [stream_of(ROWS), stream_of(ROWS, compression="zstd")]
    outcomes = set()
    for _ in range(400):
        damaged = bytearray(chance.choice(originals))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(damaged) - 8)
            if chance.random() < 0.8:
                damaged[at] = chance.choice([0, 1, 4, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            else:
                damaged[at : at + 8] = chance.choice([b"\xff" * 8, struct.pack("<q", 2**62), bytes(8)])
        try:
            fitted_batch(COLUMNS, read_stream(bytes(damaged), 1000).batch).validate(full=True)
            outcomes.add("read")
        except WyrdError as error:
            outcomes.add("refused")
            if error.status not in (400, 413):
                raise
    assert outcomes == {"read", "refused"}
