"""The application that `wyrd serve` runs: settings from the environment, everything connected."""

import gc
import logging

from fastapi import FastAPI

from activities.temporal import connect, ensure_search_attributes
from api.app import create_app
from api.services import Services
from api.verification import Verification
from store.first_start import ensure_dev_key, ensure_tenant
from store.schema import upgrade
from store.settings import Settings


class ServerServices(Services):
    """Services that connect to Temporal when the application starts."""

    async def open(self) -> None:
        tenant = await ensure_tenant(self.database, self.settings.tenant)
        if self.settings.dev_key:
            await ensure_dev_key(self.database, tenant, self.settings.home)
        self.temporal = await connect(self.settings)
        await ensure_search_attributes(self.temporal)
        self.verifying = Verification.build(self.settings, self.database, self.blobs, self.temporal)
        await super().open()
        # What was loaded to start lives as long as the process: collections need not walk it again.
        gc.collect()
        gc.freeze()


def create() -> FastAPI:
    """The factory uvicorn is given. Brings the database's schema up to date first."""
    settings = Settings()
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    settings.home.mkdir(parents=True, exist_ok=True)
    upgrade(settings.sql_url)
    return create_app(ServerServices.of(settings))
