"""Access tokens and the check of every credential a request carries.

A token is `wyrd1.<claims>.<mac>`: base64url JSON and its HMAC-SHA-256 under a key of the server
secret, good for 15 minutes. What its key and principal are worth now is read from the database
at most once a second and process, so a revoked key, a suspended principal or a changed role
takes effect everywhere within a second; between those reads a check is one dictionary lookup.
When the database cannot be asked, nobody is let in on old knowledge.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from store.caller import Caller
from store.database import Database, utc_now
from store.signing import purpose_key
from store.standing import (
    KEY_MARK,
    Standing,
    mark_used,
    standing_of_key,
    standing_of_token,
    use_is_stale,
)
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonRefused, canonical_json, strict_loads

LIFETIME_SECONDS = 900
FRESH_SECONDS = 1.0
"""How old the knowledge of a credential's standing may be."""

_MARK = "wyrd1"
_MOST_KNOWN = 4096
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Minted:
    """A new access token. `expires_in` in seconds."""

    token: str
    expires_in: int


@dataclass(frozen=True, slots=True)
class _Known:
    caller: Caller
    until: float


class Tokens:
    """Mints tokens and tells callers by their credentials."""

    def __init__(self, database: Database, secret: bytes) -> None:
        self._database = database
        self._key = purpose_key(secret, "access tokens")
        self._known: dict[bytes, _Known] = {}

    async def caller(self, credential: str) -> Caller:
        """Who presents this token or API key.

        Raises `WYRD_AUTH_401_INVALID_TOKEN`, `_TOKEN_EXPIRED`, `_API_KEY_INVALID` or
        `_CREDENTIAL_REVOKED`, and `WYRD_AUTH_503_VERIFY_UNAVAILABLE` without the database.
        """
        # Looked up by digest, so that the comparison tells nothing about stored credentials.
        name = hashlib.sha256(credential.encode("utf-8", "surrogateescape")).digest()
        known = self._known.get(name)
        if known is not None and known.until > time.monotonic():
            return known.caller
        return await self._checked(credential, name)

    async def exchange(self, api_key: str) -> Minted:
        """A token for an API key. Raises as `caller` does."""
        standing = await self._standing_of_key(api_key)
        return self.mint(standing)

    def mint(self, standing: Standing) -> Minted:
        """A token that is worth what the standing's key is, and ends no later than the key does."""
        now = utc_now()
        lifetime = LIFETIME_SECONDS
        if standing.expires_at is not None:
            lifetime = max(0, min(lifetime, int((standing.expires_at - now).total_seconds())))
        claims = {
            "tenant": standing.tenant.id,
            "slug": standing.tenant.slug,
            "principal": standing.principal_id,
            "roles": sorted(standing.roles),
            "card": standing.card_uid,
            "key": standing.key_id,
            "exp": int(now.timestamp()) + lifetime,
        }
        body = f"{_MARK}.{_encoded(canonical_json(claims))}"
        return Minted(f"{body}.{_encoded(self._mac(body))}", lifetime)

    async def _checked(self, credential: str, name: bytes) -> Caller:
        asked = time.monotonic()
        if credential.startswith(KEY_MARK):
            standing = await self._standing_of_key(credential)
            ends = None if standing.expires_at is None else standing.expires_at.timestamp()
        else:
            claims = self._claims(credential)
            standing, ends = await self._standing_of_token(claims), float(claims["exp"])
        fresh = FRESH_SECONDS if ends is None else min(FRESH_SECONDS, ends - time.time())
        found = Caller(standing.tenant, standing.principal_id, standing.roles, standing.card_uid)
        if len(self._known) >= _MOST_KNOWN:
            self._forget(asked)
        # Counted from before the question: what the answer says may have changed meanwhile.
        self._known[name] = _Known(found, asked + fresh)
        return found

    def _forget(self, now: float) -> None:
        self._known = {name: known for name, known in self._known.items() if known.until > now}
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()

    def _claims(self, token: str) -> dict[str, Any]:
        """A token's claims, after its signature was found good."""
        body, _, mac = token.rpartition(".")
        if len(token) > _LONGEST or not body.startswith(f"{_MARK}."):
            raise WyrdError(Code.AUTH_401_INVALID_TOKEN, "the credential is not a token of this server")
        if not hmac.compare_digest(_encoded(self._mac(body)).encode(), mac.encode("utf-8", "replace")):
            raise WyrdError(Code.AUTH_401_INVALID_TOKEN, "the token is not signed by this server")
        try:
            claims = strict_loads(_decoded(body.partition(".")[2]))
            told = (claims["tenant"], claims["slug"], claims["principal"], claims["key"])
            expires = claims["exp"]
        except (JsonRefused, KeyError, TypeError, ValueError, binascii.Error):
            raise WyrdError(Code.AUTH_401_INVALID_TOKEN, "the token lacks a claim") from None
        if not all(isinstance(claim, str) and claim for claim in told) or not isinstance(expires, int):
            raise WyrdError(Code.AUTH_401_INVALID_TOKEN, "the token lacks a claim")
        if expires <= time.time():
            raise WyrdError(Code.AUTH_401_TOKEN_EXPIRED, "the token has expired")
        found: dict[str, Any] = claims
        return found

    async def _standing_of_token(self, claims: dict[str, Any]) -> Standing:
        standing = await self._ask(standing_of_token, claims["tenant"], claims["principal"], claims["key"])
        if standing is None:
            raise WyrdError(Code.AUTH_401_INVALID_TOKEN, "the token's principal does not exist")
        return _good(standing)

    async def _standing_of_key(self, key: str) -> Standing:
        standing = await self._ask(standing_of_key, key)
        if standing is None:
            raise WyrdError(Code.AUTH_401_API_KEY_INVALID, "the API key is not known")
        _good(standing)
        if use_is_stale(standing):
            await self._database.write(mark_used, standing)
        return standing

    async def _ask(self, question: Any, *arguments: str) -> Standing | None:
        try:
            found: Standing | None = await self._database.read(question, *arguments)
        except WyrdError as error:
            raise WyrdError(
                Code.AUTH_503_VERIFY_UNAVAILABLE, "the credential cannot be checked now"
            ) from error
        return found

    def _mac(self, body: str) -> bytes:
        return hmac.digest(self._key, body.encode("utf-8", "replace"), hashlib.sha256)


def _good(standing: Standing, now: datetime | None = None) -> Standing:
    if standing.revoked or standing.suspended:
        what = "the principal is suspended" if standing.suspended else "the API key was revoked"
        raise WyrdError(Code.AUTH_401_CREDENTIAL_REVOKED, what)
    if standing.expires_at is not None and standing.expires_at <= (now or utc_now()):
        raise WyrdError(Code.AUTH_401_API_KEY_INVALID, "the API key has expired")
    return standing


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
