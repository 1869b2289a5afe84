"""The repository of dispatches: one row for each Operator that reacts to an execution, once.

A dispatch's id follows from what it is about, so that a retried activity or a replayed workflow
lands on the row that is there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from store.caller import Tenant
from store.database import insert_or_nothing
from store.tables.operators import dispatch_attempts, dispatches
from wyrd.wire.canonical import canonical_json

_SPACE = uuid.UUID("5d4a8f0e-3f0c-5b1e-9d0a-6f2b7c1d9e42")
_FREE_BITS = 0xFFF << 64 | (1 << 62) - 1
"""What neither the time nor the version and variant of a UUIDv7 take up."""
_OPEN = dispatches.c.ended_at.is_(None)
_LONGEST_MESSAGE = 500


class DispatchStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    DELIVERED = "delivered"
    FAILED = "failed"


class DispatchFault(StrEnum):
    """Why an attempt, or a whole dispatch, failed."""

    OPERATOR_UNAVAILABLE = "operator_unavailable"
    CONNECTION_UNAVAILABLE = "connection_unavailable"
    CREDENTIAL_INVALID = "credential_invalid"
    INVALID_REQUEST = "invalid_request"
    DESTINATION_REJECTED = "destination_rejected"
    DESTINATION_UNREACHABLE = "destination_unreachable"
    ATTEMPT_TIMED_OUT = "attempt_timed_out"
    PROVIDER_TRANSIENT = "provider_transient"
    PROVIDER_REJECTED = "provider_rejected"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"


@dataclass(frozen=True, slots=True)
class DispatchError:
    """A failure and its sentence, which names no secret and quotes no answer."""

    code: DispatchFault
    message: str


@dataclass(frozen=True, slots=True)
class NewDispatch:
    """A dispatch before it is stored. `request` is JSON text; a dispatch whose request could not be
    made has an `error` instead, and has ended already. `operator_uid` or `operator_digest` is None."""

    dispatch_id: str
    execution_id: str
    binding_id: str
    reaction: str
    operator_uid: str | None
    operator_digest: str | None
    request: str | None
    created_at: datetime
    deadline_at: datetime
    error: DispatchError | None = None


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended. `error` is None for one that delivered."""

    duration_ms: int
    status_code: int | None
    error: DispatchError | None


def dispatch_id_of(tenant: Tenant, execution_id: str, binding_id: str, operator: str) -> str:
    """The id of the one dispatch of that Operator (its uid, or an inline one's digest) for that binding.

    A UUIDv5 over the four, in the form of a UUIDv7 with the time of the execution: published clients
    read an execution whose dispatches have ids of any other version as an answer they cannot read.
    """
    name = canonical_json([tenant.id, execution_id, binding_id, operator]).decode()
    derived = uuid.uuid5(_SPACE, name).int
    moment = uuid.UUID(execution_id).int >> 80
    return str(uuid.UUID(int=moment << 80 | 0x7 << 76 | derived & _FREE_BITS | 0b10 << 62))


def dispatch_workflow_id(tenant: Tenant, dispatch_id: str) -> str:
    return f"{tenant.slug}/dispatch/{dispatch_id}"


class Dispatches:
    """Dispatches of one tenant over one connection."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant
        self._mine = dispatches.c.tenant_id == tenant.id

    def add(self, made: Iterable[NewDispatch]) -> None:
        """Store them; one that is there stays as it is."""
        rows = [
            {
                "dispatch_id": one.dispatch_id,
                "tenant_id": self.tenant.id,
                "workflow_id": dispatch_workflow_id(self.tenant, one.dispatch_id),
                "execution_id": one.execution_id,
                "binding_id": one.binding_id,
                "reaction": one.reaction,
                "operator_uid": one.operator_uid,
                "operator_digest": one.operator_digest,
                "request": one.request,
                "status": (DispatchStatus.FAILED if one.error else DispatchStatus.PENDING).value,
                "acknowledged": one.error is not None,
                **_error_values(one.error),
                "created_at": one.created_at,
                "deadline_at": one.deadline_at,
                "ended_at": one.created_at if one.error else None,
            }
            for one in made
        ]
        if rows:
            self.connection.execute(insert_or_nothing(self.connection, dispatches), rows)

    def unfinished(self, execution_id: str) -> list[Row[Any]]:
        """Those of an execution that have not ended: dispatch_id and deadline_at."""
        return list(
            self.connection.execute(
                select(dispatches.c.dispatch_id, dispatches.c.deadline_at)
                .where(self._mine, dispatches.c.execution_id == execution_id, _OPEN)
                .order_by(dispatches.c.dispatch_id)
            )
        )

    def find(self, dispatch_id: str) -> Row[Any] | None:
        return self.connection.execute(
            select(dispatches).where(self._mine, dispatches.c.dispatch_id == dispatch_id)
        ).one_or_none()

    def of_execution(self, execution_id: str) -> list[tuple[Row[Any], list[Row[Any]]]]:
        """Every dispatch of an execution with its attempts, both in the order they were made."""
        found = self.connection.execute(
            select(dispatches)
            .where(self._mine, dispatches.c.execution_id == execution_id)
            .order_by(dispatches.c.created_at, dispatches.c.dispatch_id)
        ).all()
        attempts: dict[str, list[Row[Any]]] = {row.dispatch_id: [] for row in found}
        if attempts:
            made = select(dispatch_attempts).where(
                dispatch_attempts.c.tenant_id == self.tenant.id,
                dispatch_attempts.c.dispatch_id.in_(list(attempts)),
            )
            for row in self.connection.execute(made.order_by(dispatch_attempts.c.number)):
                attempts[row.dispatch_id].append(row)
        return [(row, attempts[row.dispatch_id]) for row in found]

    def begun(self, dispatch_id: str) -> int:
        """How many attempts were begun, those of lost workers too."""
        return int(
            self.connection.execute(
                select(func.count())
                .select_from(dispatch_attempts)
                .where(
                    dispatch_attempts.c.tenant_id == self.tenant.id,
                    dispatch_attempts.c.dispatch_id == dispatch_id,
                )
            ).scalar_one()
        )

    def begin(self, dispatch_id: str, now: datetime) -> int:
        """Note that an attempt begins; its number, from 1."""
        number = self.begun(dispatch_id) + 1
        self.connection.execute(
            insert_or_nothing(self.connection, dispatch_attempts).values(
                tenant_id=self.tenant.id, dispatch_id=dispatch_id, number=number, started_at=now
            )
        )
        self._set(dispatch_id, status=DispatchStatus.RUNNING.value, acknowledged=True)
        return number

    def finish(self, dispatch_id: str, number: int, end: AttemptEnd, now: datetime) -> None:
        """Note how an attempt ended; the dispatch is delivered then, or retrying."""
        self.connection.execute(
            update(dispatch_attempts)
            .where(
                dispatch_attempts.c.tenant_id == self.tenant.id,
                dispatch_attempts.c.dispatch_id == dispatch_id,
                dispatch_attempts.c.number == number,
            )
            .values(duration_ms=end.duration_ms, status_code=end.status_code, **_error_values(end.error))
        )
        if end.error is None:
            self._set(dispatch_id, status=DispatchStatus.DELIVERED.value, ended_at=now)
        else:
            self._set(dispatch_id, status=DispatchStatus.RETRYING.value)

    def fail(self, dispatch_id: str, error: DispatchError, now: datetime) -> bool:
        """End a dispatch without a delivery; False where it has ended already."""
        return self._set(
            dispatch_id,
            status=DispatchStatus.FAILED.value,
            acknowledged=True,
            ended_at=now,
            **_error_values(error),
        )

    def acknowledge(self, dispatch_id: str) -> None:
        """Its workflow is known to Temporal."""
        self._set(dispatch_id, acknowledged=True)

    def _set(self, dispatch_id: str, **values: Any) -> bool:
        """Change a dispatch that has not ended."""
        done = self.connection.execute(
            update(dispatches)
            .where(self._mine, dispatches.c.dispatch_id == dispatch_id, _OPEN)
            .values(**values)
        )
        return bool(done.rowcount)


def unstarted_dispatches(connection: Connection, *, older_than: datetime, limit: int) -> Sequence[Row[Any]]:
    """Across tenants, for the worker's duty alone: those whose workflow nobody is known to have started."""
    return connection.execute(
        _of_all()
        .where(dispatches.c.created_at < older_than, dispatches.c.acknowledged.is_(False))
        .limit(limit)
    ).all()


def overdue_dispatches(
    connection: Connection, *, deadline_before: datetime, limit: int
) -> Sequence[Row[Any]]:
    """Across tenants, for the worker's duty alone: those that should have ended by then."""
    return connection.execute(_of_all().where(dispatches.c.deadline_at < deadline_before).limit(limit)).all()


def _of_all() -> Any:
    return (
        select(
            dispatches.c.tenant_id,
            dispatches.c.dispatch_id,
            dispatches.c.workflow_id,
            dispatches.c.deadline_at,
        )
        .where(_OPEN)
        .order_by(dispatches.c.created_at, dispatches.c.dispatch_id)
    )


def _error_values(error: DispatchError | None) -> dict[str, str | None]:
    if error is None:
        return {"error_code": None, "error_message": None}
    return {"error_code": error.code.value, "error_message": error.message[:_LONGEST_MESSAGE]}
