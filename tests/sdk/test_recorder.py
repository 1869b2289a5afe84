"""The queue behind `record`: batches and their ids, repeats, refusals, limits, ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wyrd
from wyrd import Code, WyrdError
from wyrd._client.recording import Batch, Limits, Recorder, RowsRefused

SDK = Path(wyrd.__file__).resolve().parents[1]
TABLE = "vala.datasets.tickets"


class Server:
    """Stands for the way to the server: keeps what it took, by batch id, and answers as it is told."""

    def __init__(self, rule: Callable[[Batch], None] = lambda batch: None) -> None:
        self.rule = rule
        self.attempts: list[tuple[str, int]] = []
        self.stored: dict[str, list[dict[str, Any]]] = {}

    def __call__(self, batch: Batch) -> None:
        self.attempts.append((batch.batch_id, len(batch.rows)))
        self.rule(batch)
        self.stored[batch.batch_id] = list(batch.rows)

    @property
    def numbers(self) -> list[int]:
        return sorted(row["n"] for rows in self.stored.values() for row in rows)


def error(code: Code, **details: Any) -> WyrdError:
    return WyrdError(code, "told by the server", **details)


def refusing(*numbers: int, named: bool = False) -> Callable[[Batch], None]:
    """Refuses every batch that holds one of these rows."""

    def rule(batch: Batch) -> None:
        for index, row in enumerate(batch.rows):
            if row["n"] in numbers:
                raise error(Code.SPEC_400_VALIDATION, **({"row": index} if named else {}))

    return rule


def recorded(recorder: Recorder, count: int, table: str = TABLE, **more: Any) -> None:
    stream = recorder.stream(table)
    for number in range(count):
        recorder.add(stream, {"n": number, **more})


class TestBatches:
    def test_a_batch_goes_when_it_has_its_rows_and_the_rest_with_a_flush(self) -> None:
        server = Server()
        recorder = Recorder(server, Limits(batch_rows=10))
        recorded(recorder, 25)
        recorder.drain()
        assert sorted(count for _, count in server.attempts) == [5, 10, 10]
        assert server.numbers == list(range(25))
        assert all(UUID(name).version == 7 for name, _ in server.attempts)

    def test_a_batch_goes_when_it_has_its_bytes(self) -> None:
        server = Server()
        recorder = Recorder(server, Limits(batch_bytes=1000))
        recorded(recorder, 4, text="x" * 600)
        recorder.drain()
        assert [count for _, count in server.attempts] == [2, 2]

    def test_a_lone_row_goes_by_itself_when_it_has_waited(self) -> None:
        gone = threading.Event()
        recorder = Recorder(Server(lambda batch: gone.set()), Limits(linger=0.01))
        recorded(recorder, 1)
        assert gone.wait(10)

    def test_tables_do_not_share_batches_nor_wait_for_each_other(self) -> None:
        seen = threading.Event()

        def rule(batch: Batch) -> None:
            if batch.table != TABLE:
                seen.set()
            elif not seen.is_set():
                raise error(Code.VALA_429_INGEST_BUSY)

        recorder = Recorder(Server(rule), Limits(batch_rows=1))
        recorded(recorder, 3)
        recorded(recorder, 1, "vala.datasets.other")
        assert seen.wait(10)

    def test_flush_without_a_row_is_nothing(self) -> None:
        server = Server()
        Recorder(server).drain()
        assert server.attempts == []


class TestFailuresThatPass:
    @pytest.mark.parametrize(
        "code",
        [
            Code.CLIENT_503_TRANSPORT_DOWN,
            Code.SPEC_500_INTERNAL,
            Code.VALA_429_INGEST_BUSY,
            Code.VALA_507_WAL_DISK_FULL,
            Code.SPEC_502_UPSTREAM_FAILURE,
        ],
    )
    def test_a_batch_is_repeated_under_its_own_id_until_it_is_stored(
        self, monkeypatch: pytest.MonkeyPatch, code: Code
    ) -> None:
        monkeypatch.setattr("wyrd._client.recording._FIRST_PAUSE", 0.001)
        left = [6]

        def rule(batch: Batch) -> None:
            left[0] -= 1
            if left[0] > 0:
                raise error(code)

        server = Server(rule)
        recorder = Recorder(server)
        recorded(recorder, 3)
        recorder.drain()
        assert len(server.attempts) == 6
        assert len({name for name, _ in server.attempts}) == 1
        assert server.numbers == [0, 1, 2]

    def test_a_flush_that_runs_out_of_time_says_so_and_loses_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("wyrd._client.recording._FIRST_PAUSE", 0.001)
        back = threading.Event()

        def rule(batch: Batch) -> None:
            if not back.is_set():
                raise error(Code.CLIENT_503_TRANSPORT_DOWN)

        server = Server(rule)
        recorder = Recorder(server)
        recorded(recorder, 3)
        with pytest.raises(WyrdError) as late:
            recorder.drain(0.05, close=True)
        assert late.value.member is Code.CLIENT_504_FLUSH_TIMEOUT
        assert late.value.details["rows"] == 3
        back.set()
        recorder.drain(close=True)
        assert server.numbers == [0, 1, 2]

    def test_a_recorder_whose_threads_cannot_start_sends_from_the_flush(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def start(self: threading.Thread) -> None:
            raise RuntimeError("can't create new thread at interpreter shutdown")

        monkeypatch.setattr(threading.Thread, "start", start)
        server = Server()
        recorder = Recorder(server)
        recorded(recorder, 3)
        recorder.drain()
        assert server.numbers == [0, 1, 2]


class TestRefusals:
    @pytest.mark.parametrize("named", [True, False])
    def test_only_the_rows_at_fault_are_refused(self, named: bool) -> None:
        server = Server(refusing(3, 17, named=named))
        recorder = Recorder(server)
        recorded(recorder, 20)
        with pytest.raises(WyrdError) as refused:
            recorder.drain()
        assert refused.value.member is Code.SPEC_400_VALIDATION
        assert refused.value.details["table"] == TABLE
        assert refused.value.details["rows_refused"] == 2
        assert sorted(one["row"]["n"] for one in refused.value.details["refused"]) == [3, 17]
        assert server.numbers == [n for n in range(20) if n not in (3, 17)]
        recorder.drain()

    @given(st.sets(st.integers(0, 39), max_size=6), st.booleans())
    def test_every_row_is_stored_once_or_told_of_once(self, wrong: set[int], named: bool) -> None:
        server = Server(refusing(*wrong, named=named))
        recorder = Recorder(server, Limits(batch_rows=16))
        recorded(recorder, 40)
        told: list[int] = []
        if wrong:
            with pytest.raises(WyrdError) as refused:
                recorder.drain()
            told = [one["row"]["n"] for one in refused.value.details["refused"]]
            assert refused.value.details["rows_refused"] == len(told)
        else:
            recorder.drain()
        assert sorted([*server.numbers, *told]) == list(range(40))
        assert set(told) == wrong

    def test_a_batch_full_of_faults_takes_a_bounded_number_of_requests(self) -> None:
        server = Server(refusing(*range(1000)))
        recorder = Recorder(server)
        recorded(recorder, 1000)
        with pytest.raises(WyrdError) as refused:
            recorder.drain()
        assert refused.value.details["rows_refused"] == 1000
        assert len(refused.value.details["refused"]) == 100
        assert len(server.attempts) <= 2 * 64 + 1

    def test_a_refused_table_refuses_all_its_rows_at_once(self) -> None:
        def rule(batch: Batch) -> None:
            raise error(Code.VALA_404_BIFROST_TABLE_NOT_FOUND)

        server = Server(rule)
        recorder = Recorder(server)
        recorded(recorder, 50)
        with pytest.raises(WyrdError) as refused:
            recorder.drain()
        assert refused.value.member is Code.VALA_404_BIFROST_TABLE_NOT_FOUND
        assert refused.value.details["rows_refused"] == 50
        assert len(server.attempts) == 1

    def test_a_card_outside_the_scope_costs_only_its_own_rows(self) -> None:
        def rule(batch: Batch) -> None:
            if any(row["card_uid"] == "foreign" for row in batch.rows):
                raise error(Code.VALA_403_BIFROST_CARD_SCOPE)

        server = Server(rule)
        recorder = Recorder(server)
        stream = recorder.stream(TABLE)
        for number in range(30):
            recorder.add(stream, {"n": number}, "run", "foreign" if number % 3 == 0 else "own")
        with pytest.raises(WyrdError) as refused:
            recorder.drain()
        assert refused.value.details["rows_refused"] == 10
        assert server.numbers == [n for n in range(30) if n % 3]
        assert len(server.attempts) == 3

    def test_rows_that_cannot_be_sent_are_told_of_and_the_others_sent(self) -> None:
        def rule(batch: Batch) -> None:
            wrong = {
                index: error(Code.SPEC_400_VALIDATION) for index, row in enumerate(batch.rows) if row["n"] < 2
            }
            if wrong:
                raise RowsRefused(wrong)

        server = Server(rule)
        recorder = Recorder(server)
        recorded(recorder, 5)
        with pytest.raises(WyrdError) as refused:
            recorder.drain()
        assert refused.value.details["rows_refused"] == 2
        assert server.numbers == [2, 3, 4]

    def test_a_fault_of_ours_stops_no_other_batch(self) -> None:
        def rule(batch: Batch) -> None:
            if batch.rows[0]["n"] == 0:
                raise ZeroDivisionError("ours")

        server = Server(rule)
        recorder = Recorder(server, Limits(batch_rows=2))
        recorded(recorder, 4)
        with pytest.raises(WyrdError) as refused:
            recorder.drain()
        assert refused.value.details["rows_refused"] == 2
        assert server.numbers == [2, 3]


class TestLimits:
    def test_a_full_queue_admits_nothing_and_takes_again_what_was_stored(self) -> None:
        going = threading.Event()

        def rule(batch: Batch) -> None:
            going.wait(10)

        server = Server(rule)
        recorder = Recorder(server, Limits(queue_bytes=64 << 10))
        stream = recorder.stream(TABLE)
        taken = 0

        def fill() -> None:
            nonlocal taken
            for number in range(1000):
                recorder.add(stream, {"n": number, "text": "x" * 1000})
                taken += 1

        with pytest.raises(WyrdError) as full:
            fill()
        assert full.value.member is Code.CLIENT_429_QUEUE_FULL
        assert 1 < taken < 100
        going.set()
        recorder.drain()
        assert server.numbers == list(range(taken))
        recorder.add(stream, {"n": taken})
        recorder.drain()
        assert server.numbers == list(range(taken + 1))

    def test_refused_rows_make_room_again(self) -> None:
        recorder = Recorder(Server(refusing(*range(100))), Limits(queue_bytes=64 << 10))
        for _ in range(5):
            recorded(recorder, 40, text="x" * 1000)
            with pytest.raises(WyrdError):
                recorder.drain()

    def test_rows_that_belong_together_are_queued_all_or_none(self) -> None:
        server = Server()
        recorder = Recorder(server, Limits(queue_bytes=64 << 10))
        stream = recorder.stream(TABLE)
        with pytest.raises(WyrdError) as full:
            recorder.add_all(stream, [{"n": n, "text": "x" * 40_000} for n in range(2)], "run", "card")
        assert full.value.member is Code.CLIENT_429_QUEUE_FULL
        recorder.add_all(stream, [{"n": n} for n in range(2)], "run", "card")
        recorder.drain()
        assert server.numbers == [0, 1]

    @pytest.mark.parametrize("wrong", [{"queue_bytes": 1}, {"batch_rows": 0}, {"batch_bytes": True}])
    def test_limits_that_are_none(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(WyrdError) as refused:
            Limits(**wrong)
        assert refused.value.member is Code.CLIENT_400_CONFIG_INVALID

    def test_rows_of_many_threads_are_all_stored(self) -> None:
        server = Server()
        recorder = Recorder(server, Limits(batch_rows=7))
        stream = recorder.stream(TABLE)

        def work(first: int) -> None:
            for number in range(first, first + 500):
                recorder.add(stream, {"n": number})

        threads = [threading.Thread(target=work, args=(500 * one,)) for one in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.drain()
        assert server.numbers == list(range(4000))


class TestEnds:
    def test_a_closed_recorder_takes_no_more(self) -> None:
        recorder = Recorder(Server())
        recorder.drain(close=True)
        with pytest.raises(WyrdError) as refused:
            recorded(recorder, 1)
        assert refused.value.member is Code.SDK_409_BIFROST_CLOSED

    def test_a_process_ends_at_once_although_the_server_is_away(self) -> None:
        code = (
            "from wyrd._client.recording import Recorder\n"
            "from wyrd import Code, WyrdError\n"
            "def send(batch): raise WyrdError(Code.CLIENT_503_TRANSPORT_DOWN)\n"
            "recorder = Recorder(send)\n"
            "recorder.add(recorder.stream('t'), {'n': 1})\n"
        )
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(SDK), "PATH": ""},
            check=True,
            timeout=20,
            capture_output=True,
        )

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_child_sends_its_own_rows_and_not_its_parents(self) -> None:
        # In a fresh process: pytest's own threads and forks do not go together.
        code = (
            "import os, sys\n"
            "from wyrd._client.recording import Recorder\n"
            "stored = []\n"
            "recorder = Recorder(lambda batch: stored.extend(row['n'] for row in batch.rows))\n"
            "stream = recorder.stream('t')\n"
            "recorder.add(stream, {'n': 1})\n"
            "child = os.fork()\n"
            "recorder.add(stream, {'n': 2 if child else 3})\n"
            "recorder.drain()\n"
            "if child: os.waitpid(child, 0)\n"
            'sys.stdout.write(f\'{"parent" if child else "child"} {stored}\\n\')\n'
        )
        told = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(SDK), "PATH": ""},
            check=True,
            timeout=20,
            capture_output=True,
            text=True,
        )
        assert sorted(told.stdout.splitlines()) == ["child [3]", "parent [1, 2]"]


class _Word(StrEnum):
    YES = "yes"
