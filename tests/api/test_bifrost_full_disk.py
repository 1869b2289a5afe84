"""A disk that is full: every door refuses in so many words, and what was acknowledged stays.

SQLite is told that its file may not grow, and so says what it says of a full disk, where it would.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from api.services import Services
from bifrost.scribe.publisher import Publisher
from store.database import Database
from tests.api.bifrost_doors import DOORS, TABLES, Doors, Row, doors_of
from tests.api.conftest import Person
from wyrd.wire.ids import uuid7

FULL = "WYRD_VALA_507_WAL_DISK_FULL"
MOST_PAGES = 1_073_741_823


class Disk:
    """How much room a database has: every connection is told when it is taken from the pool."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._most = MOST_PAGES
        event.listen(database.engine, "checkout", self._tell)

    def _tell(self, connection: Any, _record: Any, _proxy: Any) -> None:
        connection.execute(f"PRAGMA max_page_count = {self._most}").close()

    def fill(self, more: int = 0) -> None:
        """Let there be room for so many pages more."""
        pages = self._database.read_now(
            lambda connection: connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        )
        self._most = pages + more

    def empty(self) -> None:
        self._most = MOST_PAGES

    def close(self) -> None:
        event.remove(self._database.engine, "checkout", self._tell)


@pytest.fixture
def disk(services: Services) -> Iterator[Disk]:
    disk = Disk(services.database)
    yield disk
    disk.close()


@pytest.fixture
async def doors(services: Services, client: httpx.AsyncClient, admin: Person) -> AsyncIterator[Doors]:
    async with doors_of(services, client) as doors:
        await doors.register(admin)
        yield doors


def word(chance: random.Random) -> str:
    """A long one, which no compression makes short."""
    return chance.randbytes(8000).hex()


@pytest.mark.parametrize("door", DOORS)
async def test_a_full_disk_refuses_and_loses_nothing_that_was_acknowledged(
    doors: Doors, services: Services, disk: Disk, admin: Person, door: str
) -> None:
    chance, table = random.Random(door), TABLES[door]
    disk.fill(40)
    acknowledged: list[str] = []
    while True:
        batch_id, row = uuid7(), Row(word(chance))
        told = await doors.send(door, admin, batch_id, row)
        if told.status != 200:
            break
        acknowledged.append(row.word)
        assert len(acknowledged) < 40, "the disk does not fill"
    assert acknowledged, "the disk was full from the beginning"
    assert (told.status, told.code) == (507, FULL)
    assert str(services.settings.home) not in told.text
    # Again, while it stays full; and what is there can still be read.
    assert (await doors.send(door, admin, batch_id, row)).code == FULL
    assert await doors.words(admin, table) == sorted(acknowledged)
    disk.empty()
    # The client repeats what was refused: it was not half stored, so it is no repeat.
    again = await doors.send(door, admin, batch_id, row)
    assert again.status == 200
    if door in ("json", "arrow"):
        assert '"duplicate":false' in again.text
    assert await doors.words(admin, table) == sorted([*acknowledged, row.word])


async def test_every_door_goes_on_by_itself_when_there_is_room_again(
    doors: Doors, services: Services, disk: Disk, admin: Person
) -> None:
    """One full disk and all doors at it; afterwards everything is published, once."""
    chance = random.Random(507)
    sent = {door: (uuid7(), Row(f"{door} {word(chance)}")) for door in DOORS}
    before = {door: (uuid7(), Row(f"before {door}")) for door in DOORS}
    for door, (batch_id, row) in before.items():
        assert (await doors.send(door, admin, batch_id, row)).status == 200
    publisher = Publisher(services.database, services.bifrost.catalogs, services.settings)
    disk.fill()
    for door, (batch_id, row) in sent.items():
        assert (await doors.send(door, admin, batch_id, row)).code == FULL, door
    disk.empty()
    for door, (batch_id, row) in sent.items():
        for _ in range(2):
            assert (await doors.send(door, admin, batch_id, row)).status == 200, door
    expected: dict[str, list[str]] = {}
    for door, table in TABLES.items():
        expected.setdefault(table, []).extend([before[door][1].word, sent[door][1].word])
    for table, words in expected.items():
        assert await doors.words(admin, table) == sorted(words)
    while await publisher.pass_once(everything=True):
        pass
    publisher.close()
    for table, words in expected.items():
        assert await doors.words(admin, table) == sorted(words)
