"""The repository of operator connections: where Operators deliver to, and with which secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select, update
from sqlalchemy.exc import IntegrityError

from store.caller import Tenant
from store.database import database_now, insert_or_nothing
from store.sealing import Sealed, Sealer
from store.tables.operators import operator_connections
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import canonical_json, strict_loads
from wyrd.wire.connections import origin_of
from wyrd.wire.ids import uuid7

ACTIVE = "active"
DISABLED = "disabled"

Secret = Mapping[str, str]
"""What a provider authenticates by: `bot_token`; `integration_key`; `token`, `username` and `password`,
or `value`."""


@dataclass(frozen=True, slots=True)
class OperatorConnection:
    """One connection as it may be shown. `workspace_id` is Slack's; `origin`, `auth_scheme` (bearer,
    basic or header) and `auth_header`, the name of the header, are those of provider http."""

    connection_id: str
    provider: str
    name: str
    status: str
    workspace_id: str | None
    origin: str | None
    auth_scheme: str | None
    auth_header: str | None
    created_at: datetime
    updated_at: datetime

    def refusal(self, provider: str, scheme: str | None, header: str | None, url: str | None) -> str | None:
        """Why an Operator cannot use it, or None. All but the provider are those of provider http."""
        if self.status != ACTIVE:
            return f"the connection {self.name} is disabled"
        if self.provider != provider:
            return f"the connection {self.name} is for {self.provider}, not for {provider}"
        if provider != "http":
            return None
        if self.auth_scheme != scheme or (self.auth_header or "").lower() != (header or "").lower():
            return f"the connection {self.name} authenticates in another way than the Operator says"
        if self.origin != origin_of(url or ""):
            return f"the connection {self.name} is for {self.origin}, which the Operator does not call"
        return None


_COLUMNS = tuple(operator_connections.c[name] for name in OperatorConnection.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class NewConnection:
    """A connection before it is stored."""

    provider: str
    name: str
    secret: Secret
    workspace_id: str | None = None
    origin: str | None = None
    auth_scheme: str | None = None
    auth_header: str | None = None


class Connections:
    """Operator connections of one tenant over one connection to the database."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant
        self._mine = operator_connections.c.tenant_id == tenant.id

    def create(self, sealer: Sealer, new: NewConnection) -> OperatorConnection:
        """Raises `WYRD_OPERATOR_409_CONNECTION_CONFLICT` where the name is taken, by a disabled one too."""
        now = database_now(self.connection)
        made = OperatorConnection(
            connection_id=uuid7(),
            provider=new.provider,
            name=new.name,
            status=ACTIVE,
            workspace_id=new.workspace_id,
            origin=new.origin,
            auth_scheme=new.auth_scheme,
            auth_header=new.auth_header,
            created_at=now,
            updated_at=now,
        )
        row = {"tenant_id": self.tenant.id, **_values(made), **self._sealed(sealer, made, new.secret)}
        done = self.connection.execute(insert_or_nothing(self.connection, operator_connections), row)
        if not done.rowcount:
            raise _taken(new.name)
        return made

    def every(self) -> list[OperatorConnection]:
        """All of them, the oldest first, disabled ones too."""
        statement = select(*_COLUMNS).where(self._mine).order_by(operator_connections.c.connection_id)
        return [_connection(row) for row in self.connection.execute(statement)]

    def find(self, connection_id: str) -> OperatorConnection:
        """Raises `WYRD_OPERATOR_404_CONNECTION_NOT_FOUND`."""
        row = self.connection.execute(
            select(*_COLUMNS).where(self._mine, operator_connections.c.connection_id == connection_id.lower())
        ).one_or_none()
        if row is None:
            raise WyrdError(
                Code.OPERATOR_404_CONNECTION_NOT_FOUND,
                f"no operator connection {connection_id[:64]}",
                field="connection_id",
            )
        return _connection(row)

    def named(self, names: Iterable[str]) -> dict[str, OperatorConnection]:
        """Those of the names that exist, whatever their status."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        statement = select(*_COLUMNS).where(self._mine, operator_connections.c.name.in_(wanted))
        return {row.name: _connection(row) for row in self.connection.execute(statement)}

    def change(
        self,
        sealer: Sealer,
        connection_id: str,
        changes: Mapping[str, Any],
        secret: Secret | None = None,
    ) -> OperatorConnection:
        """Change columns by name, and the secret where one is given; the connection as it is then.

        Errors: `WYRD_OPERATOR_404_CONNECTION_NOT_FOUND`, `WYRD_OPERATOR_409_CONNECTION_CONFLICT`, and
        `WYRD_OPERATOR_503_KEY_UNAVAILABLE` for a new name, under which the secret is sealed anew.
        """
        before = self.find(connection_id)
        after = replace(before, **changes, updated_at=database_now(self.connection))
        values = _values(after)
        if after.name != before.name and secret is None:
            secret = self.secret(sealer, before)
        if secret is not None:
            values |= self._sealed(sealer, after, secret)
        changed = (
            update(operator_connections)
            .where(self._mine, operator_connections.c.connection_id == before.connection_id)
            .values(values)
        )
        try:
            with self.connection.begin_nested():
                self.connection.execute(changed)
        except IntegrityError:
            raise _taken(after.name) from None
        return after

    def secret(self, sealer: Sealer, found: OperatorConnection) -> dict[str, str]:
        """What it authenticates by. Raises `WYRD_OPERATOR_503_KEY_UNAVAILABLE`."""
        row = self.connection.execute(
            select(operator_connections.c.sealed_secret, operator_connections.c.sealed_key).where(
                self._mine, operator_connections.c.connection_id == found.connection_id
            )
        ).one()
        secret: dict[str, str] = strict_loads(
            sealer.open(Sealed(row.sealed_secret, row.sealed_key), *self._bound(found))
        )
        return secret

    def _sealed(self, sealer: Sealer, of: OperatorConnection, secret: Secret) -> dict[str, bytes]:
        sealed = sealer.seal(canonical_json(dict(secret)), *self._bound(of))
        return {"sealed_secret": sealed.secret, "sealed_key": sealed.key}

    def _bound(self, of: OperatorConnection) -> tuple[str, ...]:
        """What a sealed secret belongs to: moved to another row, it does not open."""
        return self.tenant.id, of.connection_id, of.provider, of.name


def _values(of: OperatorConnection) -> dict[str, Any]:
    return {column.name: getattr(of, column.name) for column in _COLUMNS}


def _connection(row: Row[Any]) -> OperatorConnection:
    return OperatorConnection(**row._mapping)


def _taken(name: str) -> WyrdError:
    return WyrdError(
        Code.OPERATOR_409_CONNECTION_CONFLICT,
        f"an operator connection named {name!r} exists already",
        field="name",
    )
