"""Groups at size: thousands of signals into one, and hundreds that go quiet at once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Connection, select
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory

from activities.relay import Relay, group_workflow_id
from store.bindings import Bindings
from store.due_groups import Untold
from store.executions import EndedRow, NewExecution, record_ended
from store.groups import GroupBinding, Groups
from store.tables.groups import groups
from tests.e2e.stack import Stack, asserting, card, largest_payload, sibling
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIGNALS = 5000
SENDERS = 24
HISTORY_LIMIT = 10_000
"""Where Temporal begins to warn; it ends a workflow at five times as many events."""
PAYLOAD_CEILING = 64 * 1024
SIGNALED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED

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
    async def of(cls, stack: Stack, after: float) -> Desk:
        name = f"desk-{uuid7()[-12:]}"
        runs_on = {"kind": "group_end", "after": f"{after:g}s"}
        entries = [
            {"verifier": sibling("Verifier", "turn-check")},
            {"verifier": sibling("Verifier", "whole-check"), "runs_on": runs_on},
        ]
        uids = await stack.declare(
            card("Verifier", "turn-check", TURN),
            card("Verifier", "whole-check", WHOLE),
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
        row = EndedRow(
            self.stack.tenant,
            new,
            ExecutionStatus.COMPLETED,
            at,
            verdict="passed",
            result=json.dumps(result),
            groups=[self.binding],
        )

        def recorded(connection: Connection) -> datetime:
            record_ended(connection, [row])
            found = Groups(connection, self.stack.tenant).find(self.binding.binding_id, group_id)
            assert found is not None
            assert found.due_at is not None
            return found.due_at

        return await self.stack.services.database.write(recorded)

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

    async def last(self, group_id: str) -> dict[str, Any]:
        found = await self.stack.services.database.read(
            lambda connection: Groups(connection, self.stack.tenant).find(self.binding.binding_id, group_id)
        )
        assert found is not None
        assert found.last_execution_id is not None
        return await self.stack.status(found.last_execution_id)


@dataclass
class Busy:
    """One group that was told of 5,000 pieces of evidence one by one."""

    document: dict[str, Any]
    runs: list[WorkflowHistory]
    judgement: WorkflowHistory


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def busy(stack: Stack) -> Busy:
    desk = await Desk.of(stack, 4)
    group_id = f"busy-{uuid7()}"
    workflow_id = group_workflow_id(stack.tenant, desk.binding.binding_id, group_id)
    handle = stack.client.get_workflow_handle(workflow_id)
    relay = Relay(stack.services.database, stack.client)
    first: list[str] = []
    numbers = iter(range(SIGNALS))

    async def send() -> None:
        for number in numbers:
            due_at = await desk.turn(group_id, number)
            # Straight to the workflow: the relay would put those of a quarter of a second into one.
            await relay._tell(Untold(stack.tenant, desk.binding.binding_id, group_id, due_at))
            if not first:
                first.append((await handle.describe()).run_id)

    await asyncio.gather(*(send() for _ in range(SENDERS)))
    await desk.quiet()
    await handle.result()
    runs, run_id = [], first[0]
    while run_id:
        history = await stack.client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        runs.append(history)
        run_id = history.events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    document = await desk.last(group_id)
    return Busy(document, runs, await stack.history(document["execution_id"]))


async def test_p62_every_one_of_5000_signals_is_in_the_judgement_in_order_of_arrival(busy: Busy) -> None:
    found = busy.document["result"]["outcome"]["evidence"]
    turns = found["turns"]["value"]
    assert sorted(turns) == list(range(SIGNALS))
    # Those that were sent at the same time may pass one another; what arrived first comes first.
    assert all(abs(number - place) <= 2 * SENDERS for place, number in enumerate(turns))
    sources = busy.document["group"]["sources"]
    assert len(set(sources["turns"]["execution_ids"])) == SIGNALS
    assert sources["turns"]["execution_ids"] == sources["verdicts"]["execution_ids"]
    assert found["verdicts"]["value"] == ["passed"] * SIGNALS


async def test_p62_no_run_of_the_workflow_grows_long_and_none_loses_a_signal(busy: Busy) -> None:
    assert len(busy.runs) > 2
    assert max(len(run.events) for run in busy.runs) < HISTORY_LIMIT
    signaled = sum(event.event_type == SIGNALED for run in busy.runs for event in run.events)
    assert signaled >= SIGNALS


async def test_p63_a_group_of_thousands_brings_no_large_payload(busy: Busy) -> None:
    assert max(largest_payload(run) for run in [*busy.runs, busy.judgement]) <= PAYLOAD_CEILING


async def test_groups_that_go_quiet_at_once_are_all_judged(stack: Stack) -> None:
    desk = await Desk.of(stack, 1)
    names = [f"conversation-{number}" for number in range(100)]
    await asyncio.gather(*(desk.turn(name, number + 1) for number, name in enumerate(names)))
    await desk.quiet()
    for number, name in enumerate(names):
        document = await desk.last(name)
        assert document["status"] == "completed"
        assert document["group_id"] == name
        assert document["result"]["outcome"]["evidence"]["turns"]["value"] == [number + 1]
