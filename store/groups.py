"""The repository of groups: evidence in its order of arrival, due times, and the last verdict.

Acknowledging evidence and making its group due is one step of the transaction that records the
evidence, so a crash in between cannot forget a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, case, func, literal, or_, select, update

from store.caller import Tenant
from store.clock import now as clock_now
from store.database import insert_or_nothing
from store.tables.executions import executions
from store.tables.groups import group_evidence, groups


@dataclass(frozen=True, slots=True)
class GroupBinding:
    """A group_end binding that takes the evidence of some Verifier; `after` are seconds of quiet."""

    binding_id: str
    after: float


@dataclass(frozen=True, slots=True)
class Group:
    """One group of one binding, as it stands. `revision` rises with every change of its evidence."""

    binding_id: str
    group_id: str
    after: float
    due_at: datetime | None
    told_due_at: datetime | None
    verdict: str | None
    last_execution_id: str | None
    revision: int


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """The groups of a binding in short: how many wait, when the first is due, and the last execution."""

    waiting: int
    next_due_at: datetime | None
    last_execution_id: str | None


class Groups:
    """Groups of one tenant over one connection."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant

    def acknowledge_input(self, execution_id: str, group_id: str, bindings: Sequence[GroupBinding]) -> None:
        """The input of an execution is recorded: it belongs to the group of each binding from now on.

        Recorded again it changes nothing: the first time is the order of arrival.
        """
        if not bindings:
            return
        now = clock_now(self.connection)
        # One order everywhere, so that two transactions never wait for each other's groups.
        for binding in sorted(bindings, key=lambda one: one.binding_id):
            row = {
                "tenant_id": self.tenant.id,
                "binding_id": binding.binding_id,
                "group_id": group_id,
                "execution_id": execution_id,
                "acknowledged_at": now,
            }
            made = self.connection.execute(insert_or_nothing(self.connection, group_evidence).values(**row))
            if made.rowcount:
                self._due(binding.binding_id, group_id, binding.after, now)

    def acknowledge_end(self, execution_id: str) -> None:
        """An execution has ended: the groups it belongs to become due anew."""
        statement = (
            select(groups.c.binding_id, groups.c.group_id, groups.c.after_seconds)
            .join(
                group_evidence,
                (group_evidence.c.tenant_id == groups.c.tenant_id)
                & (group_evidence.c.binding_id == groups.c.binding_id)
                & (group_evidence.c.group_id == groups.c.group_id),
            )
            .where(
                group_evidence.c.tenant_id == self.tenant.id, group_evidence.c.execution_id == execution_id
            )
            .order_by(groups.c.binding_id)
        )
        found = self.connection.execute(statement).all()
        if not found:
            return
        now = clock_now(self.connection)
        for row in found:
            self._due(row.binding_id, row.group_id, row.after_seconds, now)

    def withdraw(self, execution_id: str) -> None:
        """The execution is forgotten, so it is no evidence. Its groups stay due: they may be judged
        once more than needed, never once less."""
        mine = (group_evidence.c.tenant_id == self.tenant.id, group_evidence.c.execution_id == execution_id)
        rows = self.connection.execute(
            select(group_evidence.c.binding_id, group_evidence.c.group_id).where(*mine)
        ).all()
        self.connection.execute(group_evidence.delete().where(*mine))
        for row in rows:
            self._set(row.binding_id, row.group_id, revision=groups.c.revision + 1)

    def find(self, binding_id: str, group_id: str, *, lock: bool = False) -> Group | None:
        statement = select(groups).where(*self._one(binding_id, group_id))
        row = self.connection.execute(statement.with_for_update() if lock else statement).one_or_none()
        return None if row is None else _group(row)

    def evidence(self, binding_id: str, group_id: str) -> list[Row[Any]]:
        """What was acknowledged, in order of arrival: (execution_id, acknowledged_at) and, of the
        execution, verifier_uid, inputs, verdict and result, which are null where it is missing."""
        statement = (
            select(
                group_evidence.c.execution_id,
                group_evidence.c.acknowledged_at,
                executions.c.verifier_uid,
                executions.c.inputs,
                executions.c.status,
                executions.c.verdict,
                executions.c.result,
            )
            .outerjoin(
                executions,
                (executions.c.tenant_id == group_evidence.c.tenant_id)
                & (executions.c.execution_id == group_evidence.c.execution_id),
            )
            .where(
                group_evidence.c.tenant_id == self.tenant.id,
                group_evidence.c.binding_id == binding_id,
                group_evidence.c.group_id == group_id,
            )
            .order_by(group_evidence.c.acknowledged_at, group_evidence.c.execution_id)
        )
        return list(self.connection.execute(statement))

    def seen(self, binding_id: str) -> GroupsSeen:
        """The groups of a binding in short."""
        mine = (groups.c.tenant_id == self.tenant.id, groups.c.binding_id == binding_id)
        waiting = self.connection.execute(
            select(func.count(groups.c.due_at), func.min(groups.c.due_at)).where(*mine)
        ).one()
        last = self.connection.execute(
            select(groups.c.last_execution_id)
            .where(*mine, groups.c.last_execution_id.is_not(None))
            # Execution ids rise with time.
            .order_by(groups.c.last_execution_id.desc())
            .limit(1)
        ).scalar_one_or_none()
        return GroupsSeen(waiting[0], waiting[1], last)

    def evidence_bytes(self, binding_id: str, group_id: str) -> int:
        """About how large all its inputs are together."""
        statement = (
            select(func.coalesce(func.sum(func.length(executions.c.inputs)), 0))
            .join(
                group_evidence,
                (group_evidence.c.tenant_id == executions.c.tenant_id)
                & (group_evidence.c.execution_id == executions.c.execution_id),
            )
            .where(
                group_evidence.c.tenant_id == self.tenant.id,
                group_evidence.c.binding_id == binding_id,
                group_evidence.c.group_id == group_id,
            )
        )
        return int(self.connection.execute(statement).scalar_one())

    def emptied(self, binding_id: str, group_id: str) -> None:
        """All its evidence was withdrawn: nothing is due, and there is nothing to judge."""
        self._set(binding_id, group_id, due_at=None, told_due_at=None)

    def judged(self, binding_id: str, group_id: str, execution_id: str) -> None:
        """An execution took the group up, or stands for why it was dropped: nothing is due now."""
        self._set(binding_id, group_id, due_at=None, told_due_at=None, last_execution_id=execution_id)

    def replace_verdict(self, binding_id: str, group_id: str, verdict: str) -> str | None:
        """Note a judgement that passed or failed; the one before it, None for the first."""
        before = self.find(binding_id, group_id, lock=True)
        self._set(binding_id, group_id, verdict=verdict)
        return None if before is None else before.verdict

    def told(self, binding_id: str, group_id: str, due_at: datetime) -> None:
        """The group's workflow has this due time now. Where the group was judged meanwhile and is due
        anew, the workflow does not know of that."""
        self.connection.execute(
            update(groups)
            .where(
                *self._one(binding_id, group_id),
                groups.c.due_at >= due_at,
                or_(groups.c.told_due_at.is_(None), groups.c.told_due_at < due_at),
            )
            .values(told_due_at=due_at)
        )

    def _due(self, binding_id: str, group_id: str, after: float, now: datetime) -> None:
        due_at = now + timedelta(seconds=after)
        made = self.connection.execute(
            insert_or_nothing(self.connection, groups).values(
                tenant_id=self.tenant.id,
                binding_id=binding_id,
                group_id=group_id,
                after_seconds=after,
                due_at=due_at,
                updated_at=now,
                revision=1,
            )
        )
        if not made.rowcount:
            later = or_(groups.c.due_at.is_(None), groups.c.due_at < due_at)
            self.connection.execute(
                update(groups)
                .where(*self._one(binding_id, group_id))
                .values(
                    # Commits need not come in the order of their clocks: an earlier time changes the
                    # evidence, but not when the group is due.
                    due_at=case((later, literal(due_at, groups.c.due_at.type)), else_=groups.c.due_at),
                    updated_at=now,
                    revision=groups.c.revision + 1,
                )
            )

    def _set(self, binding_id: str, group_id: str, **values: Any) -> None:
        self.connection.execute(
            update(groups)
            .where(*self._one(binding_id, group_id))
            .values(**values, updated_at=clock_now(self.connection))
        )

    def _one(self, binding_id: str, group_id: str) -> Iterable[ColumnElement[bool]]:
        return (
            groups.c.tenant_id == self.tenant.id,
            groups.c.binding_id == binding_id,
            groups.c.group_id == group_id,
        )


def _group(row: Row[Any]) -> Group:
    return Group(
        row.binding_id,
        row.group_id,
        row.after_seconds,
        row.due_at,
        row.told_due_at,
        row.verdict,
        row.last_execution_id,
        row.revision,
    )
