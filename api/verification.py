"""The parts of one API process that verify and submit, put together."""

import asyncio
import contextlib
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.worker import Worker

from activities.crew import Crew
from activities.settler import Settler
from activities.workshop import LazyWorkshop
from api.acceptance import Acceptance
from api.bindings import BindingReads
from api.executions import ExecutionReads
from api.records import VerifyRecords
from api.submit import Submit
from api.targets import Targets
from api.verify import Verify
from bifrost.reading import Cuts
from store.blobs import BlobStore
from store.database import Database
from store.settings import Settings


@dataclass
class Verification:
    """What the verification routes call. Its worker shares the client, so submits start eagerly."""

    verify: Verify
    submit: Submit
    executions: ExecutionReads
    bindings: BindingReads
    records: VerifyRecords
    workshop: LazyWorkshop
    worker: Worker
    _running: asyncio.Task[None] | None = None

    @classmethod
    def build(
        cls, settings: Settings, database: Database, blobs: BlobStore, client: Client, cuts: Cuts
    ) -> "Verification":
        crew = Crew.of(settings, database, blobs, client, cuts)
        workshop = LazyWorkshop(settings, blobs)
        records = VerifyRecords(database, settings.home / "unstored")
        acceptance = Acceptance(settings, database, blobs)
        targets = Targets(database, crew.bundles, settings.target_cache_seconds)
        return cls(
            verify=Verify(acceptance, targets, workshop, records, crew.traces),
            submit=Submit(database, acceptance, targets, crew.known, client),
            executions=ExecutionReads(settings, database, client, Settler(database, client, crew.bundles)),
            bindings=BindingReads(settings, database, client),
            records=records,
            workshop=workshop,
            worker=crew.quick_worker(),
        )

    async def open(self) -> None:
        await self.records.open()
        self.workshop.begin()
        self._running = asyncio.create_task(self.worker.run())

    async def close(self) -> None:
        if self._running is not None:
            await self.worker.shutdown()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
        await self.submit.close()
        await self.records.close()
        await self.workshop.close()
