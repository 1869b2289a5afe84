"""The shelf of pinned files: checked, shared while used, evicted when it is full, clean after a cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import activities.files
from activities.files import FileShelf
from engine.failure import BlockFailure, ReasonKind
from store.blobs import BlobStore
from store.blobs.local import LocalBlobs
from store.caller import Tenant
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import sha256_hex


@pytest.fixture
def shelf(local_blobs: LocalBlobs) -> Iterator[FileShelf]:
    shelf = FileShelf(local_blobs)
    yield shelf
    shelf.close()


def shelved(shelf: FileShelf) -> list[Path]:
    return sorted(shelf._folder.path.iterdir())


async def test_a_file_is_read_only_and_fetched_once(blobs: BlobStore, tenant: Tenant) -> None:
    shelf = FileShelf(blobs)
    sha256 = await blobs.put(tenant, b"evidence")
    async with shelf.open(tenant, sha256, 8) as path, shelf.open(tenant, sha256) as again:
        assert path == again
        assert path.read_bytes() == b"evidence"
        assert path.stat().st_mode & 0o222 == 0
    assert len(shelved(shelf)) == 1
    shelf.close()
    assert not path.exists()


async def test_many_readers_at_once_share_one_copy(
    shelf: FileShelf, local_blobs: LocalBlobs, tenant: Tenant
) -> None:
    sha256 = await local_blobs.put(tenant, b"x" * 3_000_000)

    async def size() -> int:
        async with shelf.open(tenant, sha256) as path:
            return path.stat().st_size

    assert set(await asyncio.gather(*(size() for _ in range(8)))) == {3_000_000}
    assert len(shelved(shelf)) == 1


async def test_tenants_share_no_copy(
    shelf: FileShelf, local_blobs: LocalBlobs, tenant: Tenant, other_tenant: Tenant
) -> None:
    sha256 = await local_blobs.put(tenant, b"secret")
    async with shelf.open(tenant, sha256):
        with pytest.raises(BlockFailure) as missing:
            async with shelf.open(other_tenant, sha256):
                pass
    assert missing.value.kind is ReasonKind.MISSING_EVIDENCE


async def test_another_size_than_declared_is_a_digest_mismatch(
    shelf: FileShelf, local_blobs: LocalBlobs, tenant: Tenant
) -> None:
    sha256 = await local_blobs.put(tenant, b"evidence")
    with pytest.raises(BlockFailure) as mismatch:
        async with shelf.open(tenant, sha256, 9):
            pass
    assert mismatch.value.kind is ReasonKind.DIGEST_MISMATCH


async def test_other_bytes_than_pinned_are_never_opened(
    shelf: FileShelf, local_blobs: LocalBlobs, tenant: Tenant
) -> None:
    sha256 = await local_blobs.put(tenant, b"evidence")
    stored = local_blobs.path(tenant, sha256)
    stored.chmod(0o600)
    stored.write_bytes(b"Evidence")
    for _ in range(2):
        with pytest.raises(BlockFailure) as mismatch:
            async with shelf.open(tenant, sha256):
                pass
        assert mismatch.value.kind is ReasonKind.DIGEST_MISMATCH
        assert not mismatch.value.retryable
    assert shelved(shelf) == []


async def test_a_store_in_trouble_may_be_asked_again(
    shelf: FileShelf, local_blobs: LocalBlobs, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> int:
        raise WyrdError(Code.STORAGE_503_BACKEND_UNAVAILABLE, "the store is away")

    sha256 = await local_blobs.put(tenant, b"evidence")
    with monkeypatch.context() as patch:
        patch.setattr(local_blobs, "fetch", away)
        with pytest.raises(BlockFailure) as trouble:
            async with shelf.open(tenant, sha256):
                pass
    assert trouble.value.retryable
    async with shelf.open(tenant, sha256) as path:
        assert path.read_bytes() == b"evidence"


async def test_the_oldest_unused_files_go_when_the_shelf_is_full(
    shelf: FileShelf, local_blobs: LocalBlobs, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities.files, "_KEPT_BYTES", 25)
    digests = [await local_blobs.put(tenant, bytes([n]) * 10) for n in range(3)]
    async with shelf.open(tenant, digests[0]) as used:
        for sha256 in digests[1:]:
            async with shelf.open(tenant, sha256):
                pass
        assert used.exists(), "a file in use stays"
        assert [path.name[-64:] for path in shelved(shelf)] == sorted([digests[0], digests[2]])
    async with shelf.open(tenant, digests[1]) as path:
        assert sha256_hex(path.read_bytes()) == digests[1], "what went comes back"


async def test_a_cancelled_fetch_leaves_nothing_in_the_way_of_the_next(
    shelf: FileShelf, local_blobs: LocalBlobs, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a thread that copies goes on after its task was cancelled."""
    sha256 = await local_blobs.put(tenant, b"evidence")
    fetch, began, go_on = local_blobs.fetch, asyncio.Event(), asyncio.Event()

    async def slow(owner: Tenant, digest: str, into: Path) -> int:
        began.set()
        await go_on.wait()
        return await fetch(owner, digest, into)

    async def read() -> bytes:
        async with shelf.open(tenant, sha256) as path:
            return path.read_bytes()

    with monkeypatch.context() as patch:
        patch.setattr(local_blobs, "fetch", slow)
        cancelled = asyncio.create_task(read())
        await began.wait()
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
    assert cancelled.cancelled()
    assert await read() == b"evidence"
    go_on.set()
    current = asyncio.current_task()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not current))
    assert len(shelved(shelf)) == 1, "the late copy was thrown away"
    assert await read() == b"evidence"
