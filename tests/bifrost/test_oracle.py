"""The Oracle: limits, deadlines, cancellation, crashes, scope, and rows that are seen once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from bifrost.names import TRACE_SPANS
from bifrost.tables import Tables
from store.caller import Caller, Role
from tests.bifrost.asked import CARDS, FIELDS, TICKETS, House, asked, tickets, until
from tests.conftest import opened
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import FieldSpec, RegisterTable
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = "SELECT count(*) FROM vala.datasets.tickets"
LONG = "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c WHERE a.range * b.range = -1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    home: Path = tmp_path_factory.mktemp("oracle")
    database = opened(f"sqlite:///{home / 'wyrd.db'}")
    built = House.built(database, home, query_workers=1, query_seconds=30.0)
    await built.oracle.open()
    yield built
    await built.oracle.close()
    built.cuts.close()
    database.close()


async def test_rows_are_seen_once_while_they_wait_and_after_they_are_published(house: House) -> None:
    assert await house.rows(COUNT) == [(6,)]
    await house.publish()
    assert await house.rows(COUNT) == [(6,)]
    house.put(house.acme, TICKETS, tickets("ours")[:2])
    assert await house.rows(COUNT) == [(8,)]
    assert (await house.rows("SELECT count(DISTINCT wyrd_batch_id) FROM vala.datasets.tickets"))[0] == (2,)


async def test_an_answer_over_its_ceiling_fails_and_is_not_cut(house: House) -> None:
    for more in ({"max_rows": 3}, {"max_bytes": 10}):
        error = await house.refusal("SELECT * FROM vala.datasets.tickets", **more)
        assert error is not None
        assert error.member is Code.VALA_413_QUERY_RESULT_TOO_LARGE


async def test_a_query_ends_at_its_deadline_and_the_next_one_answers(house: House) -> None:
    error = await house.refusal(LONG, deadline=0.3)
    assert error is not None
    assert error.member is Code.VALA_504_QUERY_TIMEOUT
    assert (await house.rows("SELECT 1"))[0] == (1,)


async def test_a_running_query_is_listed_for_its_tenant_and_can_be_cancelled(house: House) -> None:
    request_id = uuid7()

    async def run() -> Code:
        error = await house.refusal(LONG, request_id=request_id)
        assert error is not None
        return error.member

    running = asyncio.create_task(run())
    await until(lambda: house.oracle.running(house.acme))
    assert [one.request_id for one in house.oracle.running(house.acme)] == [request_id]
    assert house.oracle.running(house.rival) == []
    with pytest.raises(WyrdError) as unknown:
        house.oracle.cancel(house.rival, request_id)
    assert unknown.value.member is Code.VALA_404_RUNNING_QUERY_NOT_FOUND
    house.oracle.cancel(house.acme, request_id)
    assert await running is Code.VALA_504_QUERY_TIMEOUT
    assert house.oracle.running(house.acme) == []


async def test_more_queries_than_the_queue_holds_are_refused(house: House) -> None:
    held = [asyncio.create_task(house.refusal(LONG, deadline=3.0)) for _ in range(30)]
    errors = [error for error in await asyncio.gather(*held) if error is not None]
    codes = {error.member for error in errors}
    assert Code.VALA_429_QUERY_QUEUE_FULL in codes
    assert codes <= {
        Code.VALA_429_QUERY_QUEUE_FULL,
        Code.VALA_504_QUERY_TIMEOUT,
    }
    assert (await house.rows("SELECT 1"))[0] == (1,)


async def test_a_process_that_dies_fails_its_own_query_alone(house: House) -> None:
    running = asyncio.create_task(house.refusal(LONG, deadline=20.0))
    await until(lambda: [one for one in house.oracle.running(house.acme) if one.state == "running"])
    for process in _query_processes():
        process.kill()
    error = await running
    assert error is not None
    assert error.member is Code.VALA_500_BIFROST_INTERNAL
    assert (await house.rows("SELECT 1"))[0] == (1,)


def _query_processes() -> list[psutil.Process]:
    """Every query process of this one: the one that computes, and what waits beside it."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "bifrost.oracle" in " ".join(child.cmdline()):
                found.append(child)
    return found


async def test_a_card_bound_reader_sees_rows_of_no_card_and_of_its_graph(house: House) -> None:
    bound = Caller(house.acme, uuid7(), frozenset({Role.SERVICE}), CARDS[0])
    question = asked("SELECT DISTINCT card_uid FROM vala.datasets.tickets", scope=frozenset({CARDS[0]}))
    async with house.oracle.ask(bound, question) as answer:
        seen = {value for batch in answer_batches([batch async for batch in answer]) for value in batch}
    assert seen == {None, CARDS[0]}


def answer_batches(batches: list[object]) -> list[list[object]]:
    return [batch.column(0).to_pylist() for batch in batches]  # type: ignore[attr-defined]


async def test_a_column_that_was_added_later_is_null_in_older_files(house: House) -> None:
    await house.publish()
    grown = [*FIELDS, FieldSpec(name="channel", data_type="Utf8", nullable=True)]
    asked_for = RegisterTable(namespace="datasets", name="tickets", fields=grown)
    house.database.write_now(lambda connection: Tables(connection, house.acme).register(asked_for))
    house.put(house.acme, TICKETS, [{**tickets("ours")[0], "channel": "mail"}])
    for publish in (False, True):
        if publish:
            await house.publish()
        found = await house.rows("SELECT channel, count(*) FROM vala.datasets.tickets GROUP BY 1")
        assert sorted(found, key=str) == [("mail", 1), (None, 8)]


async def test_nothing_is_left_of_a_query_for_the_next_one(house: House) -> None:
    await house.rows("WITH secret AS (SELECT 'mine' AS word) SELECT * FROM secret")
    error = await house.refusal("SELECT * FROM secret", tenant=house.rival)
    assert error is not None
    spans = await house.rows("SELECT DISTINCT name LIKE 'theirs%' FROM vala.traces.spans", tenant=house.rival)
    assert spans == [(True,)]
    assert TRACE_SPANS.full == "vala.traces.spans"


async def test_who_may_not_read_may_not_query(house: House) -> None:
    nobody = Caller(house.acme, uuid7(), frozenset())
    with pytest.raises(WyrdError) as error:
        async with house.oracle.ask(nobody, asked("SELECT 1")):
            pass
    assert error.value.member is Code.VALA_403_QUERY_FORBIDDEN
