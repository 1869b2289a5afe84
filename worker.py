"""The worker process: connects, registers workflows and activities, runs until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal

from activities.crew import Crew
from activities.drift.checks import DriftBlocks
from activities.temporal import connect, ensure_search_attributes
from activities.workshop import open_workshop
from bifrost.catalog import Catalogs
from bifrost.reading import Cuts
from bifrost.scribe.publisher import Publisher
from store.blobs import BlobStore
from store.blobs.local import LocalBlobs
from store.blobs.s3 import S3Blobs
from store.database import Database
from store.schema import upgrade
from store.settings import Settings
from store.signing import server_secret

_log = logging.getLogger("wyrd.worker")


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Work until `stop` is set; blocks under way get a few seconds to end, or go on elsewhere."""
    database = Database(settings.sql_url)
    blobs: BlobStore = (
        LocalBlobs(settings.home / "blobs", server_secret(settings))
        if settings.blob_url is None
        else S3Blobs(settings)
    )
    await blobs.open()
    client = await connect(settings)
    await ensure_search_attributes(client)
    catalogs = Catalogs(settings, database)
    cuts = Cuts(database, catalogs)
    workshop = await open_workshop(settings, blobs, drift=DriftBlocks(database, cuts))
    crew = Crew.of(settings, database, blobs, client, cuts, workshop)
    workers = [crew.quick_worker(), *crew.slow_workers()]
    publisher = Publisher(database, catalogs, settings)
    duties = [*crew.duties(), publisher.run(), workshop.gateway.warm()]
    running = [asyncio.create_task(worker.run()) for worker in workers]
    background = [asyncio.create_task(duty) for duty in duties]
    _log.info("ready: code runs in %s", workshop.sandbox.engine)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopping, *running], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*(worker.shutdown() for worker in workers))
        await asyncio.gather(*running)
    finally:
        stopping.cancel()
        for task in background:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*background, return_exceptions=True)
        await asyncio.to_thread(publisher.close)
        await asyncio.to_thread(cuts.close)
        await workshop.close()
        await blobs.close()
        database.close()


def main() -> None:
    """Entry of the process; settings come from the environment."""
    settings = Settings()
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    settings.home.mkdir(parents=True, exist_ok=True)
    upgrade(settings.sql_url)

    async def until_signalled() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await run(settings, stop)

    asyncio.run(until_signalled())


if __name__ == "__main__":
    main()
