"""What queries answer, exactly; what they are refused for, and where; and what their process can reach."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from bifrost.oracle import Question
from tests.bifrost.answered_sql import ALLOWED, TICKETS, TIMELINE
from tests.bifrost.asked import CARDS, TRACE, House, asked, reader
from tests.bifrost.asked import TICKETS as TABLE
from tests.bifrost.hostile_places import DEEP, GREEDY, NAMES, OTHERS, PLACES
from tests.conftest import opened
from wyrd.errors import Code, WyrdError

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = "FROM range(1000000000000)"
REFUSED = {Code.VALA_400_QUERY_INVALID_SQL, Code.VALA_404_BIFROST_TABLE_NOT_FOUND}
STOPPED = {
    Code.VALA_400_QUERY_INVALID_SQL,
    Code.VALA_413_QUERY_RESULT_TOO_LARGE,
    Code.VALA_504_QUERY_TIMEOUT,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """Six tickets published, and a seventh that still waits in the outbox."""
    home: Path = tmp_path_factory.mktemp("house")
    database = opened(f"sqlite:///{home / 'wyrd.db'}")
    built = House.built(database, home, query_workers=2)
    await built.publish()
    for tenant, word in ((built.acme, "ours"), (built.rival, "theirs")):
        built.put(tenant, TABLE, [{"ticket_id": f"{word}-late", "question": "unpublished"}])
    yield built
    await built.oracle.close()
    built.cuts.close()
    database.close()


async def refusal(house: House, sql: str, *params: Any, **more: Any) -> WyrdError:
    error = await house.refusal(sql, *params, **more)
    assert error is not None, sql
    told = f"{error.detail} {error.details}"
    for secret in (str(house.settings.home), "theirs", house.rival.id, "_cut_", "Traceback"):
        assert secret in sql or secret not in told, told
    return error


@pytest.mark.parametrize(("sql", "params", "rows"), ALLOWED, ids=range(len(ALLOWED)))
async def test_what_evidence_is_asked_is_answered(
    house: House, sql: str, params: list[Any], rows: list[tuple[Any, ...]]
) -> None:
    assert await house.rows(sql, *params) == rows


async def test_the_published_timeline_query_runs_on_hexadecimal_columns(house: House) -> None:
    found = await house.sql(TIMELINE, TRACE.upper())
    assert found.column("name").to_pylist() == [f"ours span {number}" for number in range(4)]
    linked = await house.sql(TIMELINE, "F" * 32)
    assert linked.column("span_id").to_pylist() == ["00f067aa0ba902b2"]


@pytest.mark.parametrize("hostile", [PLACES, NAMES, OTHERS], ids=["places", "names", "others"])
async def test_p57_it_is_refused_in_every_place_and_by_every_name(house: House, hostile: list[str]) -> None:
    for sql in hostile:
        error = await refusal(house, sql)
        assert error.member in REFUSED, (sql, error)


async def test_p57_what_would_not_end_or_not_fit_is_stopped_and_others_go_on(house: House) -> None:
    for sql in GREEDY:
        error = await refusal(house, sql, deadline=0.4)
        assert error.member in STOPPED, (sql, error)
        assert await house.rows(f"SELECT max(ticket_id) FROM {TICKETS}") == [("ours-late",)]


async def test_memory_is_bounded_and_the_answer_says_so(house: House) -> None:
    error = await refusal(house, "SELECT range FROM range(1000000000) ORDER BY hash(range)", deadline=30)
    assert error.member is Code.VALA_413_QUERY_RESULT_TOO_LARGE
    assert "memory" in error.detail


async def test_deep_and_wide_queries_end_and_others_go_on(house: House) -> None:
    for sql in DEEP:
        error = await house.refusal(sql, deadline=0.5)
        assert error is None or error.member in STOPPED, (sql[:80], error)
        assert await house.rows("SELECT 1") == [(1,)]


async def test_a_name_means_its_expression_within_its_scope_and_the_table_by_its_path(house: House) -> None:
    sql = f"""WITH tickets AS (SELECT 'cte' AS ticket_id), results AS (SELECT 'other' AS ticket_id)
        SELECT (SELECT ticket_id FROM TICKETS), (SELECT ticket_id FROM "results"),
               (SELECT max(ticket_id) FROM {TICKETS}),
               (WITH tickets AS (SELECT 'inner' AS ticket_id) SELECT ticket_id FROM tickets),
               (SELECT ticket_id FROM tickets)"""
    assert await house.rows(sql) == [("cte", "other", "ours-late", "inner", "cte")]


async def test_an_error_of_a_value_repeats_ones_own_value_alone(house: House) -> None:
    error = await refusal(house, f"SELECT question::INTEGER FROM {TICKETS}")
    assert error.member is Code.VALA_400_QUERY_INVALID_SQL
    assert "ours question" in error.detail


async def test_a_condition_never_looks_at_a_row_out_of_scope(house: House) -> None:
    """An error would tell its value: the rows are filtered below the engine, not beside its conditions."""
    sql = f"SELECT count(*) FROM {TICKETS} WHERE card_uid IS NOT NULL AND ticket_id::INTEGER > 0"
    assert "ours-" in (await refusal(house, sql, scope=frozenset({CARDS[1]}))).detail
    assert await house.rows(sql, scope=frozenset()) == [(0,)]


@pytest.mark.parametrize(
    ("sql", "params", "told"),
    [
        ("SELECT $1", (), "$1 has no value"),
        ("SELECT $2", (1, 2), "$1 is not in the query"),
        ("SELECT 1", (1,), "$1 is not in the query"),
        ("SELECT $a", (1,), "parameters are $1"),
        (f"SELECT\n  nope FROM {TICKETS}", (), "line 2, column 3: Referenced column"),
        (f"SELECT 'é', nope FROM {TICKETS}", (), "line 1, column 13: Referenced column"),
        ("SELECT lower(1, 2)", (), "line 1, column 8: No function matches"),
        ("SELECT\n\n getenv('x')", (), "line 3, column 2: there is no function 'getenv'"),
        ("SELECT 1 +", (), "line 1, column"),
        ("SELECT " + "(" * 500 + "1" + ")" * 500, (), "nested too deeply"),
        ("SELECT list_transform([1], x -> x + 1)", (), "lambda x: x + 1"),
        ("SELECT 340282366920938463463374607431768211455", (), "cast it"),
    ],
)
async def test_a_refusal_says_what_and_where(
    house: House, sql: str, params: tuple[Any, ...], told: str
) -> None:
    error = await refusal(house, sql, *params)
    assert error.member is Code.VALA_400_QUERY_INVALID_SQL
    assert error.details == {"detail": error.detail}
    assert told in error.detail


@pytest.mark.parametrize(
    ("question", "field"),
    [
        (Question("SELECT $1", "r", params=[float("nan")]), "params[0]"),
        (Question("SELECT $1", "r", params=[2**127]), "params[0]"),
        (Question("SELECT $1", "r", params=["\ud800"]), "params[0]"),
        (Question("SELECT '\ud800'", "r"), "sql"),
        (Question("SELECT 1", "r", max_rows=0), "max_rows"),
        (Question("SELECT 1", "r", max_rows=10_001), "max_rows"),
        (Question("SELECT 1", "r", max_bytes=16 * 1024 * 1024 + 1), "max_bytes"),
        (Question("SELECT 1", "r", deadline=0), "deadline_ms"),
    ],
)
async def test_a_limit_or_parameter_that_cannot_be_is_named(
    house: House, question: Question, field: str
) -> None:
    with pytest.raises(WyrdError) as caught:
        async with house.oracle.ask(reader(house.acme), question):
            pass
    assert (caught.value.member, caught.value.details["field"]) == (Code.SPEC_400_VALIDATION, field)


async def test_sql_of_more_than_64_kib_is_refused(house: House) -> None:
    fits = "SELECT 1".ljust(64 * 1024)
    assert await house.rows(fits) == [(1,)]
    assert (await refusal(house, fits + " ")).member is Code.VALA_400_QUERY_INVALID_SQL


async def test_whoever_hangs_up_cancels(house: House) -> None:
    begun = asyncio.Event()

    async def ask() -> None:
        async with house.oracle.ask(reader(house.acme), asked(STREAM, deadline=50)):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(ask())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert house.oracle.running(house.acme) == []
    assert await house.rows("SELECT 1") == [(1,)]


async def test_a_reader_that_takes_nothing_loses_its_place_at_the_deadline(house: House) -> None:
    async with house.oracle.ask(reader(house.acme), asked(STREAM, deadline=0.5)) as answer:
        with pytest.raises(WyrdError, match="504_QUERY_TIMEOUT"):
            async for _ in answer:
                pass
        # Its block is not left, and both places are free.
        both = [asyncio.create_task(house.rows("SELECT 1")) for _ in range(2)]
        assert await asyncio.gather(*both) == [[(1,)], [(1,)]]


async def test_the_process_has_no_environment_no_files_and_no_network(house: House) -> None:
    async with house.oracle.ask(reader(house.acme), asked(f"SELECT * FROM {TICKETS}, range(1000000000)")):
        (running,) = house.oracle._asked[house.acme.id]
        assert running.process is not None
        process = psutil.Process(running.process.pid)
        assert set(process.environ()) - {"LD_LIBRARY_PATH"} == {
            "MALLOC_ARENA_MAX",
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
        }
        assert process.cwd() == os.sep
        assert process.net_connections() == []
        assert process.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
        assert process.rlimit(psutil.RLIMIT_CORE) == (0, 0)
        assert 2 * 1024**3 < process.rlimit(psutil.RLIMIT_AS)[1] < 16 * 1024**3
        written = [one.path for one in process.open_files() if "w" in getattr(one, "mode", "")]
        assert [path for path in written if path != os.devnull] == []
