"""Due times across tenants, for the relay alone: those no workflow has, and those nobody acted on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, literal, select, tuple_

from store.caller import Tenant
from store.clock import now
from store.tables.groups import UNTOLD, groups


@dataclass(frozen=True, slots=True)
class Untold:
    """A due time that a group's workflow does not have yet."""

    tenant: Tenant
    binding_id: str
    group_id: str
    due_at: datetime


def untold(connection: Connection, tenants: dict[str, Tenant], limit: int) -> list[Untold]:
    """Across tenants, for the relay alone: due times that no workflow has yet, the earliest first."""
    statement = _due_times().where(UNTOLD).order_by(groups.c.due_at).limit(limit)
    return [_untold(row, tenants) for row in connection.execute(statement)]


def overdue(
    connection: Connection, tenants: dict[str, Tenant], late: timedelta, after: Untold | None, limit: int
) -> list[Untold]:
    """Across tenants, for the relay alone: what was told and has not been taken up though it was due so
    much earlier than now, in an order that `after` goes on in."""
    place = (groups.c.due_at, groups.c.tenant_id, groups.c.binding_id, groups.c.group_id)
    statement = _due_times().where(
        groups.c.due_at < now(connection) - late, groups.c.told_due_at >= groups.c.due_at
    )
    if after is not None:
        moment = literal(after.due_at, groups.c.due_at.type)
        statement = statement.where(
            tuple_(*place) > tuple_(moment, after.tenant.id, after.binding_id, after.group_id)
        )
    return [_untold(row, tenants) for row in connection.execute(statement.order_by(*place).limit(limit))]


def _due_times() -> Select[Any]:
    return select(groups.c.tenant_id, groups.c.binding_id, groups.c.group_id, groups.c.due_at)


def _untold(row: Row[Any], tenants: dict[str, Tenant]) -> Untold:
    return Untold(tenants[row.tenant_id], row.binding_id, row.group_id, row.due_at)
