"""What the routes are served with: one object, opened and closed with the application."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bifrost.plane import DataPlane
from store.blobs import BlobStore
from store.blobs.local import LocalBlobs
from store.blobs.s3 import S3Blobs
from store.database import Database
from store.sealing import Sealer
from store.settings import Settings
from store.signing import server_secret
from store.tokens import Tokens
from wyrd.errors import Code, WyrdError

if TYPE_CHECKING:
    from temporalio.client import Client

    from api.verification import Verification


@dataclass(slots=True)
class Services:
    """The parts of one API process. `temporal` is None until the server was reached."""

    settings: Settings
    database: Database
    blobs: BlobStore
    tokens: Tokens
    bifrost: DataPlane
    sealer: Sealer
    temporal: "Client | None" = None
    verifying: "Verification | None" = None

    @property
    def verification(self) -> "Verification":
        """What verifies and submits. Raises `WYRD_SERVER_503_NOT_READY` before it is open."""
        if self.verifying is None:
            raise WyrdError(Code.SERVER_503_NOT_READY, "the server is still starting")
        return self.verifying

    @classmethod
    def of(cls, settings: Settings) -> "Services":
        """The parts as the settings name them, not opened yet. The schema is brought up to date
        by `store.schema.upgrade`, before.
        """
        secret = server_secret(settings)
        database = Database(settings.sql_url)
        if settings.blob_url is None:
            blobs: BlobStore = LocalBlobs(settings.home / "blobs", secret)
        else:
            blobs = S3Blobs(settings)
        return cls(
            settings,
            database,
            blobs,
            Tokens(database, secret),
            DataPlane.of(settings, database),
            Sealer.of(settings),
        )

    async def open(self) -> None:
        """Called when the application starts, in its event loop."""
        await self.blobs.open()
        if self.verifying is not None:
            await self.verifying.open()

    async def close(self) -> None:
        """Called when the application stops; waits for the writes under way."""
        if self.verifying is not None:
            await self.verifying.close()
        await self.blobs.close()
        await self.bifrost.close()
        self.database.close()
