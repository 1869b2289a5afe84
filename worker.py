"""The worker process: connects, registers workflows and activities, runs until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Coroutine
from typing import Any

from activities.bundle import Bundles
from activities.dispatch.delivery import DispatchEnds
from activities.dispatch.starting import DispatchStarter
from activities.settler import Settler
from activities.temporal import (
    block_workers,
    connect,
    ensure_search_attributes,
    notify_worker,
    quick_worker,
)
from activities.traces import TraceEvidence
from activities.verification import VerificationActivities
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
    workshop = await open_workshop(settings, blobs)
    bundles = Bundles(database)
    catalogs = Catalogs(settings, database)
    cuts = Cuts(database, catalogs)
    activities = VerificationActivities(
        database,
        blobs,
        bundles,
        workshop.runner,
        TraceEvidence(database, blobs, cuts),
        api_url=settings.api_url,
    )
    workers = [
        quick_worker(client, [*activities.quick, *DispatchEnds(database).quick]),
        *block_workers(client, activities, settings),
        notify_worker(client, database, settings),
    ]
    publisher = Publisher(database, catalogs, settings)
    duties: list[Coroutine[Any, Any, None]] = [
        Settler(database, client, bundles).run(),
        DispatchStarter(database, client).run(),
        publisher.run(),
        workshop.gateway.warm(),
    ]
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
