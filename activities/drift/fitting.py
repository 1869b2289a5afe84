"""Starting the fits of baselines that declarations asked for, once the data they name have arrived."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.bundle import Bundles
from store.baselines import unfitted
from store.caller import Tenant
from store.database import Database
from store.leases import hold, release
from workflows import contracts
from workflows.contracts import FitBaselines
from wyrd.errors import WyrdError
from wyrd.wire.ids import uuid7

EVERY_SECONDS = 1.0
_LEASE = "baselines"
_LEASE_SECONDS = 15.0
_AGAIN_SECONDS = 300.0
_RPC = timedelta(seconds=10)

_log = logging.getLogger("wyrd.worker")


class Fitting:
    """Makes a workflow of every Verifier version whose baselines are to be fitted."""

    def __init__(self, database: Database, client: Client, bundles: Bundles) -> None:
        self._database = database
        self._client = client
        self._bundles = bundles
        self._started: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        """Look every second, while holding the lease; until cancelled."""
        holder = uuid7()
        try:
            while True:
                try:
                    if await self._database.write(hold, _LEASE, holder, _LEASE_SECONDS):
                        await self.pass_once()
                except Exception as error:
                    _log.warning("starting to fit baselines failed, and is tried again: %s", error)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self._database.write(release, _LEASE, holder)

    async def pass_once(self) -> None:
        """Start what is not under way. Starting again what is changes nothing."""
        now = asyncio.get_running_loop().time()
        waiting = await self._database.read(unfitted)
        keys = {(tenant.id, uid) for tenant, uid in waiting}
        self._started = {
            key: at for key, at in self._started.items() if key in keys and now - at < _AGAIN_SECONDS
        }
        for tenant, verifier_uid in waiting:
            if (tenant.id, verifier_uid) in self._started:
                continue
            try:
                # Raises while a Card it names waits for its files.
                await self._bundles.of(tenant, verifier_uid)
            except WyrdError as error:
                if error.status >= 500:
                    raise
                continue
            await self._start(tenant, verifier_uid)
            self._started[tenant.id, verifier_uid] = now

    async def _start(self, tenant: Tenant, verifier_uid: str) -> None:
        try:
            await self._client.start_workflow(
                contracts.BASELINE_WORKFLOW,
                FitBaselines(tenant_id=tenant.id, tenant_slug=tenant.slug, verifier_uid=verifier_uid),
                id=f"{tenant.slug}/baseline/{verifier_uid}",
                task_queue=contracts.QUEUE,
                static_summary="fit the baselines of a Verifier",
                rpc_timeout=_RPC,
            )
        except WorkflowAlreadyStartedError:
            return
