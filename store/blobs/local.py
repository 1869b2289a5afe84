"""Blobs as files in one folder: `<root>/<tenant>/<2 hex>/<2 hex>/<digest>`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import secrets
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, ParamSpec, TypeVar

from store.blobs import (
    CHUNK,
    URL_SECONDS,
    DigestMismatch,
    checked_digest,
    not_found,
    sha256_mismatch,
    size_mismatch,
    too_large,
)
from store.blobs.addresses import Addresses
from store.caller import Tenant
from wyrd.errors import Code, WyrdError
from wyrd.wire.uploads import LocalPlan, PutTarget

P = ParamSpec("P")
T = TypeVar("T")

_ABANDONED_SECONDS = 24 * 3600.0


class LocalBlobs:
    """A `BlobStore` in a folder. Upload addresses lead to this server's own blob routes."""

    def __init__(self, root: Path, secret: bytes) -> None:
        self.root = root
        self.addresses = Addresses(secret)

    async def open(self) -> None:
        await _in_thread(self._prepare)

    async def close(self) -> None:
        return None

    async def check(self) -> None:
        await _in_thread(self._probe)

    async def put(self, tenant: Tenant, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        await _in_thread(self._put, tenant, sha256, data)
        return sha256

    async def put_file(self, tenant: Tenant, path: Path, sha256: str, size: int) -> None:
        checked_digest(sha256)
        if await self.size(tenant, sha256) != size:
            await self.receive(tenant, sha256, size, _chunks_of(path))

    async def receive(
        self,
        tenant: Tenant,
        sha256: str,
        size: int | None,
        chunks: AsyncIterable[bytes],
        *,
        limit: int | None = None,
    ) -> int:
        """Store a stream under the digest it must turn out to have, and answer its size.

        `size` is exact when given, `limit` the most otherwise. Raises as `put_file` does, at the
        first byte too many; what was written until then is gone.
        """
        checked_digest(sha256)
        coming = await _in_thread(_Coming, self._folder(tenant, "incoming"))
        most = size if size is not None else limit
        try:
            async for chunk in chunks:
                if most is not None and coming.size + len(chunk) > most:
                    actual = coming.size + len(chunk)
                    raise size_mismatch(most, actual) if size is not None else too_large(actual, most)
                if chunk:
                    await _in_thread(coming.write, chunk)
            if size is not None and coming.size != size:
                raise size_mismatch(size, coming.size)
            if coming.digest != sha256:
                raise sha256_mismatch(sha256, coming.digest)
            await _in_thread(coming.publish, self.path(tenant, sha256))
        finally:
            # Shielded: an upload that is cancelled twice must not leave its file behind.
            await asyncio.shield(_in_thread(coming.discard))
        return coming.size

    async def missing(self, tenant: Tenant, wanted: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        unique = dict.fromkeys((checked_digest(sha256), size) for sha256, size in wanted)
        return await _in_thread(
            lambda: [(sha256, size) for sha256, size in unique if self._size(tenant, sha256) != size]
        )

    async def size(self, tenant: Tenant, sha256: str) -> int | None:
        checked_digest(sha256)
        return await _in_thread(self._size, tenant, sha256)

    async def get(self, tenant: Tenant, sha256: str, *, limit: int | None = None) -> bytes:
        checked_digest(sha256)
        return await _in_thread(self._get, tenant, sha256, limit)

    async def fetch(self, tenant: Tenant, sha256: str, into: Path) -> int:
        checked_digest(sha256)
        return await _in_thread(self._fetch, tenant, sha256, into)

    async def upload_plan(self, tenant: Tenant, sha256: str, size: int) -> LocalPlan:
        address = self.addresses.make("PUT", tenant, checked_digest(sha256), size, URL_SECONDS)
        return LocalPlan(data=PutTarget(put_url=address, ttl_secs=URL_SECONDS))

    async def get_url(self, tenant: Tenant, sha256: str, size: int, *, seconds: int = URL_SECONDS) -> str:
        return self.addresses.make("GET", tenant, checked_digest(sha256), size, seconds)

    def path(self, tenant: Tenant, sha256: str) -> Path:
        """Where the blob's file is, when the tenant holds it."""
        return self._folder(tenant, sha256[:2], sha256[2:4]) / sha256

    def _folder(self, tenant: Tenant, *parts: str) -> Path:
        if not tenant.slug or "/" in tenant.slug or tenant.slug.startswith("."):
            raise ValueError("a tenant's slug is one path segment")
        return self.root.joinpath(tenant.slug, *parts)

    def _prepare(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        # An upload that died with its process is never continued.
        before = time.time() - _ABANDONED_SECONDS
        for left in self.root.glob("*/incoming/*"):
            with contextlib.suppress(FileNotFoundError):
                if left.stat().st_mtime < before:
                    left.unlink()

    def _probe(self) -> None:
        probe = self.root / f".probe-{secrets.token_hex(8)}"
        probe.write_bytes(b"")
        probe.unlink()

    def _size(self, tenant: Tenant, sha256: str) -> int | None:
        try:
            return self.path(tenant, sha256).stat().st_size
        except FileNotFoundError:
            return None

    def _put(self, tenant: Tenant, sha256: str, data: bytes) -> None:
        if self._size(tenant, sha256) == len(data):
            return
        coming = _Coming(self._folder(tenant, "incoming"))
        try:
            coming.write(data)
            coming.publish(self.path(tenant, sha256))
        finally:
            coming.discard()

    def _get(self, tenant: Tenant, sha256: str, limit: int | None) -> bytes:
        with self._opened(tenant, sha256) as file:
            size = os.fstat(file.fileno()).st_size
            if limit is not None and size > limit:
                raise too_large(size, limit)
            data = file.read()
        actual = hashlib.sha256(data).hexdigest()
        if actual != sha256:
            raise DigestMismatch(sha256, actual)
        return data

    def _fetch(self, tenant: Tenant, sha256: str, into: Path) -> int:
        with self._opened(tenant, sha256) as source, _new_file(into) as target:
            digest, size = hashlib.sha256(), 0
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                target.write(chunk)
            if digest.hexdigest() != sha256:
                raise DigestMismatch(sha256, digest.hexdigest())
            return size

    @contextlib.contextmanager
    def _opened(self, tenant: Tenant, sha256: str) -> Iterator[BinaryIO]:
        try:
            file = self.path(tenant, sha256).open("rb")
        except FileNotFoundError:
            raise not_found(sha256) from None
        with file:
            yield file


class _Coming:
    """A file on its way in: invisible until `publish`.

    The lock is for a cancelled upload, whose last write may still run in its thread: closing the
    file under it could let the write reach another file that got the same descriptor.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / secrets.token_hex(16)
        self._file = self._path.open("xb", buffering=0)
        self._hash = hashlib.sha256()
        self._lock = threading.Lock()
        self.size = 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, chunk: bytes) -> None:
        with self._lock:
            left = memoryview(chunk)
            while left:
                left = left[self._file.write(left) :]
            self._hash.update(chunk)
            self.size += len(chunk)

    def publish(self, target: Path) -> None:
        """Make it durable, then visible under its name; the bytes are on disk before the name is."""
        with self._lock:
            os.fsync(self._file.fileno())
            self._file.close()
            made = _make_folders(target.parent)
            self._path.replace(target)
            for folder in (target.parent, *made):
                _sync_folder(folder)

    def discard(self) -> None:
        with self._lock:
            self._file.close()
            self._path.unlink(missing_ok=True)


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and answer the folders whose entries changed."""
    changed: list[Path] = []
    missing = folder
    while not missing.exists():
        missing = missing.parent
        changed.append(missing)
    folder.mkdir(parents=True, exist_ok=True)
    return changed


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that is gone again when its content could not be completed."""
    with path.open("xb") as file:
        try:
            yield file
        except BaseException:
            path.unlink(missing_ok=True)
            raise


async def _chunks_of(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk
    finally:
        file.close()


async def _in_thread(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run in a thread; what the disk refuses is told as the store's failure."""
    try:
        return await asyncio.to_thread(work, *arguments, **named)
    except OSError as error:
        detail = errno.errorcode.get(error.errno or 0, "EIO")
        raise WyrdError(
            Code.STORAGE_500_BACKEND, f"the blob folder cannot be used: {detail}", detail=detail
        ) from error
