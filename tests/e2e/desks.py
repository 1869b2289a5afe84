"""Services whose groups are judged, and evidence of them by the thousand, recorded as verifies are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select
from temporalio.client import WorkflowHandle

from activities.relay import group_workflow_id
from store.bindings import Bindings
from store.executions import EndedRow, NewExecution, record_ended
from store.groups import Group, GroupBinding, Groups, GroupsSeen
from store.tables.groups import groups
from tests.e2e.stack import Stack, asserting, card, sibling
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionStatus

TURN: dict[str, Any] = {
    "inputs": {"turn": {"type": "json"}},
    "requirements": [asserting("inputs.turn", "is_truthy", id="some")],
}
WHOLE: dict[str, Any] = {
    "inputs": {
        "turns": "verifiers.turn-check.inputs.turn",
        "verdicts": "verifiers.turn-check.requirements.some.outcome",
    },
    "requirements": [asserting("inputs.turns", "is_truthy", id="turns")],
}


@dataclass
class Desk:
    """A Service whose conversations are judged, and its evidence, recorded as verifies are."""

    stack: Stack
    uids: dict[str, str]
    binding: GroupBinding

    @classmethod
    async def of(cls, stack: Stack, after: float, whole: Mapping[str, Any] | None = None) -> Desk:
        name = f"desk-{uuid7()[-12:]}"
        version = f"1.0.{int(uuid7().replace('-', '')[:12], 16)}"
        runs_on = {"kind": "group_end", "after": f"{after:g}s"}
        entries = [
            {"verifier": sibling("Verifier", "turn-check", version)},
            {"verifier": sibling("Verifier", "whole-check", version), "runs_on": runs_on},
        ]
        uids = await stack.declare(
            card("Verifier", "turn-check", TURN, version),
            card("Verifier", "whole-check", whole or WHOLE, version),
            card("Service", name, {"verified_by": entries}),
        )
        uids["desk"] = uids.pop(name)
        found = await stack.services.database.read(
            lambda connection: Bindings(connection, stack.tenant).of_owner(uids["desk"])
        )
        (binding_id,) = [one.binding_id for one in found if one.runs_on is not None]
        return cls(stack, uids, GroupBinding(binding_id, after))

    async def turn(self, group_id: str, number: int) -> datetime:
        """Record a turn with its result; when the group is due now."""

        def recorded(connection: Connection) -> datetime:
            record_ended(connection, [self._row(group_id, number)])
            found = Groups(connection, self.stack.tenant).find(self.binding.binding_id, group_id)
            assert found is not None
            assert found.due_at is not None
            return found.due_at

        return await self.stack.services.database.write(recorded)

    async def turns(self, told: Iterable[tuple[str, int]]) -> None:
        """Record turns of many groups in one transaction, so that all of them fall quiet together."""
        rows = [self._row(group_id, number) for group_id, number in told]
        await self.stack.services.database.write(record_ended, rows)

    def _row(self, group_id: str, number: int) -> EndedRow:
        at = datetime.now(UTC)
        new = NewExecution(
            execution_id=uuid7(),
            source="verify",
            verifier_uid=self.uids["turn-check"],
            verifier="tests/Verifier/turn-check@1.0.0",
            subject_uid=self.uids["desk"],
            subject="tests/Service/desk@1.0.0",
            owner_uid=self.uids["desk"],
            owner="tests/Service/desk@1.0.0",
            binding_id=None,
            principal_id=None,
            run_id=uuid7(),
            group_id=group_id,
            inputs=json.dumps({"turn": {"kind": "json", "value": number}}),
            timeout_seconds=60.0,
            created_at=at,
        )
        result = {"outcome": {"requirements": [{"id": "some", "outcome": "passed"}]}}
        return EndedRow(
            self.stack.tenant,
            new,
            ExecutionStatus.COMPLETED,
            at,
            verdict="passed",
            result=json.dumps(result),
            groups=[self.binding],
        )

    async def quiet(self) -> None:
        """Wait until nothing is due and everything that was taken up has been judged."""
        mine = groups.c.binding_id == self.binding.binding_id
        while True:
            due, taken = await self.stack.services.database.read(
                lambda connection: (
                    connection.execute(select(groups.c.group_id).where(mine, groups.c.due_at.is_not(None)))
                    .scalars()
                    .all(),
                    connection.execute(select(groups.c.last_execution_id).where(mine)).scalars().all(),
                )
            )
            if not due:
                break
            await asyncio.sleep(0.2)
        for execution_id in taken:
            await self.stack.ended(execution_id)

    async def group(self, group_id: str) -> Group:
        found = await self.stack.services.database.read(
            lambda connection: Groups(connection, self.stack.tenant).find(self.binding.binding_id, group_id)
        )
        assert found is not None
        return found

    async def seen(self) -> GroupsSeen:
        return await self.stack.services.database.read(
            lambda connection: Groups(connection, self.stack.tenant).seen(self.binding.binding_id)
        )

    async def last(self, group_id: str) -> dict[str, Any]:
        """The document of its last judgement."""
        found = await self.group(group_id)
        assert found.last_execution_id is not None
        return await self.stack.status(found.last_execution_id)

    async def judgements(self, group_id: str) -> list[dict[str, Any]]:
        """All of them in short, the oldest first."""
        answer = await self.stack.http.get(
            "/v1/verification/executions", params={"group_id": group_id, "source": "group"}
        )
        return list(reversed(answer.json()["items"]))

    def workflow(self, group_id: str) -> WorkflowHandle[Any, Any]:
        return self.stack.client.get_workflow_handle(
            group_workflow_id(self.stack.tenant, self.binding.binding_id, group_id)
        )
