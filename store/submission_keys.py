"""Idempotency keys of submits: which body a key was first used for, and what it was used for since."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, exists, select

from store.caller import Tenant
from store.database import insert_or_nothing
from store.tables.executions import executions, submission_keys


class SubmissionKeys:
    """Keys of one tenant over one connection. A key has one row for each body it came with."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self._connection = connection
        self._tenant = tenant
        self._mine = submission_keys.c.tenant_id == tenant.id

    def take(
        self, key: str, body_sha256: str, execution_id: str, created_at: datetime, *, first: bool
    ) -> bool:
        """Note the key for this body; False when a row of the same right is there already."""
        row = {
            "tenant_id": self._tenant.id,
            "key": key,
            "body_sha256": body_sha256,
            "execution_id": execution_id,
            "first": first,
            "created_at": created_at,
        }
        return bool(
            self._connection.execute(insert_or_nothing(self._connection, submission_keys), row).rowcount
        )

    def find(self, key: str, body_sha256: str) -> Row[Any] | None:
        """The row of the key for this body: `first` where it is the body the key was taken for."""
        return self._connection.execute(
            select(submission_keys).where(
                self._mine, submission_keys.c.key == key, submission_keys.c.body_sha256 == body_sha256
            )
        ).one_or_none()

    def accepted_before(self, key: str, body_sha256: str, principal_id: str) -> str | None:
        """The execution that this principal was given for that key and body."""
        found: str | None = self._connection.execute(
            select(executions.c.execution_id)
            .join(
                submission_keys,
                and_(
                    submission_keys.c.tenant_id == executions.c.tenant_id,
                    submission_keys.c.execution_id == executions.c.execution_id,
                ),
            )
            .where(
                self._mine,
                submission_keys.c.key == key,
                submission_keys.c.body_sha256 == body_sha256,
                executions.c.principal_id == principal_id,
            )
        ).scalar_one_or_none()
        return found

    def withdraw(self, execution_id: str) -> None:
        """Forget the keys of an execution that was withdrawn."""
        self._connection.execute(
            submission_keys.delete().where(self._mine, submission_keys.c.execution_id == execution_id)
        )


def forget_keys(connection: Connection, *, older_than: datetime) -> int:
    """Drop idempotency keys kept long enough, of every tenant; how many."""
    still_open = exists().where(
        executions.c.execution_id == submission_keys.c.execution_id, executions.c.ended_at.is_(None)
    )
    done = connection.execute(
        submission_keys.delete().where(submission_keys.c.created_at < older_than, ~still_open)
    )
    return int(done.rowcount)
