"""One of two processes that write and read the same database (P68); run as a script.

Arguments: the database URL, this process's name. Prints one JSON line: the reads made, and
whatever went wrong.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from sqlalchemy import Connection, Table, func, insert, select

from store.database import Database, utc_now
from store.tables.identity import tenants
from wyrd.wire.ids import uuid7

WRITERS = 8
INSERTS = 50
READERS = 2


def add(connection: Connection, table: Table, slug: str) -> None:
    connection.execute(insert(table).values(id=uuid7(), slug=slug, created_at=utc_now()))


def count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


async def work(url: str, name: str) -> dict[str, Any]:
    database = Database(url)
    faults: list[str] = []
    done = asyncio.Event()
    reads = 0

    async def writer(number: int) -> None:
        for step in range(INSERTS):
            try:
                await database.write(add, tenants, f"{name}-{number}-{step}")
            except Exception as error:
                faults.append(repr(error))

    async def reader() -> None:
        nonlocal reads
        seen = 0
        while not done.is_set():
            try:
                found = await database.read(count, tenants)
            except Exception as error:
                faults.append(repr(error))
                return
            if found < seen:
                faults.append(f"rows vanished: {seen} then {found}")
            seen = found
            reads += 1

    readers = [asyncio.create_task(reader()) for _ in range(READERS)]
    await asyncio.gather(*(writer(number) for number in range(WRITERS)))
    done.set()
    await asyncio.gather(*readers)
    database.close()
    return {"faults": faults, "reads": reads}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(work(*sys.argv[1:]))) + "\n")
