"""What a presented API key, or the key behind a token, is worth right now.

These are the only statements that look across tenants: a key says itself whose it is.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from store.caller import Role, Tenant
from store.database import utc_now
from store.tables.identity import api_keys, principal_roles, principals, tenants

KEY_MARK = "wyrd_sk_"
"""Every API key begins so."""

KEY_PREFIX = len(KEY_MARK) + 8
"""Characters of a key that are kept in the clear."""

_KEY = re.compile(rf"{KEY_MARK}[A-Za-z0-9_-]{{43}}")
_USED_EVERY = timedelta(minutes=1)


class PrincipalStatus(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a key, or a token made from it, is worth right now."""

    tenant: Tenant
    principal_id: str
    key_id: str
    roles: frozenset[Role]
    card_uid: str | None
    suspended: bool
    revoked: bool
    expires_at: datetime | None
    last_used_at: datetime | None


def key_digest(key: str) -> str:
    """What is stored of a key. Plain SHA-256, since a key is 256 random bits and not a password."""
    return hashlib.sha256(key.encode("utf-8")).hexdigest()


def standing_of_key(connection: Connection, key: str) -> Standing | None:
    """The standing of a presented API key; None for one that was never issued."""
    if not _KEY.fullmatch(key):
        return None
    presented = key_digest(key)
    found = None
    statement = _standing().where(api_keys.c.prefix == key[:KEY_PREFIX])
    for row in connection.execute(statement):
        if hmac.compare_digest(row.key_sha256, presented):
            found = row
    return None if found is None else _as_standing(connection, found)


def standing_of_token(
    connection: Connection, tenant_id: str, principal_id: str, key_id: str
) -> Standing | None:
    """The standing of a token's key and principal; None when they are gone."""
    row = connection.execute(
        _standing().where(
            api_keys.c.id == key_id,
            api_keys.c.principal_id == principal_id,
            api_keys.c.tenant_id == tenant_id,
        )
    ).first()
    return None if row is None else _as_standing(connection, row)


def mark_used(connection: Connection, standing: Standing) -> None:
    connection.execute(
        update(api_keys).where(api_keys.c.id == standing.key_id).values(last_used_at=utc_now())
    )


def use_is_stale(standing: Standing) -> bool:
    """Whether `mark_used` is due: uses are kept to the minute, not each one."""
    return standing.last_used_at is None or utc_now() - standing.last_used_at > _USED_EVERY


def _standing() -> Select[Any]:
    return (
        select(
            tenants.c.id.label("tenant_id"),
            tenants.c.slug,
            principals.c.id.label("principal_id"),
            principals.c.status,
            principals.c.card_uid,
            api_keys.c.id.label("key_id"),
            api_keys.c.key_sha256,
            api_keys.c.revoked_at,
            api_keys.c.expires_at,
            api_keys.c.last_used_at,
        )
        .join(principals, principals.c.id == api_keys.c.principal_id)
        .join(tenants, tenants.c.id == api_keys.c.tenant_id)
    )


def _as_standing(connection: Connection, row: Row[Any]) -> Standing:
    granted = connection.execute(
        select(principal_roles.c.role).where(principal_roles.c.principal_id == row.principal_id)
    ).scalars()
    return Standing(
        tenant=Tenant(row.tenant_id, row.slug),
        principal_id=row.principal_id,
        key_id=row.key_id,
        roles=frozenset(Role(role) for role in granted),
        card_uid=row.card_uid,
        suspended=row.status != PrincipalStatus.ACTIVE,
        revoked=row.revoked_at is not None,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
    )
