"""The repository of executions: accepted once, ended once, whoever asks how often.

Every write lands on a natural key, so that a retried activity, a replayed request and two
workers that both think they are first change nothing the second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, literal, select, update

from store.blocks import Blocks
from store.caller import Tenant
from store.database import insert_or_nothing, utc_now
from store.groups import GroupBinding, Groups
from store.outbox import Batch, Outbox, add_batches
from store.submission_keys import SubmissionKeys
from store.tables.executions import executions
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionSource, ExecutionStatus

_OPEN = executions.c.ended_at.is_(None)


@dataclass(frozen=True)
class NewExecution:
    """What is known when an execution is accepted. `inputs` is JSON text, and so is `group_sources`: by
    source slot, what it reads and the executions it was gathered from."""

    execution_id: str
    source: str
    verifier_uid: str
    verifier: str
    subject_uid: str
    subject: str
    owner_uid: str | None
    owner: str | None
    binding_id: str | None
    principal_id: str | None
    run_id: str | None
    group_id: str | None
    inputs: str
    timeout_seconds: float
    created_at: datetime
    session_id: str | None = None
    group_sources: str | None = None
    window_start: datetime | None = None
    window_end: datetime | None = None


@dataclass(frozen=True)
class Accepted:
    """`fresh`: this call made the row. `conflict`: the key was used before for another body."""

    execution_id: str
    fresh: bool
    conflict: bool = False


def workflow_id_of(tenant: Tenant, execution_id: str) -> str:
    return f"{tenant.slug}/verification/{execution_id}"


class Executions:
    """Executions of one tenant over one connection; nothing here reaches another tenant's rows."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant
        self._mine = executions.c.tenant_id == tenant.id

    def accept(
        self,
        new: NewExecution,
        *,
        key: str | None = None,
        body_sha256: str = "",
        groups: Sequence[GroupBinding] = (),
    ) -> Accepted:
        """Insert the execution, once per idempotency key and body, as evidence of those groups.

        The same key with another body makes (once) an execution that is errored with
        `WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT`.
        """
        if key is None:
            self._insert_evidence(new, groups)
            return Accepted(new.execution_id, fresh=True)
        keys = SubmissionKeys(self.connection, self.tenant)
        if keys.take(key, body_sha256, new.execution_id, new.created_at, first=True):
            self._insert_evidence(new, groups)
            return Accepted(new.execution_id, fresh=True)
        same = keys.find(key, body_sha256)
        if same is not None:
            return Accepted(same.execution_id, fresh=False, conflict=not same.first)
        return self.refuse(new, key=key, body_sha256=body_sha256)

    def refuse(self, new: NewExecution, *, key: str, body_sha256: str) -> Accepted:
        """Record that the key was used for something else: an errored execution, nothing runs."""
        keys = SubmissionKeys(self.connection, self.tenant)
        if not keys.take(key, body_sha256, new.execution_id, new.created_at, first=False):
            same = keys.find(key, body_sha256)
            assert same is not None
            return Accepted(same.execution_id, fresh=False, conflict=True)
        code = Code.REGISTRY_409_IDEMPOTENCY_CONFLICT
        self._insert_row(
            # Nothing of it is judged, so nothing of it is kept.
            replace(new, inputs="{}"),
            status=ExecutionStatus.ERRORED.value,
            acknowledged=True,
            ended_at=new.created_at,
            error_code=str(code),
            error_message="the idempotency key was used before for another request",
        )
        return Accepted(new.execution_id, fresh=False, conflict=True)

    def add(self, new: NewExecution) -> bool:
        """Record an execution that Wyrd itself starts; False when it was recorded before."""
        row = _row(self.tenant, new)
        return bool(
            self.connection.execute(insert_or_nothing(self.connection, executions).values(**row)).rowcount
        )

    def add_errored(self, new: NewExecution, error: WyrdError, *, workflow_id: str) -> None:
        """Record that an execution could not even begin, as that workflow found: it has none of its own."""
        row = _row(
            self.tenant,
            new,
            workflow_id=workflow_id,
            status=ExecutionStatus.ERRORED.value,
            acknowledged=True,
            ended_at=new.created_at,
            error_code=error.code,
            error_message=error.detail,
        )
        self.connection.execute(insert_or_nothing(self.connection, executions).values(**row))

    def withdraw(self, execution_id: str) -> None:
        """Forget an execution whose workflow start was refused before anything ran."""
        gone = executions.delete().where(
            self._mine, executions.c.execution_id == execution_id, executions.c.acknowledged.is_(False), _OPEN
        )
        if self.connection.execute(gone).rowcount:
            Groups(self.connection, self.tenant).withdraw(execution_id)
            SubmissionKeys(self.connection, self.tenant).withdraw(execution_id)

    def acknowledge(self, execution_ids: Sequence[str]) -> int:
        """The Temporal server has accepted their workflow starts; how many of them there are here."""
        done = self.connection.execute(
            update(executions)
            .where(self._mine, executions.c.execution_id.in_(execution_ids))
            .values(acknowledged=True)
        )
        return int(done.rowcount)

    def mark(self, execution_id: str, status: ExecutionStatus) -> None:
        """Move an execution that has not ended to `running` or `retrying`."""
        self.connection.execute(
            update(executions)
            .where(self._mine, executions.c.execution_id == execution_id, _OPEN)
            .values(
                status=status.value,
                acknowledged=True,
                started_at=func.coalesce(
                    executions.c.started_at, literal(utc_now(), executions.c.started_at.type)
                ),
            )
        )

    def complete(
        self,
        execution_id: str,
        *,
        verdict: str,
        result: str,
        started_at: datetime,
        kept: str | None = None,
        batches: Sequence[Batch] = (),
    ) -> bool:
        """Record the verdict and the result, unless the execution has ended already. `kept`, `batches`:
        as for `end`."""
        return self._end(
            execution_id,
            kept,
            batches,
            status=ExecutionStatus.COMPLETED.value,
            verdict=verdict,
            result=result,
            started_at=func.coalesce(
                executions.c.started_at, literal(started_at, executions.c.started_at.type)
            ),
        )

    def end(
        self,
        execution_id: str,
        status: ExecutionStatus,
        code: Code | None,
        message: str | None,
        *,
        kept: str | None = None,
        batches: Sequence[Batch] = (),
    ) -> bool:
        """Record an end without a verdict, unless the execution has ended already.

        With `kept`, the JSON of what may stay of the inputs, all other evidence goes: the inputs as
        they were sent, and what blocks put out. `batches` are what the end leaves in Bifrost.
        """
        return self._end(
            execution_id,
            kept,
            batches,
            status=status.value,
            error_code=None if code is None else str(code),
            # Text of other systems may be in it, and PostgreSQL takes no NUL.
            error_message=None if message is None else message.replace("\0", "\N{REPLACEMENT CHARACTER}"),
        )

    def find(self, execution_id: str) -> Row[Any] | None:
        return self.connection.execute(
            select(executions).where(self._mine, executions.c.execution_id == execution_id)
        ).one_or_none()

    def waiting(self, limit: int) -> int:
        """How many executions have not ended, counted no further than `limit`."""
        inner = select(literal(1)).where(self._mine, _OPEN).limit(limit).subquery()
        return int(self.connection.execute(select(func.count()).select_from(inner)).scalar_one())

    def _insert_evidence(self, new: NewExecution, groups: Sequence[GroupBinding]) -> None:
        self._insert_row(new)
        if new.group_id is not None:
            Groups(self.connection, self.tenant).acknowledge_input(new.execution_id, new.group_id, groups)

    def _insert_row(self, new: NewExecution, **more: Any) -> None:
        self.connection.execute(insert(executions), _row(self.tenant, new, **more))

    def _end(self, execution_id: str, kept: str | None, batches: Sequence[Batch], **values: Any) -> bool:
        if kept is not None:
            values["inputs"] = kept
        done = self.connection.execute(
            update(executions)
            .where(self._mine, executions.c.execution_id == execution_id, _OPEN)
            .values(acknowledged=True, ended_at=utc_now(), **values)
            .returning(executions.c.group_id, executions.c.source)
        ).one_or_none()
        if done is None:
            return False
        Outbox(self.connection, self.tenant).add(batches)
        if done.group_id is not None and done.source != ExecutionSource.GROUP.value:
            Groups(self.connection, self.tenant).acknowledge_end(execution_id)
        if kept is not None:
            Blocks(self.connection, self.tenant, execution_id).drop()
        return True


def find_execution(connection: Connection, tenant: Tenant, execution_id: str) -> Row[Any] | None:
    """One execution of the tenant, as a transaction of its own."""
    return Executions(connection, tenant).find(execution_id)


def acknowledge_executions(connection: Connection, tenant: Tenant, execution_ids: Sequence[str]) -> int:
    """As `Executions.acknowledge`, as a transaction of its own."""
    return Executions(connection, tenant).acknowledge(execution_ids)


@dataclass(frozen=True)
class EndedRow:
    """An execution that has already ended when it is recorded: a verify."""

    tenant: Tenant
    new: NewExecution
    status: ExecutionStatus
    ended_at: datetime
    verdict: str | None = None
    result: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    batches: Sequence[Batch] = ()
    groups: Sequence[GroupBinding] = ()


def record_ended(connection: Connection, ended: Sequence[EndedRow]) -> None:
    """Insert verifies, of any tenants, with what they leave in Bifrost; one that is recorded already
    stays as it is."""
    rows = [
        _row(
            one.tenant,
            one.new,
            status=one.status.value,
            acknowledged=True,
            started_at=one.new.created_at,
            ended_at=one.ended_at,
            verdict=one.verdict,
            result=one.result,
            error_code=one.error_code,
            error_message=one.error_message,
        )
        for one in ended
    ]
    if rows:
        connection.execute(insert_or_nothing(connection, executions), rows)
        add_batches(connection, [(one.tenant, batch) for one in ended for batch in one.batches])
    # In one order of groups, so that two processes never wait for each other's; within a group, as they came.
    for one in sorted(ended, key=lambda one: (one.tenant.id, one.new.group_id or "")):
        if one.new.group_id is not None:
            groups = Groups(connection, one.tenant)
            groups.acknowledge_input(one.new.execution_id, one.new.group_id, one.groups)


def _row(tenant: Tenant, new: NewExecution, **more: Any) -> dict[str, Any]:
    return {
        "tenant_id": tenant.id,
        "workflow_id": workflow_id_of(tenant, new.execution_id),
        "status": ExecutionStatus.PENDING.value,
        "acknowledged": False,
        **new.__dict__,
        **more,
    }


def new_execution_id() -> str:
    return uuid7()
