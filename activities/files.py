"""Pinned files on local disk for as long as blocks read them, checked against their digests."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from activities.folder import Folder
from engine.failure import BlockFailure, ReasonKind
from store.blobs import BlobStore, DigestMismatch
from store.caller import Tenant
from wyrd.errors import WyrdError

_KEPT_BYTES = 1024 * 1024 * 1024


class FileShelf:
    """A folder of recently read files, one copy a digest; the oldest unused ones go when it fills.

    Digests are checked when a file comes in, so a file on the shelf is the pinned one. Tenants do
    not share copies: the key is tenant and digest.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._folder = Folder()
        self._sizes: OrderedDict[Path, int] = OrderedDict()
        self._users: dict[Path, int] = {}
        self._locks: dict[Path, asyncio.Lock] = {}

    def close(self) -> None:
        self._folder.remove()

    @asynccontextmanager
    async def open(self, tenant: Tenant, sha256: str, size_bytes: int | None = None) -> AsyncIterator[Path]:
        """The file's path, read-only, kept at least until the block ends.

        Raises `BlockFailure`: DIGEST_MISMATCH, MISSING_EVIDENCE when it is gone, or the store's
        trouble as a retryable EVIDENCE_UNREADABLE.
        """
        path = self._folder.path / f"{tenant.id}-{sha256}"
        self._users[path] = self._users.get(path, 0) + 1
        try:
            async with self._locks.setdefault(path, asyncio.Lock()):
                if path not in self._sizes:
                    self._sizes[path] = await self._fetch(tenant, sha256, path)
            self._sizes.move_to_end(path)
            if size_bytes is not None and self._sizes[path] != size_bytes:
                raise BlockFailure(
                    ReasonKind.DIGEST_MISMATCH,
                    f"the stored file has {self._sizes[path]} bytes, and {size_bytes} were declared",
                )
            yield path
        finally:
            self._users[path] -= 1
            if not self._users[path]:
                del self._users[path]
                if path not in self._sizes:
                    del self._locks[path]
            self._tidy()

    async def _fetch(self, tenant: Tenant, sha256: str, path: Path) -> int:
        # A cancelled fetch may go on in its thread; it must not leave its file where the next one writes.
        coming = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        fetching = asyncio.ensure_future(self._blobs.fetch(tenant, sha256, coming))
        try:
            size = await asyncio.shield(fetching)
        except asyncio.CancelledError:
            fetching.add_done_callback(partial(_discard, coming))
            raise
        except DigestMismatch as error:
            raise BlockFailure(ReasonKind.DIGEST_MISMATCH, error.detail) from None
        except WyrdError as error:
            if error.status == 404:
                raise BlockFailure(ReasonKind.MISSING_EVIDENCE, "the file is no longer stored") from None
            raise BlockFailure(ReasonKind.EVIDENCE_UNREADABLE, error.detail, retryable=True) from None
        os.chmod(coming, 0o444)
        os.replace(coming, path)
        return size

    def _tidy(self) -> None:
        total = sum(self._sizes.values())
        for path in list(self._sizes):
            if total <= _KEPT_BYTES:
                return
            if path not in self._users:
                total -= self._sizes.pop(path)
                self._locks.pop(path, None)
                path.unlink(missing_ok=True)


def _discard(path: Path, fetching: asyncio.Future[int]) -> None:
    if not fetching.cancelled() and fetching.exception() is None:
        path.unlink(missing_ok=True)
