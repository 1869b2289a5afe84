"""Blobs in an S3 object store: `<prefix>/<tenant>/<digest>` in one bucket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aioboto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

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
from store.caller import Tenant
from store.settings import Settings
from wyrd.errors import Code, WyrdError
from wyrd.wire.uploads import PutTarget, RequiredHeader, SinglePutPlan

_AT_ONCE = 16
_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
_TRANSIENT = frozenset({"SlowDown", "ServiceUnavailable", "InternalError", "503", "500"})


class S3Blobs:
    """A `BlobStore` in a bucket. Clients upload and download there directly, by presigned URLs."""

    def __init__(self, settings: Settings) -> None:
        url = urlsplit(settings.blob_url or "")
        if url.scheme != "s3" or not url.netloc:
            raise WyrdError(
                Code.CFG_400_SCHEMA_MISMATCH, "WYRD_BLOB_URL must read s3://bucket/prefix", field="blob_url"
            )
        self.bucket = url.netloc
        self._prefix = f"{url.path.strip('/')}/" if url.path.strip("/") else ""
        self._settings = settings
        self._client: Any = None
        self._public: Any = None
        self._stack = contextlib.AsyncExitStack()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def open(self) -> None:
        self._client = await self._connected(self._settings.s3_endpoint)
        public = self._settings.s3_public_endpoint
        self._public = self._client if public is None else await self._connected(public)

    async def make_bucket(self) -> None:
        """Make the bucket when it does not exist; for set-ups whose bucket is nobody else's task."""
        try:
            with _translated(""):
                await self._client.create_bucket(Bucket=self.bucket)
        except WyrdError:
            await self.check()

    async def close(self) -> None:
        await self._stack.aclose()
        self._client = self._public = None

    async def check(self) -> None:
        with _translated(""):
            await self._client.head_bucket(Bucket=self.bucket)

    async def put(self, tenant: Tenant, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        if await self.size(tenant, sha256) != len(data):
            await self._put(tenant, sha256, data, len(data))
        return sha256

    async def put_file(self, tenant: Tenant, path: Path, sha256: str, size: int) -> None:
        checked_digest(sha256)
        actual, length = await asyncio.to_thread(_digest_of, path)
        if length != size:
            raise size_mismatch(size, length)
        if actual != sha256:
            raise sha256_mismatch(sha256, actual)
        if await self.size(tenant, sha256) != size:
            with path.open("rb") as file:
                await self._put(tenant, sha256, file, size)

    async def missing(self, tenant: Tenant, wanted: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        unique = list(dict.fromkeys((checked_digest(sha256), size) for sha256, size in wanted))
        sizes = await asyncio.gather(*(self.size(tenant, sha256) for sha256, _ in unique))
        return [pair for pair, held in zip(unique, sizes, strict=True) if held != pair[1]]

    async def size(self, tenant: Tenant, sha256: str) -> int | None:
        key = self._name(tenant, checked_digest(sha256))
        async with self._slots:
            try:
                with _translated(sha256):
                    found = await self._client.head_object(Bucket=self.bucket, Key=key)
            except WyrdError as error:
                if error.member is Code.STORAGE_404_OBJECT_NOT_FOUND:
                    return None
                raise
        return int(found["ContentLength"])

    async def get(self, tenant: Tenant, sha256: str, *, limit: int | None = None) -> bytes:
        async with self._reading(tenant, sha256) as (size, chunks):
            if limit is not None and size > limit:
                raise too_large(size, limit)
            data = b"".join([chunk async for chunk in chunks])
        actual = hashlib.sha256(data).hexdigest()
        if actual != sha256:
            raise DigestMismatch(sha256, actual)
        return data

    async def fetch(self, tenant: Tenant, sha256: str, into: Path) -> int:
        async with self._reading(tenant, sha256) as (_, chunks):
            digest, size = hashlib.sha256(), 0
            file = await asyncio.to_thread(into.open, "xb")
            try:
                with file:
                    async for chunk in chunks:
                        await asyncio.to_thread(_take, file, digest, chunk)
                        size += len(chunk)
                if digest.hexdigest() != sha256:
                    raise DigestMismatch(sha256, digest.hexdigest())
            except BaseException:
                await asyncio.shield(asyncio.to_thread(into.unlink, missing_ok=True))
                raise
        return size

    async def upload_plan(self, tenant: Tenant, sha256: str, size: int) -> SinglePutPlan:
        checksum = _checksum(checked_digest(sha256))
        url = await self._public.generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self.bucket,
                "Key": self._name(tenant, sha256),
                "ContentLength": size,
                "ChecksumSHA256": checksum,
            },
            ExpiresIn=URL_SECONDS,
        )
        headers = [RequiredHeader(name="x-amz-checksum-sha256", value=checksum)]
        return SinglePutPlan(data=PutTarget(put_url=url, ttl_secs=URL_SECONDS, required_headers=headers))

    async def get_url(self, tenant: Tenant, sha256: str, size: int, *, seconds: int = URL_SECONDS) -> str:
        url: str = await self._public.generate_presigned_url(
            "get_object",
            Params={"Bucket": self.bucket, "Key": self._name(tenant, checked_digest(sha256))},
            ExpiresIn=seconds,
        )
        return url

    async def _connected(self, endpoint: str | None) -> Any:
        settings = self._settings
        secret = settings.s3_secret_key
        session = aioboto3.Session(
            aws_access_key_id=settings.s3_access_key,
            aws_secret_access_key=None if secret is None else secret.get_secret_value(),
            region_name=settings.s3_region,
        )
        config = Config(
            signature_version="s3v4",
            # Bodies go unsigned: each carries its SHA-256 as a checksum, and is hashed only once.
            s3={"addressing_style": "path", "payload_signing_enabled": False},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            retries={"mode": "standard", "total_max_attempts": 4},
            connect_timeout=5,
            read_timeout=30,
            max_pool_connections=2 * _AT_ONCE,
        )
        return await self._stack.enter_async_context(
            session.client("s3", endpoint_url=endpoint, config=config)
        )

    def _name(self, tenant: Tenant, sha256: str) -> str:
        if not tenant.slug or "/" in tenant.slug:
            raise ValueError("a tenant's slug is one path segment")
        return f"{self._prefix}{tenant.slug}/{sha256}"

    async def _put(self, tenant: Tenant, sha256: str, body: Any, size: int) -> None:
        with _translated(sha256):
            await self._client.put_object(
                Bucket=self.bucket,
                Key=self._name(tenant, sha256),
                Body=body,
                ContentLength=size,
                ChecksumSHA256=_checksum(sha256),
            )

    @contextlib.asynccontextmanager
    async def _reading(self, tenant: Tenant, sha256: str) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        key = self._name(tenant, checked_digest(sha256))
        with _translated(sha256):
            found = await self._client.get_object(Bucket=self.bucket, Key=key)
            async with found["Body"] as body:
                yield int(found["ContentLength"]), body.content.iter_chunked(CHUNK)


def _checksum(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode("ascii")


def _digest_of(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return digest.hexdigest(), file.tell()


def _take(file: Any, digest: Any, chunk: bytes) -> None:
    file.write(chunk)
    digest.update(chunk)


@contextlib.contextmanager
def _translated(sha256: str) -> Iterator[None]:
    """Absent, out of reach, and refused are three things; say which."""
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in _ABSENT and sha256:
            raise not_found(sha256) from None
        if code in _TRANSIENT:
            raise WyrdError(
                Code.STORAGE_503_BACKEND_UNAVAILABLE, "the object store is unavailable"
            ) from error
        detail = f"the object store refused: {code or 'unknown'}"
        raise WyrdError(Code.STORAGE_500_BACKEND, detail, detail=detail) from error
    except (HTTPClientError, BotoCoreError, ConnectionError, TimeoutError) as error:
        raise WyrdError(Code.STORAGE_503_BACKEND_UNAVAILABLE, "the object store cannot be reached") from error
