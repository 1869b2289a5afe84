"""Queries over the storage of production, and over storage that is away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.bifrost.answered_sql import TICKETS
from tests.bifrost.asked import TICKETS as NAME
from tests.bifrost.asked import House
from tests.bifrost.conftest import bucket
from tests.conftest import opened
from tests.servers import S3Server
from wyrd.errors import Code, WyrdError


async def test_files_in_a_bucket_are_read_by_the_process_and_never_by_sql(
    s3: S3Server, tmp_path: Path
) -> None:
    settings = bucket(s3)
    async with published(tmp_path, **settings) as house:
        assert await house.rows(f"SELECT count(*), min(ticket_id) FROM {TICKETS}") == [(6, "ours-0")]
        theirs = await house.rows(f"SELECT min(ticket_id) FROM {TICKETS}", tenant=house.rival)
        assert theirs == [("theirs-0",)]
        error = await house.refusal(f"SELECT * FROM read_parquet('{settings['warehouse_url']}/**')")
        assert error is not None
        assert error.member is Code.VALA_400_QUERY_INVALID_SQL


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with published(tmp_path) as house:
        yield house


@pytest.mark.parametrize("sql", [f"SELECT * FROM {TICKETS}", f"SELECT max(priority) FROM {TICKETS}"])
@pytest.mark.parametrize("harm", ["gone", "no parquet", "other bytes"])
async def test_a_file_that_cannot_be_read_is_our_fault_and_its_path_is_not_told(
    house: House, harm: str, sql: str
) -> None:
    # Its list of files is known from here on, as it is to a process that asks again.
    assert await house.rows(f"SELECT count(*) FROM {TICKETS}") == [(6,)]
    for path in house.settings.home.rglob("*.parquet"):
        spoil(path, harm)
    error = await house.refusal(sql)
    assert error is not None
    assert error.member is Code.VALA_503_BIFROST_STORAGE_UNREACHABLE
    told = f"{error} {error.detail} {error.details}"
    assert str(house.settings.home) not in told
    assert ".parquet" not in told
    assert await house.rows("SELECT 1") == [(1,)]


@pytest.mark.parametrize("harm", ["gone", "no parquet", "other bytes"])
async def test_wyrds_own_readers_say_the_same_of_a_file_that_cannot_be_read(house: House, harm: str) -> None:
    for path in house.settings.home.rglob("*.parquet"):
        spoil(path, harm)
    with pytest.raises(WyrdError) as raised:
        await house.cuts.rows(house.acme, NAME)
    assert raised.value.member is Code.VALA_503_BIFROST_STORAGE_UNREACHABLE
    assert ".parquet" not in f"{raised.value} {raised.value.detail} {raised.value.details}"


@pytest.mark.parametrize(
    "words", ["IOError: x", "reading the stream registered as '_cut_0' failed: IOError: x"]
)
async def test_what_a_row_says_makes_no_fault_of_the_storage_of_the_askers_own(
    house: House, words: str
) -> None:
    error = await house.refusal(f"SELECT CAST($1 || ticket_id AS INTEGER) FROM {TICKETS}", words)
    assert error is not None
    assert error.member is Code.VALA_400_QUERY_INVALID_SQL


@asynccontextmanager
async def published(home: Path, **settings: str) -> AsyncIterator[House]:
    """A house whose rows are in files, and which is closed whatever is found there."""
    database = opened(f"sqlite:///{home / 'wyrd.db'}")
    house = House.built(database, home, query_workers=1, **settings)
    try:
        await house.publish()
        yield house
    finally:
        await house.oracle.close()
        house.cuts.close()
        database.close()


def spoil(path: Path, harm: str) -> None:
    match harm:
        case "gone":
            path.unlink()
        case "no parquet":
            path.write_bytes(b"PAR1" + b"x" * 100 + b"PAR1")
        case "other bytes":
            held = path.read_bytes()
            # Its footer stays: what it tells of is no longer there.
            footer = 8 + int.from_bytes(held[-8:-4], "little")
            path.write_bytes(b"PAR1" + b"\xff" * (len(held) - footer - 4) + held[-footer:])
