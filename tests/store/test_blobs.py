"""The same rules hold for blobs in a folder and in an S3 server."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from store.blobs import BlobStore, DigestMismatch
from store.blobs.local import LocalBlobs
from store.blobs.s3 import S3Blobs
from store.caller import Tenant
from store.settings import Settings
from tests.servers import S3Server, free_ports
from wyrd.errors import Code, WyrdError


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_bytes_come_back_under_their_digest(blobs: BlobStore, tenant: Tenant) -> None:
    data = secrets.token_bytes(3_000_001)
    digest = await blobs.put(tenant, data)
    assert digest == sha256(data)
    assert await blobs.get(tenant, digest) == data
    assert await blobs.size(tenant, digest) == len(data)
    assert await blobs.put(tenant, data) == digest


async def test_an_empty_blob_is_a_blob(blobs: BlobStore, tenant: Tenant) -> None:
    digest = await blobs.put(tenant, b"")
    assert await blobs.size(tenant, digest) == 0
    assert await blobs.get(tenant, digest) == b""


async def test_a_file_is_stored_and_fetched_in_one_piece(
    blobs: BlobStore, tenant: Tenant, tmp_path: Path
) -> None:
    data = secrets.token_bytes(2_500_000)
    (tmp_path / "in").write_bytes(data)
    await blobs.put_file(tenant, tmp_path / "in", sha256(data), len(data))
    assert await blobs.fetch(tenant, sha256(data), tmp_path / "out") == len(data)
    assert (tmp_path / "out").read_bytes() == data


@pytest.mark.parametrize(
    ("digest", "size", "code"),
    [
        (sha256(b"other"), 5, Code.STORAGE_400_SHA256_MISMATCH),
        (sha256(b"bytes"), 4, Code.STORAGE_400_SIZE_MISMATCH),
        (sha256(b"bytes"), 6, Code.STORAGE_400_SIZE_MISMATCH),
        ("../../etc/passwd", 5, Code.STORAGE_400_SHA256_INVALID),
        (sha256(b"bytes").upper(), 5, Code.STORAGE_400_SHA256_INVALID),
    ],
)
async def test_a_file_that_is_not_what_it_is_said_to_be_is_never_visible(
    blobs: BlobStore, tenant: Tenant, tmp_path: Path, digest: str, size: int, code: Code
) -> None:
    (tmp_path / "in").write_bytes(b"bytes")
    with pytest.raises(WyrdError) as refused:
        await blobs.put_file(tenant, tmp_path / "in", digest, size)
    assert refused.value.member is code
    assert await blobs.size(tenant, sha256(b"bytes")) is None
    assert await blobs.size(tenant, sha256(b"other")) is None


async def test_what_is_not_there_is_told_as_not_found(
    blobs: BlobStore, tenant: Tenant, tmp_path: Path
) -> None:
    absent = sha256(b"absent")
    assert await blobs.size(tenant, absent) is None
    for reading in (blobs.get(tenant, absent), blobs.fetch(tenant, absent, tmp_path / "out")):
        with pytest.raises(WyrdError) as refused:
            await reading
        assert refused.value.member is Code.STORAGE_404_OBJECT_NOT_FOUND
    assert not (tmp_path / "out").exists()


async def test_p58_a_tenant_learns_nothing_about_another_tenants_digests(
    blobs: BlobStore, tenant: Tenant, other_tenant: Tenant
) -> None:
    digest = await blobs.put(tenant, b"secret evidence")
    assert await blobs.missing(tenant, [(digest, 15)]) == []
    assert await blobs.missing(other_tenant, [(digest, 15)]) == [(digest, 15)]
    assert await blobs.size(other_tenant, digest) is None
    with pytest.raises(WyrdError) as refused:
        await blobs.get(other_tenant, digest)
    assert refused.value.member is Code.STORAGE_404_OBJECT_NOT_FOUND


async def test_missing_keeps_order_and_counts_another_size_as_missing(
    blobs: BlobStore, tenant: Tenant
) -> None:
    held = await blobs.put(tenant, b"held")
    absent = [(sha256(bytes([n])), 1) for n in range(20)]
    wanted = [absent[0], (held, 4), *absent[1:], (held, 5), absent[0]]
    assert await blobs.missing(tenant, wanted) == [*absent, (held, 5)]


async def test_a_blob_over_the_limit_is_not_read(blobs: BlobStore, tenant: Tenant) -> None:
    digest = await blobs.put(tenant, b"12345")
    assert await blobs.get(tenant, digest, limit=5) == b"12345"
    with pytest.raises(WyrdError) as refused:
        await blobs.get(tenant, digest, limit=4)
    assert refused.value.member is Code.STORAGE_400_ARTIFACT_TOO_LARGE
    assert refused.value.details == {"actual": 5, "limit": 4}


async def test_the_same_bytes_stored_at_once_are_one_blob(
    blobs: BlobStore, tenant: Tenant, tmp_path: Path
) -> None:
    data = secrets.token_bytes(300_000)
    (tmp_path / "in").write_bytes(data)
    puts = [blobs.put(tenant, data) for _ in range(6)]
    files = [blobs.put_file(tenant, tmp_path / "in", sha256(data), len(data)) for _ in range(6)]
    await asyncio.gather(*puts, *files)
    assert await blobs.get(tenant, sha256(data)) == data


async def test_a_ready_store_passes_its_check(blobs: BlobStore) -> None:
    await blobs.check()


async def test_local_bytes_changed_on_disk_are_a_digest_mismatch(
    local_blobs: LocalBlobs, tenant: Tenant, tmp_path: Path
) -> None:
    digest = await local_blobs.put(tenant, b"original")
    local_blobs.path(tenant, digest).write_bytes(b"tampered")
    for reading in (local_blobs.get(tenant, digest), local_blobs.fetch(tenant, digest, tmp_path / "out")):
        with pytest.raises(DigestMismatch) as found:
            await reading
        assert found.value.details == {"expected": digest, "actual": sha256(b"tampered")}
    assert not (tmp_path / "out").exists()


async def test_a_truncated_local_blob_counts_as_missing_and_is_replaced(
    local_blobs: LocalBlobs, tenant: Tenant
) -> None:
    digest = await local_blobs.put(tenant, b"original")
    local_blobs.path(tenant, digest).write_bytes(b"orig")
    assert await local_blobs.missing(tenant, [(digest, 8)]) == [(digest, 8)]
    await local_blobs.put(tenant, b"original")
    assert await local_blobs.get(tenant, digest) == b"original"


async def test_a_cancelled_upload_leaves_nothing_behind(local_blobs: LocalBlobs, tenant: Tenant) -> None:
    first_chunk = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"a" * 1000
        first_chunk.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(local_blobs.receive(tenant, sha256(b"a" * 2000), 2000, chunks()))
    await first_chunk.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    left = [path for path in local_blobs.root.rglob("*") if path.is_file()]
    assert left == []


async def test_uploads_abandoned_long_ago_are_cleared_at_start(
    local_blobs: LocalBlobs, tenant: Tenant
) -> None:
    folder = local_blobs.root / tenant.slug / "incoming"
    folder.mkdir(parents=True)
    (folder / "old").write_bytes(b"x")
    (folder / "new").write_bytes(b"x")
    os.utime(folder / "old", (1, 1))
    await local_blobs.open()
    assert [path.name for path in folder.iterdir()] == ["new"]


async def test_a_full_disk_is_told_as_a_storage_failure(tmp_path: Path, tenant: Tenant) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WyrdError) as refused:
        await LocalBlobs(tmp_path / "file", b"s" * 32).put(tenant, b"data")
    assert refused.value.member is Code.STORAGE_500_BACKEND
    assert refused.value.details == {"detail": "ENOTDIR"}


async def remote_store(s3: S3Server, tmp_path: Path) -> S3Blobs:
    settings = Settings(
        home=tmp_path,
        blob_url=f"s3://wyrd-tests/{secrets.token_hex(8)}",
        s3_endpoint=s3.endpoint,
        s3_access_key=s3.access_key,
        s3_secret_key=s3.secret_key,
    )
    blobs = S3Blobs(settings)
    await blobs.open()
    await blobs.make_bucket()
    return blobs


async def test_a_presigned_put_takes_exactly_the_bytes_it_was_made_for(
    s3: S3Server, tmp_path: Path, tenant: Tenant
) -> None:
    blobs = await remote_store(s3, tmp_path)
    data = b"exactly these"
    plan = await blobs.upload_plan(tenant, sha256(data), len(data))
    headers = {header.name: header.value for header in plan.data.required_headers}
    async with httpx.AsyncClient() as client:
        for wrong, sent in (
            (b"other bytes!!", headers),
            (data + b"more", headers),
            (data[:-1], headers),
            (data, {}),
        ):
            answer = await client.put(plan.data.put_url, content=wrong, headers=sent)
            assert answer.status_code >= 400, (wrong, answer.status_code)
            assert await blobs.size(tenant, sha256(data)) is None
        answer = await client.put(plan.data.put_url, content=data, headers=headers)
        assert answer.status_code == 200, answer.text
        assert await blobs.missing(tenant, [(sha256(data), len(data))]) == []
        got = await client.get(await blobs.get_url(tenant, sha256(data), len(data)))
    assert got.content == data
    await blobs.close()


async def test_an_object_replaced_in_the_bucket_is_a_digest_mismatch(
    s3: S3Server, tmp_path: Path, tenant: Tenant
) -> None:
    blobs = await remote_store(s3, tmp_path)
    digest = await blobs.put(tenant, b"original")
    await blobs._client.put_object(Bucket=blobs.bucket, Key=blobs._name(tenant, digest), Body=b"tampered")
    for reading in (blobs.get(tenant, digest), blobs.fetch(tenant, digest, tmp_path / "out")):
        with pytest.raises(DigestMismatch):
            await reading
    assert not (tmp_path / "out").exists()
    await blobs.close()


async def test_an_unreachable_object_store_is_told_as_unavailable(tmp_path: Path, tenant: Tenant) -> None:
    settings = Settings(
        home=tmp_path,
        blob_url="s3://nowhere",
        s3_endpoint=f"http://127.0.0.1:{free_ports(1)[0]}",
        s3_access_key="a",
        s3_secret_key="b",
    )
    blobs = S3Blobs(settings)
    await blobs.open()
    with pytest.raises(WyrdError) as refused:
        await blobs.size(tenant, sha256(b"x"))
    assert refused.value.member is Code.STORAGE_503_BACKEND_UNAVAILABLE
    await blobs.close()
