"""The repository of executions: accepted once, ended once, whoever asks how often.

Every write lands on a natural key, so that a retried activity, a replayed request and two
workers that both think they are first change nothing the second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, exists, func, insert, literal, or_, select, update
from sqlalchemy.exc import IntegrityError

from store.caller import Tenant
from store.database import insert_or_nothing, utc_now
from store.tables.executions import execution_blocks, executions, submission_keys
from wyrd.errors import Code
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionStatus

_OPEN = executions.c.ended_at.is_(None)


@dataclass(frozen=True)
class NewExecution:
    """What is known when an execution is accepted. `inputs` is JSON text."""

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


@dataclass(frozen=True)
class Accepted:
    """`fresh`: this call made the row. `conflict`: the key was used before for another body."""

    execution_id: str
    fresh: bool
    conflict: bool = False


@dataclass(frozen=True)
class BlockEnd:
    """The recorded end of one block: its letter, its JSON document, and a step's output.

    A small output is kept as JSON text, a large one in the blob store; the digest is there for both.
    """

    block: int
    letter: str
    document: str
    output: str | None = None
    output_sha256: str | None = None


def workflow_id_of(tenant: Tenant, execution_id: str) -> str:
    return f"{tenant.slug}/verification/{execution_id}"


class Executions:
    """Executions of one tenant over one connection; nothing here reaches another tenant's rows."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant
        self._mine = executions.c.tenant_id == tenant.id

    def accept(self, new: NewExecution, *, key: str | None = None, body_sha256: str = "") -> Accepted:
        """Insert the execution, once per idempotency key and body.

        The same key with another body makes (once) an execution that is errored with
        `WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT`.
        """
        if key is None:
            self._insert_row(new)
            return Accepted(new.execution_id, fresh=True)
        earlier = self._key_rows(key)
        if not earlier:
            try:
                with self.connection.begin_nested():
                    self._insert_key(key, body_sha256, new, first=True)
                self._insert_row(new)
                return Accepted(new.execution_id, fresh=True)
            except IntegrityError:
                # Another process took the key between our look and our insert.
                earlier = self._key_rows(key)
        for row in earlier:
            if row.body_sha256 == body_sha256:
                return Accepted(row.execution_id, fresh=False, conflict=not row.first)
        return self.refuse(new, key=key, body_sha256=body_sha256)

    def refuse(self, new: NewExecution, *, key: str, body_sha256: str) -> Accepted:
        """Record that the key was used for something else: an errored execution, nothing runs."""
        try:
            with self.connection.begin_nested():
                self._insert_key(key, body_sha256, new, first=False)
        except IntegrityError:
            same = next(row for row in self._key_rows(key) if row.body_sha256 == body_sha256)
            return Accepted(same.execution_id, fresh=False, conflict=True)
        code = Code.REGISTRY_409_IDEMPOTENCY_CONFLICT
        self._insert_row(
            new,
            status=ExecutionStatus.ERRORED.value,
            acknowledged=True,
            ended_at=new.created_at,
            error_code=str(code),
            error_message="the idempotency key was used before for another request",
        )
        return Accepted(new.execution_id, fresh=False, conflict=True)

    def withdraw(self, execution_id: str) -> None:
        """Forget an execution whose workflow start was refused before anything ran."""
        gone = executions.delete().where(
            self._mine, executions.c.execution_id == execution_id, executions.c.acknowledged.is_(False), _OPEN
        )
        if self.connection.execute(gone).rowcount:
            self.connection.execute(
                submission_keys.delete().where(
                    submission_keys.c.tenant_id == self.tenant.id,
                    submission_keys.c.execution_id == execution_id,
                )
            )

    def acknowledge(self, execution_ids: Sequence[str]) -> None:
        """The Temporal server has accepted their workflow starts."""
        self.connection.execute(
            update(executions)
            .where(
                self._mine,
                executions.c.execution_id.in_(execution_ids),
                executions.c.acknowledged.is_(False),
            )
            .values(acknowledged=True)
        )

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

    def complete(self, execution_id: str, *, verdict: str, result: str, started_at: datetime) -> bool:
        """Record the verdict and the result, unless the execution has ended already."""
        return self._end(
            execution_id,
            status=ExecutionStatus.COMPLETED.value,
            verdict=verdict,
            result=result,
            started_at=func.coalesce(
                executions.c.started_at, literal(started_at, executions.c.started_at.type)
            ),
        )

    def end(self, execution_id: str, status: ExecutionStatus, code: Code | None, message: str | None) -> bool:
        """Record an end without a verdict, unless the execution has ended already."""
        return self._end(
            execution_id,
            status=status.value,
            error_code=None if code is None else str(code),
            error_message=message,
        )

    def forget_evidence(self, execution_id: str, inputs: str) -> None:
        """Replace the inputs by what may be kept of them, and drop what the blocks put out."""
        self.connection.execute(
            update(executions)
            .where(self._mine, executions.c.execution_id == execution_id)
            .values(inputs=inputs)
        )
        self.connection.execute(
            execution_blocks.delete().where(
                execution_blocks.c.tenant_id == self.tenant.id,
                execution_blocks.c.execution_id == execution_id,
            )
        )

    def record_whole(
        self, new: NewExecution, *, status: ExecutionStatus, started_at: datetime, **ended: Any
    ) -> bool:
        """Insert an execution that has already ended (a verify); the second time changes nothing."""
        values = self._row(new, status=status.value, acknowledged=True, started_at=started_at, **ended)
        done = self.connection.execute(insert_or_nothing(self.connection, executions).values(**values))
        return bool(done.rowcount)

    def find(self, execution_id: str) -> Row[Any] | None:
        return self.connection.execute(
            select(executions).where(self._mine, executions.c.execution_id == execution_id)
        ).one_or_none()

    def waiting(self, limit: int) -> int:
        """How many executions have not ended, counted no further than `limit`."""
        inner = select(literal(1)).where(self._mine, _OPEN).limit(limit).subquery()
        return int(self.connection.execute(select(func.count()).select_from(inner)).scalar_one())

    def save_block(self, execution_id: str, end: BlockEnd) -> BlockEnd:
        """Record a block's end; when one is recorded already, that one stands and is returned."""
        values = {
            "tenant_id": self.tenant.id,
            "execution_id": execution_id,
            "block": end.block,
            "letter": end.letter,
            "document": end.document,
            "output": end.output,
            "output_sha256": end.output_sha256,
            "recorded_at": utc_now(),
        }
        done = self.connection.execute(insert_or_nothing(self.connection, execution_blocks).values(**values))
        if done.rowcount:
            return end
        found = self.block(execution_id, end.block)
        assert found is not None
        return found

    def block(self, execution_id: str, block: int) -> BlockEnd | None:
        row = self.connection.execute(
            self._blocks(execution_id).where(execution_blocks.c.block == block)
        ).one_or_none()
        return None if row is None else _block_end(row)

    def blocks(self, execution_id: str, only: Sequence[int] | None = None) -> dict[int, BlockEnd]:
        statement = self._blocks(execution_id)
        if only is not None:
            statement = statement.where(execution_blocks.c.block.in_(only))
        return {row.block: _block_end(row) for row in self.connection.execute(statement)}

    def page(
        self, filters: Mapping[str, Any], *, before: tuple[datetime, str] | None, limit: int
    ) -> list[Row[Any]]:
        """The newest executions first. `filters`: column name to value, `since` and `until` times;
        `verifier` and `subject` take a uid, or the text `space/Kind/name[@version]`; `subjects` are
        the uids a Card-bound caller may see."""
        statement = select(*[column for column in executions.c if column.name not in ("inputs", "result")])
        statement = statement.where(self._mine, *_conditions(filters))
        if before is not None:
            created_at, execution_id = before
            statement = statement.where(
                or_(
                    executions.c.created_at < created_at,
                    and_(executions.c.created_at == created_at, executions.c.execution_id < execution_id),
                )
            )
        order = (executions.c.created_at.desc(), executions.c.execution_id.desc())
        return list(self.connection.execute(statement.order_by(*order).limit(limit)))

    def _blocks(self, execution_id: str) -> Select[Any]:
        return select(execution_blocks).where(
            execution_blocks.c.tenant_id == self.tenant.id, execution_blocks.c.execution_id == execution_id
        )

    def _key_rows(self, key: str) -> Sequence[Row[Any]]:
        return self.connection.execute(
            select(submission_keys).where(
                submission_keys.c.tenant_id == self.tenant.id, submission_keys.c.key == key
            )
        ).all()

    def _insert_key(self, key: str, body_sha256: str, new: NewExecution, *, first: bool) -> None:
        self.connection.execute(
            insert(submission_keys).values(
                tenant_id=self.tenant.id,
                key=key,
                body_sha256=body_sha256,
                execution_id=new.execution_id,
                first=first,
                created_at=new.created_at,
            )
        )

    def _row(self, new: NewExecution, **more: Any) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant.id,
            "workflow_id": workflow_id_of(self.tenant, new.execution_id),
            "status": ExecutionStatus.PENDING.value,
            "acknowledged": False,
            **new.__dict__,
            **more,
        }

    def _insert_row(self, new: NewExecution, **more: Any) -> None:
        self.connection.execute(insert(executions).values(**self._row(new, **more)))

    def _end(self, execution_id: str, **values: Any) -> bool:
        done = self.connection.execute(
            update(executions)
            .where(self._mine, executions.c.execution_id == execution_id, _OPEN)
            .values(acknowledged=True, ended_at=utc_now(), **values)
        )
        return bool(done.rowcount)


def open_executions(connection: Connection, *, older_than: datetime, limit: int) -> list[Row[Any]]:
    """Across tenants, for the settler alone: executions without an end, oldest first."""
    statement = (
        select(
            executions.c.tenant_id,
            executions.c.execution_id,
            executions.c.workflow_id,
            executions.c.acknowledged,
            executions.c.timeout_seconds,
            executions.c.created_at,
        )
        .where(_OPEN, executions.c.created_at < older_than, executions.c.source != "verify")
        .order_by(executions.c.created_at)
        .limit(limit)
    )
    return list(connection.execute(statement))


def forget_keys(connection: Connection, *, older_than: datetime) -> int:
    """Drop idempotency keys kept long enough, of every tenant; how many."""
    still_open = exists().where(executions.c.execution_id == submission_keys.c.execution_id, _OPEN)
    done = connection.execute(
        submission_keys.delete().where(submission_keys.c.created_at < older_than, ~still_open)
    )
    return int(done.rowcount)


def new_execution_id() -> str:
    return uuid7()


def _block_end(row: Row[Any]) -> BlockEnd:
    return BlockEnd(row.block, row.letter, row.document, row.output, row.output_sha256)


_COLUMNS = ("status", "verdict", "run_id", "group_id", "binding_id", "source")


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
        conditions.append(executions.c.subject_uid.in_(filters["subjects"]))
    if "since" in filters:
        conditions.append(executions.c.created_at >= filters["since"])
    if "until" in filters:
        conditions.append(executions.c.created_at < filters["until"])
    return conditions
