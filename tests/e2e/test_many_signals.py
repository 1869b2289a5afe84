"""Groups at size: thousands of signals into one, and thousands of groups that go quiet at once.

The signals are sent as fast as senders at once can record evidence and tell of it, which on two cores is
about 200 a second; nothing paces them.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import func, select
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory

from activities.relay import Relay
from store.due_groups import Untold
from store.tables.executions import executions
from tests.e2e.desks import Desk
from tests.e2e.stack import Stack, largest_payload, until
from workflows.contracts import HEARTBEAT_TIMEOUT
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIGNALS = 5000
SENDERS = 24
GROUPS = 2000
HISTORY_LIMIT = 10_000
"""Where Temporal begins to warn; it ends a workflow at five times as many events."""
PAYLOAD_CEILING = 64 * 1024
SIGNALED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED


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
    handle = desk.workflow(group_id)
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
        history = await stack.client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()
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


async def test_a_worker_that_dies_while_it_takes_a_group_up_is_missed_in_seconds(busy: Busy) -> None:
    scheduled = [
        event.activity_task_scheduled_event_attributes
        for run in busy.runs
        for event in run.events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    assert scheduled
    assert {one.heartbeat_timeout.ToTimedelta() for one in scheduled} == {HEARTBEAT_TIMEOUT}


async def test_p63_a_group_of_thousands_brings_no_large_payload(busy: Busy) -> None:
    assert max(largest_payload(run) for run in [*busy.runs, busy.judgement]) <= PAYLOAD_CEILING


@pytest.mark.timeout(600)
async def test_two_thousand_groups_that_are_due_at_the_same_moment_are_all_judged(stack: Stack) -> None:
    """Each once and over its own evidence. It comes in one transaction of the store's, as verifies that are
    recorded together do, so that all are due at one moment."""
    desk = await Desk.of(stack, 10)
    numbers = {f"conversation-{number}": number + 1 for number in range(GROUPS)}
    await desk.turns(numbers.items())
    mine = executions.c.binding_id == desk.binding.binding_id

    async def are_judged() -> bool:
        count = select(func.count(executions.c.ended_at)).where(mine)
        database = stack.services.database
        done: int = await database.read(lambda connection: connection.execute(count).scalar_one())
        return done >= GROUPS

    await until(are_judged, 580)
    rows = await stack.services.database.read(
        lambda connection: connection.execute(select(executions).where(mine)).all()
    )
    assert len(rows) == GROUPS
    assert {(row.status, row.verdict) for row in rows} == {("completed", "passed")}
    judged = {row.group_id: json.loads(row.result)["outcome"]["evidence"]["turns"]["value"] for row in rows}
    assert judged == {name: [number] for name, number in numbers.items()}
    assert not (await desk.seen()).waiting
    # As a caller reads it, too.
    for name in ("conversation-0", f"conversation-{GROUPS - 1}"):
        document = await desk.last(name)
        assert (document["status"], document["group_id"]) == ("completed", name)
