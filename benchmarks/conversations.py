"""A Service whose groups are judged on a running stack, and evidence of them by the thousand.

Evidence is recorded by the store's own function, in this process, as the API records verifies; from
there on everything is as it always is: the relay tells the groups' workflows, and they judge.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Connection, func, select, text

from benchmarks.stack import Target
from store.bindings import Bindings
from store.caller import Tenant
from store.database import Database
from store.executions import EndedRow, NewExecution, record_ended
from store.groups import GroupBinding
from store.settings import Settings
from store.tables.executions import executions
from store.tables.groups import group_evidence, groups
from store.tenants import all_tenants
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionStatus

_A_TRANSACTION = 500
SPACE = "bench-groups"


@dataclass(frozen=True)
class Waiting:
    """How many groups of a binding are due, and how many of those their workflow knows of."""

    due: int
    told: int


class Conversations:
    """Groups of one binding that are judged `after` seconds of quiet."""

    def __init__(self, target: Target, after: int) -> None:
        self._database = Database(Settings(home=Path(target.home)).sql_url)
        self._after = after
        uids = _declared(target, after)
        self._turn_check, self._desk = uids["turn-check"], uids[f"desk-{after}"]
        self._tenant, self.binding_id = self._database.read_now(self._bound)

    def close(self) -> None:
        self._database.close()

    def record(self, names: Sequence[str]) -> None:
        """One turn of each group, acknowledged when this returns."""
        for start in range(0, len(names), _A_TRANSACTION):
            rows = [self._row(name) for name in names[start : start + _A_TRANSACTION]]
            self._database.write_now(record_ended, rows)

    def waiting(self) -> Waiting:
        statement = select(
            func.count(groups.c.due_at), func.count().filter(groups.c.told_due_at >= groups.c.due_at)
        ).where(groups.c.binding_id == self.binding_id)
        return Waiting(*self._read(statement))

    def first_due(self) -> datetime:
        (moment,) = self._read(
            select(func.min(groups.c.due_at)).where(groups.c.binding_id == self.binding_id)
        )
        found: datetime = moment
        return found

    def judged(self) -> tuple[int, datetime | None]:
        """How many judgements have ended, and when the last one did."""
        statement = select(func.count(executions.c.ended_at), func.max(executions.c.ended_at)).where(
            executions.c.binding_id == self.binding_id
        )
        count, last = self._read(statement)
        return count, last

    def rows(self) -> int:
        """Rows of groups and of their evidence, without the executions that are the evidence."""
        return sum(
            int(self._read(select(func.count()).select_from(table))[0]) for table in (groups, group_evidence)
        )

    def table_bytes(self) -> int:
        """Bytes of all pages of the database that are in use."""
        pages = "SELECT (c.page_count - f.freelist_count) * s.page_size"
        sources = "FROM pragma_page_count AS c, pragma_freelist_count AS f, pragma_page_size AS s"
        return int(self._read(text(f"{pages} {sources}"))[0])

    def _read(self, statement: Any) -> tuple[Any, ...]:
        return self._database.read_now(lambda connection: tuple(connection.execute(statement).one()))

    def _bound(self, connection: Connection) -> tuple[Tenant, str]:
        (tenant,) = all_tenants(connection)
        found = Bindings(connection, tenant).of_owner(self._desk)
        return tenant, next(one.binding_id for one in found if one.runs_on is not None)

    def _row(self, name: str) -> EndedRow:
        at = datetime.now(UTC)
        new = NewExecution(
            execution_id=uuid7(),
            source="verify",
            verifier_uid=self._turn_check,
            verifier=f"{SPACE}/Verifier/turn-check@1.0.{self._after}",
            subject_uid=self._desk,
            subject=f"{SPACE}/Service/desk-{self._after}@1.0.0",
            owner_uid=self._desk,
            owner=f"{SPACE}/Service/desk-{self._after}@1.0.0",
            binding_id=None,
            principal_id=None,
            run_id=uuid7(),
            group_id=name,
            inputs=json.dumps({"turn": {"kind": "json", "value": "Thank you, that was all."}}),
            timeout_seconds=60.0,
            created_at=at,
        )
        result = {"outcome": {"requirements": [{"id": "some", "outcome": "passed"}]}}
        return EndedRow(
            self._tenant,
            new,
            ExecutionStatus.COMPLETED,
            at,
            verdict="passed",
            result=json.dumps(result),
            groups=[GroupBinding(self.binding_id, self._after)],
        )


def _declared(target: Target, after: int) -> dict[str, str]:
    version = f"1.0.{after}"

    def requirement(path: str, name: str) -> dict[str, Any]:
        check = {"kind": "assert", "path": path, "operator": "is_truthy"}
        return {"id": name, "statement": "there is something", "check": check}

    def verifier(name: str) -> dict[str, Any]:
        return {"sibling": {"kind": "Verifier", "name": name, "version": version, "space": SPACE}}

    def card(kind: str, name: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": name, "version": version, "space": SPACE}
        return {"apiVersion": "wyrd/v1", "kind": kind, "metadata": metadata, "spec": spec, "artifacts": []}

    turn = {"inputs": {"turn": {"type": "json"}}, "requirements": [requirement("inputs.turn", "some")]}
    whole = {
        "inputs": {"turns": "verifiers.turn-check.inputs.turn"},
        "requirements": [requirement("inputs.turns", "turns")],
    }
    ends = {"kind": "group_end", "after": f"{after}s"}
    entries = [{"verifier": verifier("turn-check")}, {"verifier": verifier("whole-check"), "runs_on": ends}]
    submissions = [
        card("Verifier", "turn-check", version, turn),
        card("Verifier", "whole-check", version, whole),
        card("Service", f"desk-{after}", "1.0.0", {"verified_by": entries}),
    ]
    answer = httpx.post(
        f"{target.api}/v1/cards",
        json={"submissions": submissions},
        headers={**target.headers, "idempotency-key": f"bench-{uuid7()}"},
        trust_env=False,
        timeout=30,
    ).raise_for_status()
    return {one["card_ref"]["name"]: one["card_ref"]["uid"] for one in answer.json()["outcomes"]}
