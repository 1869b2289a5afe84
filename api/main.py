"""The application that `wyrd serve` runs: settings from the environment, everything connected."""

import asyncio
import gc
import logging

from fastapi import FastAPI
from temporalio.service import RPCError

from activities.temporal import connect, ensure_search_attributes
from api.app import create_app
from api.grpc.door import InsertDoor, check_port
from api.services import Services
from api.verification import Verification
from store.first_start import ensure_dev_key, ensure_tenant
from store.schema import upgrade
from store.settings import Settings
from wyrd.errors import WyrdError

_FIRST_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_TOLD_EVERY = 60
"""Attempts to reach Temporal between two lines of the log."""

_log = logging.getLogger("wyrd.api")


class ServerServices(Services):
    """Services that connect to Temporal once it is there; until then verification answers 503."""

    _connecting: asyncio.Task[None] | None = None
    _inserts: InsertDoor | None = None

    async def open(self) -> None:
        tenant = await ensure_tenant(self.database, self.settings.tenant)
        if self.settings.dev_key:
            await ensure_dev_key(self.database, tenant, self.settings.home)
        await super().open()
        self._connecting = asyncio.create_task(self._connect())
        # With Temporal there, the first request already finds everything open.
        await asyncio.wait([self._connecting], timeout=_FIRST_SECONDS)
        if self._connecting.done():
            # A fault of ours is no reason to wait for Temporal for ever without a word.
            self._connecting.result()
        self._inserts = InsertDoor(self)
        await self._inserts.open()

    async def close(self) -> None:
        if self._inserts is not None:
            await self._inserts.close()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        await super().close()

    async def _connect(self) -> None:
        attempts = 0
        while self.verifying is None:
            try:
                client = await connect(self.settings)
                await ensure_search_attributes(client)
                verifying = Verification.build(
                    self.settings, self.database, self.blobs, client, self.bifrost.cuts
                )
                await verifying.open()
                self.temporal, self.verifying = client, verifying
            except (RuntimeError, RPCError) as error:
                if attempts % _TOLD_EVERY == 0:
                    _log.warning("Temporal is not reachable, and is tried again: %s", error)
                attempts += 1
                await asyncio.sleep(_AGAIN_SECONDS)
        # What was loaded to start lives as long as the process: collections need not walk it again.
        gc.collect()
        gc.freeze()


def create() -> FastAPI:
    """The factory uvicorn is given. Brings the database's schema up to date first."""
    settings = Settings()
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    try:
        # Known before anything is changed, and said without a trace; the lifespan would show one.
        check_port(settings.host, settings.grpc_port)
    except WyrdError as error:
        raise SystemExit(f"error: {error.detail}") from None
    settings.home.mkdir(parents=True, exist_ok=True)
    upgrade(settings.sql_url)
    return create_app(ServerServices.of(settings))
