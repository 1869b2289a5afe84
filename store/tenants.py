"""Tenants: whose everything is. A tenant is never renamed; its slug is in paths and workflow ids."""

from __future__ import annotations

import re

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from store.caller import Tenant
from store.database import utc_now
from store.tables.identity import tenants
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7

_SLUG = re.compile(r"[a-z][a-z0-9_-]{2,63}")


def make_tenant(connection: Connection, slug: str) -> Tenant:
    """The tenant of that slug, made when missing. A slug is `[a-z][a-z0-9_-]{2,63}`."""
    if not _SLUG.fullmatch(slug):
        raise WyrdError(
            Code.CFG_400_SCHEMA_MISMATCH,
            f"the tenant {slug[:80]!r} is not a slug such as 'local'",
            field="tenant",
        )
    found = find_tenant(connection, slug)
    if found is not None:
        return found
    try:
        with connection.begin_nested():
            connection.execute(insert(tenants).values(id=uuid7(), slug=slug, created_at=utc_now()))
    except IntegrityError:
        # Another process made it a moment ago.
        pass
    made = find_tenant(connection, slug)
    assert made is not None
    return made


def find_tenant(connection: Connection, slug: str) -> Tenant | None:
    row = connection.execute(select(tenants.c.id, tenants.c.slug).where(tenants.c.slug == slug)).first()
    return None if row is None else Tenant(row.id, row.slug)


def all_tenants(connection: Connection) -> list[Tenant]:
    """Every tenant, for background duties alone."""
    return [Tenant(row.id, row.slug) for row in connection.execute(select(tenants.c.id, tenants.c.slug))]
