"""Judgements that are started twice, and workflows of groups that fail: nothing is lost, nothing doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from activities.bundle import Bundles
from activities.groups import GroupActivities
from activities.relay import LATE, Relay
from activities.settler import Settler
from examples.scripted_provider import Reply, ScriptedProvider
from store.clock import shifted
from store.executions import find_execution
from tests.e2e.desks import WHOLE, Desk
from tests.e2e.stack import Stack, judged
from workflows import calls
from workflows.contracts import CloseGroup, GroupClosed
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

TASK_FAILED = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
ASKING: dict[str, Any] = {
    **WHOLE,
    "requirements": [judged({"turns": "inputs.turns"}, "Judge {{turns}}", id="turns")],
}
VERDICT = {"outcome": "passed", "reason": "yes", "citations": []}


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.05)


async def settle(stack: Stack, execution_id: str) -> None:
    row = await stack.services.database.read(find_execution, stack.tenant, execution_id)
    database = stack.services.database
    await Settler(database, stack.client, Bundles(database)).settle(stack.tenant, row)


@pytest.fixture
def before_the_start(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], Awaitable[None]]], None]:
    """What happens between the record of a judgement and the start of its workflow by the group's."""
    answered = GroupActivities._answer

    def happens(what: Callable[[str], Awaitable[None]]) -> None:
        async def late(self: GroupActivities, tenant: Any, row: Any) -> GroupClosed:
            answer = await answered(self, tenant, row)
            await what(row.execution_id)
            return answer

        monkeypatch.setattr(GroupActivities, "_answer", late)

    return happens


async def test_a_judgement_that_the_settler_has_run_already_is_not_run_again(
    stack: Stack, before_the_start: Any
) -> None:
    desk, group_id = await Desk.of(stack, 1), f"g-{uuid7()}"

    async def settled(execution_id: str) -> None:
        await settle(stack, execution_id)
        await stack.ended(execution_id)

    before_the_start(settled)
    await desk.turn(group_id, 1)
    await desk.quiet()
    await desk.workflow(group_id).result()
    (one,) = await desk.judgements(group_id)
    assert one["status"] == "completed"
    assert (await desk.group(group_id)).verdict == "passed"


async def test_the_groups_workflow_waits_for_a_judgement_that_the_settler_runs(
    stack: Stack, provider: ScriptedProvider, before_the_start: Any
) -> None:
    desk, group_id = await Desk.of(stack, 1, ASKING), f"g-{uuid7()}"
    provider.script([Reply(behaviour="hold", json=VERDICT), Reply(json=VERDICT)])
    asked = len(provider.requests)

    async def settled(execution_id: str) -> None:
        if not await asyncio.to_thread(lambda: len(provider.requests) > asked):
            await settle(stack, execution_id)
            assert await asyncio.to_thread(provider.wait_requests, asked + 1)

    before_the_start(settled)
    await desk.turn(group_id, 1)
    assert await asyncio.to_thread(provider.wait_requests, asked + 1)
    # More comes and is due, while the first judgement is under way.
    await desk.turn(group_id, 2)
    handle = desk.workflow(group_id)

    async def awaiting() -> bool:
        described = await handle.describe()
        return [one.activity_type.name for one in described.raw_description.pending_activities] == [
            "await_end"
        ]

    async def is_due() -> bool:
        due_at = (await desk.group(group_id)).due_at
        return due_at is not None and due_at < datetime.now(UTC)

    await until(awaiting)
    await until(is_due)
    assert len(await desk.judgements(group_id)) == 1
    provider.release()
    await desk.quiet()
    first, second = await desk.judgements(group_id)
    assert first["ended_at"] < second["created_at"]
    found = [(await stack.status(one["execution_id"])) for one in (first, second)]
    turns = [one["result"]["outcome"]["evidence"]["turns"]["value"] for one in found]
    assert turns == [[1], [1, 2]]


async def test_a_judgement_is_run_though_its_groups_workflow_was_ended_before_the_start(
    stack: Stack, before_the_start: Any
) -> None:
    desk, group_id = await Desk.of(stack, 1), f"g-{uuid7()}"
    taken: list[str] = []

    async def ended(execution_id: str) -> None:
        taken.append(execution_id)
        await desk.workflow(group_id).terminate("by hand")

    before_the_start(ended)
    await desk.turn(group_id, 1)

    async def was_taken() -> bool:
        return bool(taken)

    await until(was_taken)
    with pytest.raises(WorkflowFailureError):
        await desk.workflow(group_id).result()
    await settle(stack, taken[0])
    await stack.ended(taken[0])
    (one,) = await desk.judgements(group_id)
    assert (one["execution_id"], one["status"]) == (taken[0], "completed")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What the next calls of the group's workflow raise, in turn."""
    faults: list[Exception] = []
    close_group = calls.close_group

    async def breaking(argument: CloseGroup) -> GroupClosed:
        if faults:
            raise faults.pop(0)
        return await close_group(argument)

    monkeypatch.setattr(calls, "close_group", breaking)
    return faults


async def test_a_bug_in_the_workflow_holds_the_group_up_until_it_is_mended(
    stack: Stack, broken: list[Exception]
) -> None:
    desk, group_id = await Desk.of(stack, 1), f"g-{uuid7()}"
    broken += [RuntimeError("a bug")]
    await desk.turn(group_id, 1)
    await desk.quiet()
    assert (await desk.last(group_id))["status"] == "completed"
    history = await desk.workflow(group_id).fetch_history()
    assert TASK_FAILED in [event.event_type for event in history.events]


async def test_a_group_whose_workflow_has_failed_for_good_is_taken_up_by_the_next_sweep(
    stack: Stack, broken: list[Exception]
) -> None:
    desk, group_id = await Desk.of(stack, 1), f"g-{uuid7()}"
    broken += [ApplicationError("a bug that ends the workflow")]
    await desk.turn(group_id, 1)
    handle = desk.workflow(group_id)

    async def is_told() -> bool:
        return (await desk.group(group_id)).told_due_at is not None

    await until(is_told)
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED
    assert await desk.judgements(group_id) == []
    with shifted(lambda: LATE + timedelta(seconds=10)):
        assert await Relay(stack.services.database, stack.client).sweep() >= 1
        await desk.quiet()
    assert (await desk.last(group_id))["status"] == "completed"
