"""Who asks: the tenant, the principal, and what its roles permit.

Tenant scope has one door: repositories are built with a `Tenant`, and their base statement
carries it. Only the API makes a `Caller`, from a checked token.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wyrd.errors import Code, WyrdError


class Role(StrEnum):
    ADMIN = "admin"
    EDITOR = "editor"
    VIEWER = "viewer"
    SERVICE = "service"


class Permission(StrEnum):
    CARDS_READ = "cards.read"
    CARDS_WRITE = "cards.write"
    VERIFY = "verification.verify"
    SUBMIT = "verification.submit"
    EXECUTIONS_READ = "executions.read"
    EXECUTIONS_CANCEL = "executions.cancel"
    PRINCIPALS_MANAGE = "principals.manage"
    CONNECTIONS_MANAGE = "connections.manage"
    BIFROST_READ = "bifrost.read"
    BIFROST_RECORD = "bifrost.record"
    BIFROST_TABLES_WRITE = "bifrost.tables.write"
    BIFROST_ADMINISTER = "bifrost.administer"


_VIEW = frozenset({Permission.CARDS_READ, Permission.EXECUTIONS_READ, Permission.BIFROST_READ})
_RUN = frozenset({Permission.VERIFY, Permission.SUBMIT, Permission.BIFROST_RECORD})
PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.ADMIN: frozenset(Permission),
    Role.EDITOR: _VIEW
    | _RUN
    | {Permission.CARDS_WRITE, Permission.EXECUTIONS_CANCEL, Permission.BIFROST_TABLES_WRITE},
    Role.VIEWER: _VIEW,
    Role.SERVICE: _VIEW | _RUN,
}


@dataclass(frozen=True, slots=True)
class Tenant:
    """One customer. `slug` starts every workflow id and every blob's path."""

    id: str
    slug: str


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated request's principal. `card_uid` is the Card a service key is bound to."""

    tenant: Tenant
    principal_id: str
    roles: frozenset[Role]
    card_uid: str | None = None

    def may(self, permission: Permission) -> bool:
        return any(permission in PERMISSIONS[role] for role in self.roles)

    def require(self, permission: Permission) -> None:
        """Raises `WYRD_PERMISSION_403_DENIED_RBAC` naming the permission that is missing."""
        if not self.may(permission):
            raise WyrdError(
                Code.PERMISSION_403_DENIED_RBAC,
                f"the credential's roles do not permit {permission.value}",
                permission=permission.value,
            )
