"""The data plane of one process, put together from the settings."""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.catalog import Catalogs
from bifrost.oracle.answers import Oracle
from bifrost.reading import Cuts
from bifrost.scribe.intake import Scribe
from store.database import Database
from store.settings import Settings


@dataclass(frozen=True, slots=True)
class DataPlane:
    """Its parts share one database; nothing is opened before it is used."""

    catalogs: Catalogs
    cuts: Cuts
    scribe: Scribe
    oracle: Oracle

    @classmethod
    def of(cls, settings: Settings, database: Database) -> DataPlane:
        catalogs = Catalogs(settings, database)
        cuts = Cuts(database, catalogs)
        return cls(catalogs, cuts, Scribe(database, settings), Oracle(settings, database, cuts))

    async def close(self) -> None:
        await self.oracle.close()
        self.cuts.close()
