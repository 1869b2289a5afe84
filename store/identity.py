"""A tenant's principals, their roles and their API keys.

`Identity`'s statements carry its tenant. A tenant that has an administrator with a usable key
never loses the last one through here. What a presented credential is worth: `store.standing`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, delete, exists, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from store.caller import Role, Tenant
from store.database import utc_now
from store.standing import KEY_MARK, KEY_PREFIX, PrincipalStatus, key_digest
from store.tables.identity import api_keys, principal_roles, principals, tenants
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7


class PrincipalKind(StrEnum):
    USER = "user"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Principal:
    """One who may ask. `card_uid` and `card_ref` are set when it stands for a declared Card."""

    id: str
    kind: PrincipalKind
    status: PrincipalStatus
    name: str
    email: str | None
    card_uid: str | None
    card_ref: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is kept of a key: never the key itself."""

    id: str
    prefix: str
    label: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key, the only time it is seen."""

    id: str
    key: str
    prefix: str
    created_at: datetime
    expires_at: datetime | None


class Identity:
    """One tenant's principals and keys, over one connection."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self._connection = connection
        self._tenant = tenant

    def create(
        self,
        name: str,
        roles: Iterable[Role],
        *,
        kind: PrincipalKind = PrincipalKind.SERVICE,
        email: str | None = None,
        description: str | None = None,
        card_uid: str | None = None,
        card_ref: dict[str, Any] | None = None,
    ) -> str:
        """A new active principal; answers its id. `WYRD_SPEC_409_CONFLICT` when the name is taken."""
        principal_id, now = uuid7(), utc_now()
        try:
            with self._connection.begin_nested():
                self._connection.execute(
                    insert(principals).values(
                        id=principal_id,
                        tenant_id=self._tenant.id,
                        kind=kind.value,
                        name=name,
                        email=email,
                        description=description,
                        status=PrincipalStatus.ACTIVE.value,
                        card_uid=card_uid,
                        card_ref=card_ref,
                        created_at=now,
                    )
                )
        except IntegrityError:
            raise WyrdError(
                Code.SPEC_409_CONFLICT, f"a principal named {name!r} exists already", field="name"
            ) from None
        for role in sorted(set(roles)):
            self._grant(principal_id, role, now)
        return principal_id

    def for_card(self, card_uid: str, card_ref: dict[str, Any], name: str) -> str:
        """The active principal that stands for a Card, made with the service role when missing."""
        found = self._connection.execute(
            select(principals.c.id)
            .where(
                principals.c.tenant_id == self._tenant.id,
                principals.c.card_uid == card_uid,
                principals.c.status == PrincipalStatus.ACTIVE.value,
            )
            .order_by(principals.c.id)
        ).scalar()
        if found is not None:
            return str(found)
        taken = self._connection.execute(
            select(func.count()).where(
                principals.c.tenant_id == self._tenant.id, principals.c.card_uid == card_uid
            )
        ).scalar_one()
        unique = name if not taken else f"{name} ({taken + 1})"
        return self.create(unique, [Role.SERVICE], card_uid=card_uid, card_ref=card_ref)

    def get(self, principal_id: str) -> Principal:
        """Raises `WYRD_AUTH_404_PRINCIPAL_NOT_FOUND`."""
        row = self._connection.execute(self._principals().where(principals.c.id == principal_id)).first()
        if row is None:
            raise _no_principal(principal_id)
        return _as_principal(row)

    def page(
        self,
        *,
        kind: str | None = None,
        email: str | None = None,
        name: str | None = None,
        after: str | None = None,
        limit: int,
    ) -> list[Principal]:
        """Up to `limit` principals in order of creation, those after the id `after`."""
        statement = self._principals()
        for column, wanted in (
            (principals.c.kind, kind),
            (principals.c.email, email),
            (principals.c.name, name),
        ):
            if wanted is not None:
                statement = statement.where(column == wanted)
        if after is not None:
            statement = statement.where(principals.c.id > after)
        rows = self._connection.execute(statement.order_by(principals.c.id).limit(limit))
        return [_as_principal(row) for row in rows]

    def issue_key(
        self, principal_id: str, *, label: str | None = None, lifetime: timedelta | None = None
    ) -> IssuedKey:
        """A new key of an active principal. Without `lifetime` it does not expire.

        Raises `WYRD_AUTH_404_PRINCIPAL_NOT_FOUND`, and `WYRD_SPEC_409_CONFLICT` when suspended.
        """
        if self.get(principal_id).status is not PrincipalStatus.ACTIVE:
            raise WyrdError(Code.SPEC_409_CONFLICT, "the principal is suspended", field="principal_id")
        key = KEY_MARK + secrets.token_urlsafe(32)
        now = utc_now()
        issued = IssuedKey(
            id=uuid7(),
            key=key,
            prefix=key[:KEY_PREFIX],
            created_at=now,
            expires_at=None if lifetime is None else now + lifetime,
        )
        self._connection.execute(
            insert(api_keys).values(
                id=issued.id,
                tenant_id=self._tenant.id,
                principal_id=principal_id,
                prefix=issued.prefix,
                key_sha256=key_digest(key),
                label=label,
                created_at=now,
                expires_at=issued.expires_at,
            )
        )
        return issued

    def keys(self, principal_id: str) -> list[ApiKey]:
        """Every key the principal ever had, oldest first."""
        self.get(principal_id)
        rows = self._connection.execute(
            select(api_keys)
            .where(api_keys.c.tenant_id == self._tenant.id, api_keys.c.principal_id == principal_id)
            .order_by(api_keys.c.id)
        )
        return [
            ApiKey(
                id=row.id,
                prefix=row.prefix,
                label=row.label,
                created_at=row.created_at,
                expires_at=row.expires_at,
                revoked_at=row.revoked_at,
                last_used_at=row.last_used_at,
            )
            for row in rows
        ]

    def revoke_key(self, principal_id: str, key_id: str) -> None:
        """Raises `WYRD_AUTH_404_PRINCIPAL_NOT_FOUND`, `WYRD_SPEC_404_NOT_FOUND` for the key,
        `WYRD_AUTH_409_ADMIN_CONFLICT` for the last key of the last administrator.
        """
        self._lock()
        self.get(principal_id)
        mine = and_(
            api_keys.c.id == key_id,
            api_keys.c.principal_id == principal_id,
            api_keys.c.tenant_id == self._tenant.id,
        )
        row = self._connection.execute(select(api_keys.c.revoked_at).where(mine)).first()
        if row is None:
            raise WyrdError(Code.SPEC_404_NOT_FOUND, f"no credential {key_id} of that principal")
        if row.revoked_at is not None:
            return
        had = self._administrators()
        self._connection.execute(update(api_keys).where(mine).values(revoked_at=utc_now()))
        self._keep_an_administrator(had)

    def suspend(self, principal_id: str, reason: str) -> None:
        """Suspend for good and revoke every key.

        Raises `WYRD_AUTH_404_PRINCIPAL_NOT_FOUND`, `WYRD_AUTH_409_ADMIN_CONFLICT`.
        """
        self._lock()
        if self.get(principal_id).status is PrincipalStatus.SUSPENDED:
            return
        had, now = self._administrators(), utc_now()
        self._connection.execute(
            update(principals)
            .where(principals.c.id == principal_id, principals.c.tenant_id == self._tenant.id)
            .values(status=PrincipalStatus.SUSPENDED.value, suspended_at=now, suspension_reason=reason)
        )
        self._connection.execute(
            update(api_keys)
            .where(
                api_keys.c.principal_id == principal_id,
                api_keys.c.tenant_id == self._tenant.id,
                api_keys.c.revoked_at.is_(None),
            )
            .values(revoked_at=now)
        )
        self._keep_an_administrator(had)

    def roles(self, principal_id: str) -> list[Role]:
        self.get(principal_id)
        granted = self._connection.execute(
            select(principal_roles.c.role)
            .where(self._roles_of(principal_id))
            .order_by(principal_roles.c.role)
        ).scalars()
        return [Role(role) for role in granted]

    def grant(self, principal_id: str, role: Role) -> bool:
        """Whether that changed anything."""
        self._lock()
        if role in self.roles(principal_id):
            return False
        self._grant(principal_id, role, utc_now())
        return True

    def withdraw(self, principal_id: str, role: Role) -> bool:
        """Whether that changed anything. `WYRD_AUTH_409_ADMIN_CONFLICT` for the last administrator."""
        self._lock()
        if role not in self.roles(principal_id):
            return False
        had = self._administrators()
        self._connection.execute(
            delete(principal_roles).where(self._roles_of(principal_id), principal_roles.c.role == role.value)
        )
        self._keep_an_administrator(had)
        return True

    def refused(self, card_uid: str) -> str | None:
        """Why the Card's principal may not act; None when it may, or when none was ever bound."""
        bound = self._connection.execute(
            select(principals.c.status, self._usable_key().label("usable")).where(
                principals.c.tenant_id == self._tenant.id, principals.c.card_uid == card_uid
            )
        ).all()
        if not bound or any(row.status == PrincipalStatus.ACTIVE and row.usable for row in bound):
            return None
        if any(row.status == PrincipalStatus.ACTIVE for row in bound):
            return "the last key of the owner's principal was revoked or has expired"
        return "the owner's principal is suspended"

    def _principals(self) -> Select[Any]:
        return select(principals).where(principals.c.tenant_id == self._tenant.id)

    def _roles_of(self, principal_id: str) -> Any:
        return and_(
            principal_roles.c.principal_id == principal_id, principal_roles.c.tenant_id == self._tenant.id
        )

    def _grant(self, principal_id: str, role: Role, now: datetime) -> None:
        self._connection.execute(
            insert(principal_roles).values(
                tenant_id=self._tenant.id, principal_id=principal_id, role=role.value, granted_at=now
            )
        )

    def _lock(self) -> None:
        """Let only one change at a time decide who is the last administrator."""
        self._connection.execute(
            select(tenants.c.id).where(tenants.c.id == self._tenant.id).with_for_update()
        )

    def _usable_key(self) -> Any:
        return exists().where(
            api_keys.c.principal_id == principals.c.id,
            api_keys.c.revoked_at.is_(None),
            or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > utc_now()),
        )

    def _administrators(self) -> int:
        """Active administrators who hold a usable key."""
        statement = (
            select(func.count())
            .select_from(principals)
            .join(principal_roles, principal_roles.c.principal_id == principals.c.id)
            .where(
                principals.c.tenant_id == self._tenant.id,
                principals.c.status == PrincipalStatus.ACTIVE.value,
                principal_roles.c.role == Role.ADMIN.value,
                self._usable_key(),
            )
        )
        return int(self._connection.execute(statement).scalar_one())

    def _keep_an_administrator(self, had: int) -> None:
        if had and not self._administrators():
            raise WyrdError(
                Code.AUTH_409_ADMIN_CONFLICT, "that would leave the tenant without an administrator"
            )


def _no_principal(principal_id: str) -> WyrdError:
    return WyrdError(Code.AUTH_404_PRINCIPAL_NOT_FOUND, f"no principal {principal_id}")


def _as_principal(row: Row[Any]) -> Principal:
    return Principal(
        id=row.id,
        kind=PrincipalKind(row.kind),
        status=PrincipalStatus(row.status),
        name=row.name,
        email=row.email,
        card_uid=row.card_uid,
        card_ref=row.card_ref,
    )
