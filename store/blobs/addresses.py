"""Signed, server-relative addresses of local blobs: `/v1/blobs/<sha256>?…`.

The signature covers the method, the tenant, the digest, the size and the expiry, so that an
address lets its holder do one thing to one blob for a while.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import urlencode

from store.caller import Tenant
from store.signing import purpose_key, signature, signature_holds
from wyrd.errors import Code, WyrdError

PATH = "/v1/blobs/"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a valid address permits: this tenant's blob, of exactly this size in bytes."""

    tenant: Tenant
    size: int


class Addresses:
    """Makes and checks addresses under one server secret."""

    def __init__(self, secret: bytes) -> None:
        self._key = purpose_key(secret, "blob addresses")

    def make(self, method: str, tenant: Tenant, sha256: str, size: int, seconds: int) -> str:
        expires = str(int(time.time()) + seconds)
        signed = signature(self._key, method, tenant.id, tenant.slug, sha256, str(size), expires)
        query = {
            "tenant": tenant.id,
            "slug": tenant.slug,
            "size": str(size),
            "expires": expires,
            "signature": signed,
        }
        return f"{PATH}{sha256}?{urlencode(query)}"

    def check(self, method: str, sha256: str, query: dict[str, str]) -> Grant:
        """What the address permits.

        Raises `WYRD_AUTH_401_INVALID_TOKEN` for a signature that does not hold and
        `WYRD_STORAGE_503_PRESIGN_EXPIRED` for an address that was good once.
        """
        tenant = Tenant(query.get("tenant", ""), query.get("slug", ""))
        size, expires = query.get("size", ""), query.get("expires", "")
        given = query.get("signature", "")
        if not signature_holds(self._key, given, method, tenant.id, tenant.slug, sha256, size, expires):
            raise WyrdError(Code.AUTH_401_INVALID_TOKEN, "the address is not signed by this server")
        if int(expires) < time.time():
            detail = "the address has expired; ask for a new one"
            raise WyrdError(Code.STORAGE_503_PRESIGN_EXPIRED, detail, detail=detail)
        return Grant(tenant, int(size))
