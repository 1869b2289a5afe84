"""Processes that publish without a pause, to be killed.

Called with the database's URL and the home. For each line it reads it starts one such process,
says its id, and says so again when that is dead. It has imported everything by then, so that a
start costs milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

from bifrost.catalog import Catalogs
from bifrost.scribe import lease, maintenance
from bifrost.scribe.publisher import Publisher
from store.database import Database
from store.settings import Settings


async def _publish(url: str, home: str) -> None:
    # A lease outlives the process that is killed: it is waited out, here for a moment.
    lease.LEASE_SECONDS = 0.02
    # So that kills meet the deletion of files as well.
    maintenance._EXPIRED_AT_ONCE = 3
    database = Database(url)
    settings = Settings(home=Path(home))
    publisher = Publisher(database, Catalogs(settings, database), settings)
    publisher.maintenance.grace = timedelta(seconds=2)
    while True:
        await publisher.pass_once(everything=True)
        await asyncio.sleep(0.001)


def _main(url: str, home: str) -> None:
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(_publish(url, home))
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        os.waitpid(child, 0)
        sys.stdout.write("dead\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
