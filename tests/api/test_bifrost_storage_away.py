"""A bucket that cannot be reached: rows are taken, queries over its files say so, and all comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.services import Services
from bifrost.scribe.publisher import Publisher
from store.settings import Settings
from tests.api.bifrost_doors import DOORS, TABLES, WORD, Doors, Row, doors_of
from tests.api.conftest import Person
from tests.bifrost.conftest import bucket
from tests.bifrost.way import Way
from tests.servers import S3Server
from wyrd.wire.ids import uuid7

AWAY = "WYRD_VALA_503_BIFROST_STORAGE_UNREACHABLE"
LATE = "WYRD_VALA_504_QUERY_TIMEOUT"
NOTES = "vala.datasets.notes"


@pytest.fixture
def way(s3: S3Server) -> Iterator[Way]:
    with Way(s3.endpoint) as way:
        yield way


@pytest.fixture
def settings(tmp_path: Path, s3: S3Server, way: Way) -> Settings:
    """Of an application whose tables are in a bucket on that way."""
    settings: dict[str, Any] = bucket(s3) | {"s3_endpoint": way.endpoint}
    return Settings(home=tmp_path / "home", max_body_bytes=64 * 1024, query_seconds=20.0, **settings)


@pytest.fixture
async def doors(services: Services, client: httpx.AsyncClient, admin: Person) -> AsyncIterator[Doors]:
    async with doors_of(services, client) as doors:
        await doors.register(admin)
        yield doors


@pytest.fixture
async def publisher(services: Services) -> AsyncIterator[Publisher]:
    publisher = Publisher(services.database, services.bifrost.catalogs, services.settings)
    yield publisher
    publisher.close()


async def fill(doors: Doors, who: Person, word: str) -> dict[str, list[str]]:
    """One row through each door; the words by table."""
    words: dict[str, list[str]] = {}
    for door, table in TABLES.items():
        told = await doors.send(door, who, uuid7(), Row(f"{word} {door}"))
        assert told.status == 200, (door, told)
        words.setdefault(table, []).append(f"{word} {door}")
    return words


def forget_files(services: Services) -> None:
    """As in a process that has just started: it knows no file of the tables yet."""
    services.bifrost.catalogs.metadata.cache_clear()  # type: ignore[attr-defined]
    files = services.bifrost.catalogs.files
    for known in (files._of, files._manifest):
        known.cache_clear()


@pytest.mark.parametrize("known", [True, False], ids=["files known", "nothing known"])
async def test_p64_a_bucket_that_refuses_stops_no_recording_and_loses_nothing(
    doors: Doors, services: Services, publisher: Publisher, admin: Person, way: Way, known: bool
) -> None:
    before = await fill(doors, admin, "before")
    assert await publisher.pass_once(everything=True) == len(DOORS)
    for table, words in before.items():
        assert await doors.words(admin, table) == sorted(words)
    way.close()
    during = await fill(doors, admin, "during")
    assert await publisher.pass_once(everything=True) == 0
    if not known:
        forget_files(services)
    # All at once: each of them waits for its own tries.
    questions = [f"SELECT {WORD[table]} FROM {table}" for table in before]
    answers = await asyncio.gather(*(doors.query(admin, sql) for sql in questions))
    tools = await asyncio.gather(*(doors.tool(admin, "bifrost.query", {"sql": sql}) for sql in questions[:2]))
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (503, AWAY)
    for failed, told in tools:
        assert failed
        assert AWAY in told
    for text in [answer.text for answer in answers] + [told for _, told in tools]:
        assert "s3://" not in text
        assert "127.0.0.1" not in text
        assert str(way.port) not in text
    # What needs no file of the bucket is answered, and tables are still listed and described.
    assert (await doors.query(admin, "SELECT 1")).status_code == 200
    failed, _ = await doors.tool(admin, "bifrost.describe_table", {"namespace": "datasets", "name": "notes"})
    assert not failed
    way.open()
    for table, words in before.items():
        assert await doors.words(admin, table) == sorted([*words, *during[table]])
    assert await publisher.pass_once(everything=True) == len(DOORS)
    for table, words in before.items():
        assert await doors.words(admin, table) == sorted([*words, *during[table]])


async def test_p64_a_table_that_was_never_published_is_read_without_its_bucket(
    doors: Doors, admin: Person, publisher: Publisher, way: Way
) -> None:
    way.close()
    words = await fill(doors, admin, "early")
    assert await publisher.pass_once(everything=True) == 0
    for table in words:
        assert await doors.words(admin, table) == sorted(words[table])


async def test_p64_a_bucket_that_does_not_answer_holds_no_query_past_its_deadline(
    doors: Doors, services: Services, publisher: Publisher, admin: Person, client: httpx.AsyncClient, way: Way
) -> None:
    before = await fill(doors, admin, "before")
    assert await publisher.pass_once(everything=True) == len(DOORS)
    way.hang()
    during = await fill(doors, admin, "during")
    stuck = asyncio.ensure_future(publisher.pass_once(everything=True))
    forget_files(services)
    headers = {**admin.headers, "accept": "application/json"}
    asked = {"sql": f"SELECT note FROM {NOTES}", "deadline_ms": 1500}
    for _ in range(2):
        answer = await client.post("/v1/query", json=asked, headers=headers)
        assert (answer.status_code, answer.json()["code"]) in ((503, AWAY), (504, LATE))
    assert (await fill(doors, admin, "still")).keys() == before.keys()
    assert not stuck.done()
    way.close()
    assert await stuck == 0
    way.open()
    expected = {
        table: sorted([*words, *during[table], *(word.replace("before", "still") for word in words)])
        for table, words in before.items()
    }
    for table, words in expected.items():
        assert await doors.words(admin, table) == words
    assert await publisher.pass_once(everything=True) == 2 * len(DOORS)
    for table, words in expected.items():
        assert await doors.words(admin, table) == words
