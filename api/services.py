"""What the routes are served with: one object, opened and closed with the application."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.blobs import BlobStore
from store.database import Database
from store.settings import Settings
from store.tokens import Tokens

if TYPE_CHECKING:
    from temporalio.client import Client


@dataclass(slots=True)
class Services:
    """The parts of one API process. `temporal` is None until the server was reached."""

    settings: Settings
    database: Database
    blobs: BlobStore
    tokens: Tokens
    temporal: "Client | None" = None

    async def open(self) -> None:
        """Called when the application starts, in its event loop."""
        await self.blobs.open()

    async def close(self) -> None:
        """Called when the application stops; waits for the writes under way."""
        await self.blobs.close()
        self.database.close()
