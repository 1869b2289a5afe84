"""Lists of executions: pages for callers, windows of a binding, and what the settler looks at."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, or_, select

from store.caller import Tenant
from store.tables.executions import executions

Mark = tuple[datetime, str]
"""Creation time and id of an execution: where a list goes on from."""

_LARGE = ("inputs", "result", "group_sources")
_COLUMNS = ("status", "verdict", "run_id", "group_id", "binding_id", "source")


def execution_page(
    connection: Connection,
    tenant: Tenant,
    filters: Mapping[str, Any],
    *,
    before: Mark | None,
    limit: int,
) -> list[Row[Any]]:
    """The newest executions first. `filters`: column name to value, `since` and `until` times;
    `verifier` and `subject` take a uid, or the text `space/Kind/name[@version]`; `subjects` are
    the uids a Card-bound caller may see, as subject and as owner."""
    statement = select(*[column for column in executions.c if column.name not in _LARGE])
    statement = statement.where(executions.c.tenant_id == tenant.id, *_conditions(filters))
    if before is not None:
        statement = statement.where(_beyond(before, newer=False))
    order = (executions.c.created_at.desc(), executions.c.execution_id.desc())
    return list(connection.execute(statement.order_by(*order).limit(limit)))


def scheduled_windows(connection: Connection, tenant: Tenant, binding_id: str, limit: int) -> list[Row[Any]]:
    """The scheduled executions of a binding, the latest window first."""
    statement = (
        select(
            executions.c.execution_id,
            executions.c.status,
            executions.c.verdict,
            executions.c.error_code,
            executions.c.error_message,
            executions.c.window_start,
            executions.c.window_end,
        )
        .where(
            executions.c.tenant_id == tenant.id,
            executions.c.binding_id == binding_id,
            executions.c.window_end.is_not(None),
        )
        .order_by(executions.c.window_end.desc(), executions.c.execution_id.desc())
        .limit(limit)
    )
    return list(connection.execute(statement))


def last_of_binding(connection: Connection, tenant: Tenant, binding_id: str) -> str | None:
    """The newest execution of a binding."""
    statement = (
        select(executions.c.execution_id)
        .where(executions.c.tenant_id == tenant.id, executions.c.binding_id == binding_id)
        .order_by(executions.c.created_at.desc(), executions.c.execution_id.desc())
        .limit(1)
    )
    found: str | None = connection.execute(statement).scalar_one_or_none()
    return found


def window_judged(connection: Connection, tenant: Tenant, binding_id: str, window_end: datetime) -> bool:
    """Whether that window of a binding has an execution that is or was more than an error."""
    statement = select(executions.c.execution_id).where(
        executions.c.tenant_id == tenant.id,
        executions.c.binding_id == binding_id,
        executions.c.window_end == window_end,
        executions.c.status != "errored",
    )
    return connection.execute(statement.limit(1)).first() is not None


def open_executions(
    connection: Connection, *, older_than: datetime, limit: int, after: Mark | None = None
) -> list[Row[Any]]:
    """Across tenants, for the settler alone: executions without an end, oldest first, from after a
    (creation time, id) on."""
    statement = (
        select(
            executions.c.tenant_id,
            executions.c.execution_id,
            executions.c.workflow_id,
            executions.c.source,
            executions.c.acknowledged,
            executions.c.timeout_seconds,
            executions.c.created_at,
        )
        .where(
            executions.c.ended_at.is_(None),
            executions.c.created_at < older_than,
            executions.c.source != "verify",
        )
        .order_by(executions.c.created_at, executions.c.execution_id)
        .limit(limit)
    )
    if after is not None:
        statement = statement.where(_beyond(after, newer=True))
    return list(connection.execute(statement))


def _beyond(mark: Mark, *, newer: bool) -> Any:
    created_at, execution_id = mark
    times, ids = executions.c.created_at, executions.c.execution_id
    first = times > created_at if newer else times < created_at
    return or_(first, and_(times == created_at, ids > execution_id if newer else ids < execution_id))


def _conditions(filters: Mapping[str, Any]) -> list[Any]:
    conditions: list[Any] = [executions.c[name] == filters[name] for name in _COLUMNS if name in filters]
    for name in ("verifier", "subject"):
        wanted = filters.get(name)
        if wanted is None:
            continue
        if "/" not in wanted:
            conditions.append(executions.c[f"{name}_uid"] == wanted)
        elif "@" in wanted:
            conditions.append(executions.c[name] == wanted)
        else:
            conditions.append(executions.c[name].startswith(f"{wanted}@", autoescape=True))
    if "subjects" in filters:
        seen = filters["subjects"]
        owned = or_(executions.c.owner_uid.is_(None), executions.c.owner_uid.in_(seen))
        conditions += [executions.c.subject_uid.in_(seen), owned]
    if "since" in filters:
        conditions.append(executions.c.created_at >= filters["since"])
    if "until" in filters:
        conditions.append(executions.c.created_at < filters["until"])
    return conditions
