"""Blobs: evidence, artifacts and big values, by their SHA-256, apart for each tenant.

`BlobStore` is what the rooms use; `local` keeps files in a folder, `s3` an object store. Which
bytes belong to which Card or execution is for SQL rows to say, not for this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from store.caller import Tenant
from wyrd.errors import Code, WyrdError
from wyrd.wire.uploads import LocalPlan, SinglePutPlan

CHUNK = 1024 * 1024
"""Bytes read or written at once."""

URL_SECONDS = 900
"""How long an upload or download address works."""


class DigestMismatch(WyrdError):
    """Stored bytes are not the ones their digest promises: `WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED`."""

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(
            Code.REGISTRY_507_ARTIFACT_VERIFY_FAILED,
            f"the stored bytes of {expected} have the digest {actual}",
            expected=expected,
            actual=actual,
        )


class BlobStore(Protocol):
    """Bytes under their SHA-256 (64 lower-case hexadecimal characters), for one tenant at a time.

    A blob becomes visible whole or not at all, its content checked against its digest; storing
    the same bytes twice, at once or later, is one blob. Nothing a method answers depends on
    another tenant's blobs. Artifacts are kept like all else: an upload id is a row that names a
    digest.

    Errors: `WYRD_STORAGE_400_SHA256_INVALID` for what is no digest, `WYRD_STORAGE_404_OBJECT_NOT_FOUND`,
    `DigestMismatch` on reading, `WYRD_STORAGE_503_BACKEND_UNAVAILABLE` when the store cannot be
    reached, `WYRD_STORAGE_500_BACKEND` when it refuses.
    """

    async def open(self) -> None:
        """Connect, or make the folders."""

    async def close(self) -> None: ...

    async def check(self) -> None:
        """Raise when the store cannot be used now."""

    async def put(self, tenant: Tenant, data: bytes) -> str:
        """Store bytes and answer their digest."""
        ...

    async def put_file(self, tenant: Tenant, path: Path, sha256: str, size: int) -> None:
        """Store a file's bytes (a copy), in constant memory.

        Raises `WYRD_STORAGE_400_SIZE_MISMATCH` or `WYRD_STORAGE_400_SHA256_MISMATCH` when the
        file is not what it is said to be.
        """

    async def missing(self, tenant: Tenant, wanted: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Those of the (digest, size) pairs that the tenant does not hold, in order, once each."""
        ...

    async def size(self, tenant: Tenant, sha256: str) -> int | None:
        """The blob's size in bytes; None when the tenant does not hold it."""
        ...

    async def get(self, tenant: Tenant, sha256: str, *, limit: int | None = None) -> bytes:
        """The blob's bytes, checked. Over `limit` bytes: `WYRD_STORAGE_400_ARTIFACT_TOO_LARGE`."""
        ...

    async def fetch(self, tenant: Tenant, sha256: str, into: Path) -> int:
        """Write the blob to a new file, checked while it is read, and answer its size.

        When it raises there is no file.
        """
        ...

    async def upload_plan(self, tenant: Tenant, sha256: str, size: int) -> LocalPlan | SinglePutPlan:
        """Where a client puts these bytes; whatever else it sends is refused."""
        ...

    async def get_url(self, tenant: Tenant, sha256: str, size: int, *, seconds: int = URL_SECONDS) -> str:
        """An address that answers the blob's bytes without credentials for `seconds`.

        It may be relative to the server. Whether the blob is there shows when it is used.
        """
        ...


def checked_digest(sha256: str) -> str:
    """The digest itself. Raises `WYRD_STORAGE_400_SHA256_INVALID`: digests become paths."""
    if len(sha256) != 64 or not set(sha256) <= _HEXADECIMAL:
        raise WyrdError(
            Code.STORAGE_400_SHA256_INVALID,
            "a digest is 64 lower-case hexadecimal characters",
            detail="a digest is 64 lower-case hexadecimal characters",
        )
    return sha256


_HEXADECIMAL = frozenset("0123456789abcdef")


def size_mismatch(expected: int, actual: int) -> WyrdError:
    return WyrdError(
        Code.STORAGE_400_SIZE_MISMATCH,
        f"{actual} bytes came where {expected} were announced",
        expected=expected,
        actual=actual,
    )


def sha256_mismatch(expected: str, actual: str) -> WyrdError:
    return WyrdError(
        Code.STORAGE_400_SHA256_MISMATCH,
        "the bytes do not have the digest that was announced",
        expected=expected,
        actual=actual,
    )


def not_found(sha256: str) -> WyrdError:
    return WyrdError(Code.STORAGE_404_OBJECT_NOT_FOUND, f"no blob {sha256}")


def too_large(actual: int, limit: int) -> WyrdError:
    return WyrdError(
        Code.STORAGE_400_ARTIFACT_TOO_LARGE,
        f"{actual} bytes are over the limit of {limit}",
        actual=actual,
        limit=limit,
    )
