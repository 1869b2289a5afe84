"""What an embedded stack's first start makes: its tenant, and a key for whoever started it."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, select

from store.caller import Role, Tenant
from store.database import Database
from store.identity import Identity, PrincipalKind
from store.signing import write_private
from store.standing import standing_of_key
from store.tables.identity import principals
from store.tenants import make_tenant

DEV_PRINCIPAL = "dev"


async def ensure_tenant(database: Database, slug: str) -> Tenant:
    """The tenant of that slug, made when missing.

    Raises `WYRD_CFG_400_SCHEMA_MISMATCH` for what is no slug.
    """
    return await database.write(make_tenant, slug)


async def ensure_dev_key(database: Database, tenant: Tenant, home: Path) -> str:
    """The administrator's API key in the file `home`/dev-key (mode 0600).

    Made on the first start, and again when the database does not accept the one in the file.
    """
    path = home / "dev-key"
    key = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    made = await database.write(_usable_or_new, tenant, key)
    if made != key:
        write_private(path, made + "\n")
    return made


def _usable_or_new(connection: Connection, tenant: Tenant, key: str) -> str:
    standing = standing_of_key(connection, key)
    if standing is not None and standing.tenant == tenant and not (standing.revoked or standing.suspended):
        return key
    identity = Identity(connection, tenant)
    found = connection.execute(
        select(principals.c.id).where(principals.c.tenant_id == tenant.id, principals.c.name == DEV_PRINCIPAL)
    ).scalar()
    principal_id = found or identity.create(DEV_PRINCIPAL, [Role.ADMIN], kind=PrincipalKind.USER)
    return identity.issue_key(principal_id, label="dev-key").key
