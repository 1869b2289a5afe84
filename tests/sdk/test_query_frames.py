"""The frames of a query's answer: read in any pieces, and never a shorter answer for a broken one."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk import frames
from wyrd import Code, WyrdError
from wyrd._client.query_frames import FrameReader

FIRST = pa.record_batch({"n": [1, 2], "word": ["a", None]})
SECOND = pa.record_batch({"n": [3], "word": ["c"]})
SCHEMA = frames.schema(FIRST.schema)
WHOLE = SCHEMA + frames.batch(FIRST) + frames.batch(SECOND) + frames.terminal(3)


def read(*pieces: bytes) -> tuple[FrameReader, list[pa.RecordBatch]]:
    reader = FrameReader()
    found = [batch for piece in pieces for batch in reader.feed(piece)]
    reader.finish()
    return reader, found


@given(st.lists(st.integers(0, len(WHOLE)), max_size=8))
def test_pieces_of_any_size_give_the_same_batches(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WHOLE)]
    reader, found = read(*(WHOLE[a:b] for a, b in pairwise(edges)))
    assert found == [FIRST, SECOND]
    assert reader.terminal is not None
    assert (reader.terminal.outcome, reader.terminal.row_count) == ("success", 3)
    assert reader.terminal.query_class == "interactive"
    assert reader.terminal.warnings == []
    assert reader.terminal.source_completion == {
        "iceberg": "complete",
        "hot_sealed": "complete",
        "live_tail": "complete",
    }


@given(st.integers(0, len(WHOLE) - 1))
def test_an_answer_that_breaks_off_anywhere_is_incomplete(at: int) -> None:
    with pytest.raises(WyrdError) as broken:
        read(WHOLE[:at])
    assert broken.value.member is Code.VALA_502_QUERY_STREAM_INCOMPLETE


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_damaged_answer_raises_nothing_but_errors_of_ours(at: int, change: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= change
    # Arrow keeps no sums: damage inside the values themselves goes unseen.
    with suppress(WyrdError):
        read(bytes(damaged))


@pytest.mark.parametrize(
    "stream",
    [
        frames.batch(FIRST) + SCHEMA + frames.terminal(2),
        SCHEMA + SCHEMA + frames.terminal(0),
        SCHEMA + frames.batch(FIRST) + frames.terminal(1),
        SCHEMA + frames.terminal(0) + frames.batch(FIRST),
        SCHEMA + frames.terminal(0, outcome=9),
        frames.terminal(0),
        SCHEMA + frames.frame(4, b"") + frames.terminal(0),
        frames.frame(1, frames.sized(2, b"no schema")) + frames.terminal(0),
        SCHEMA + frames.frame(2, frames.sized(1, b"no batch")) + frames.terminal(0),
        SCHEMA + frames.frame(2, frames.number(1, 7)) + frames.terminal(0),
        b"<html>a proxy speaks</html>" * 20,
        b"\xff" * 20,
    ],
)
def test_frames_out_of_order_or_shape_are_refused(stream: bytes) -> None:
    with pytest.raises(WyrdError) as broken:
        read(stream)
    assert broken.value.member in (
        Code.VALA_502_QUERY_STREAM_PROTOCOL,
        Code.VALA_502_QUERY_STREAM_INCOMPLETE,
    )


def test_a_query_that_fails_after_rows_raises_its_own_error() -> None:
    problem = {"code": "WYRD_VALA_504_QUERY_TIMEOUT", "detail": "too long", "details": {"deadline_ms": 5}}
    with pytest.raises(WyrdError) as failed:
        read(SCHEMA, frames.batch(FIRST), frames.terminal(2, 3, problem))
    assert failed.value.member is Code.VALA_504_QUERY_TIMEOUT
    assert (failed.value.detail, failed.value.details) == ("too long", {"deadline_ms": 5})


def test_an_answer_without_the_newest_rows_says_so() -> None:
    reader, _ = read(SCHEMA, frames.terminal(0, outcome=2))
    assert reader.terminal is not None
    assert reader.terminal.outcome == "degraded"
    assert reader.terminal.warnings == ["live_tail_unavailable"]
    assert reader.terminal.source_completion["live_tail"] == "unavailable"
