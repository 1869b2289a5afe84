"""Everything a process does for Temporal, put together from its parts: activities, workers, duties."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from activities.bundle import Bundles
from activities.dispatch.delivery import DispatchEnds
from activities.dispatch.starting import DispatchStarter
from activities.drift.baselines import BaselineActivities
from activities.drift.fitting import Fitting
from activities.drift.windows import WindowActivities
from activities.groups import GroupActivities
from activities.known import KnownExecutions
from activities.relay import Relay
from activities.running import BlockActivities
from activities.schedules import Schedules
from activities.settler import Settler
from activities.temporal import block_workers, notify_worker, quick_worker
from activities.traces import TraceEvidence
from activities.verification import VerificationActivities
from activities.workshop import Workshop
from bifrost.reading import Cuts
from store.blobs import BlobStore
from store.database import Database
from store.settings import Settings


@dataclass(frozen=True)
class Crew:
    """One process's share of the work. Without a `workshop` it runs no blocks, only what is quick."""

    settings: Settings
    database: Database
    client: Client
    bundles: Bundles
    traces: TraceEvidence
    known: KnownExecutions
    workshop: Workshop | None

    @classmethod
    def of(
        cls,
        settings: Settings,
        database: Database,
        blobs: BlobStore,
        client: Client,
        cuts: Cuts,
        workshop: Workshop | None = None,
    ) -> Crew:
        bundles = Bundles(database)
        traces = TraceEvidence(database, blobs, cuts)
        known = KnownExecutions(database, blobs, bundles, traces)
        return cls(settings, database, client, bundles, traces, known, workshop)

    def quick_worker(self) -> Worker:
        """The worker of workflows and of activities that take milliseconds."""
        verification = VerificationActivities(
            self.database, self.bundles, self.known, api_url=self.settings.api_url
        )
        groups = GroupActivities(self.database, self.bundles, self.settings)
        windows = WindowActivities(self.database, self.bundles, self.client, self.settings)
        quick = [
            *verification.quick,
            *DispatchEnds(self.database).quick,
            *groups.quick,
            *windows.quick,
        ]
        return quick_worker(self.client, quick)

    def slow_workers(self) -> list[Worker]:
        """The workers of blocks, of deliveries and of baselines."""
        assert self.workshop is not None
        blocks = BlockActivities(self.database, self.known, self.workshop.runner)
        fitting = BaselineActivities(self.database, self.bundles, self.workshop.runner.shelf)
        return [
            *block_workers(self.client, [*blocks.activities, *fitting.activities], self.settings),
            notify_worker(self.client, self.database, self.settings),
        ]

    def duties(self) -> list[Coroutine[Any, Any, None]]:
        """What runs all the time, each under a lease: several processes may run them."""
        return [
            Settler(self.database, self.client, self.bundles).run(),
            DispatchStarter(self.database, self.client).run(),
            Relay(self.database, self.client).run(),
            Schedules(self.database, self.client).run(),
            Fitting(self.database, self.client, self.bundles).run(),
        ]
