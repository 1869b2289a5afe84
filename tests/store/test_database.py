"""Reads and writes: isolation, group commit, and many writers in two processes (P68)."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, insert, select, text
from sqlalchemy.exc import IntegrityError

from store.database import Database, utc_now
from store.tables.identity import tenants
from tests.servers import free_ports
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7

ROOT = Path(__file__).parents[2]


def add(connection: Connection, slug: str) -> str:
    connection.execute(insert(tenants).values(id=uuid7(), slug=slug, created_at=utc_now()))
    return slug


def count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(tenants)).scalar_one())


async def test_a_write_is_visible_once_it_returned(database: Database) -> None:
    assert await database.write(add, "one") == "one"
    assert await database.read(count) == 1


async def test_a_write_that_raises_leaves_nothing_and_spoils_no_neighbour(database: Database) -> None:
    def half(connection: Connection, slug: str) -> None:
        add(connection, slug)
        raise ValueError("no")

    writes = [database.write(half if n % 3 == 0 else add, f"t{n}") for n in range(30)]
    told = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(one) for one in told] == [ValueError if n % 3 == 0 else str for n in range(30)]
    assert await database.read(count) == 20


async def test_a_broken_rule_of_the_schema_spoils_no_neighbour(database: Database) -> None:
    writes = [database.write(add, "same" if n % 2 else f"t{n}") for n in range(10)]
    told = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(one, IntegrityError) for one in told) == 4
    assert await database.read(count) == 6


async def test_what_a_read_writes_is_rolled_back(database: Database) -> None:
    await database.read(add, "one")
    assert await database.read(count) == 0


async def test_instants_come_back_aware_and_exact(database: Database) -> None:
    before = utc_now()
    await database.write(add, "one")
    (found,) = await database.read(
        lambda connection: connection.execute(select(tenants.c.created_at)).scalars().all()
    )
    assert found.utcoffset() is not None
    assert before <= found <= utc_now()


async def test_the_database_tells_the_time(database: Database) -> None:
    before = utc_now()
    told = await database.clock()
    assert told.utcoffset() is not None
    assert abs((told - before).total_seconds()) < 60


async def test_writes_queued_before_close_are_committed(database: Database) -> None:
    writes = [asyncio.ensure_future(database.write(add, f"t{n}")) for n in range(20)]
    await asyncio.sleep(0)
    await asyncio.to_thread(database.close)
    assert len(await asyncio.gather(*writes)) == 20


async def test_a_closed_sqlite_database_refuses_writes(sqlite_database: Database) -> None:
    sqlite_database.close()
    with pytest.raises(WyrdError) as refused:
        await sqlite_database.write(add, "late")
    assert refused.value.member is Code.SERVER_503_SERVICE_UNAVAILABLE


async def test_an_unreachable_database_is_told_as_unavailable() -> None:
    database = Database(f"postgresql+psycopg://nobody@127.0.0.1:{free_ports(1)[0]}/none")
    for asking in (database.read(count), database.write(add, "one")):
        with pytest.raises(WyrdError) as refused:
            await asking
        assert refused.value.member is Code.SERVER_503_SERVICE_UNAVAILABLE
    database.close()


async def test_a_full_disk_is_told_as_such_and_leaves_nothing(database: Database) -> None:
    await database.write(add, "before")

    def fill(connection: Connection) -> None:
        add(connection, "half")
        if connection.dialect.name == "postgresql":
            connection.execute(text("DO $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END $$"))
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count = {pages}"))
        connection.execute(text("CREATE TABLE large (x)"))
        connection.execute(text("INSERT INTO large VALUES (zeroblob(1000000))"))

    with pytest.raises(WyrdError) as refused:
        await database.write(fill)
    assert refused.value.member is Code.VALA_507_WAL_DISK_FULL
    assert await database.read(count) == 1
    if database.sqlite:
        await database.write(lambda connection: connection.execute(text("PRAGMA max_page_count = 1000000")))
    assert await database.write(add, "after") == "after"


async def test_sqlite_waits_for_the_disk_and_keeps_a_log_ahead(sqlite_database: Database) -> None:
    def pragmas(connection: Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return [connection.execute(text(f"PRAGMA {name}")).scalar() for name in names]

    assert await sqlite_database.read(pragmas) == ["wal", 2, 1, 30_000]


async def test_p68_sixteen_writers_and_four_readers_in_two_processes_never_meet_a_locked_database(
    database: Database,
) -> None:
    command = [sys.executable, str(ROOT / "tests/store/contending_process.py"), database.url]
    running = [
        await asyncio.create_subprocess_exec(
            *command,
            name,
            stdout=asyncio.subprocess.PIPE,
            env={"PYTHONPATH": f"{ROOT / 'sdk'}:{ROOT}"},
        )
        for name in ("api", "worker")
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in running))
    told = [json.loads(output) for output, _ in outputs]
    assert [one["faults"] for one in told] == [[], []]
    assert all(one["reads"] > 0 for one in told)
    assert await database.read(count) == 16 * 50
