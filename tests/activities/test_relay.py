"""The relay on a real Temporal server without workers: who is told what, whatever fails in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from activities import relay as relay_module
from activities.relay import LATE, Relay, group_digest, group_workflow_id
from activities.temporal import connect, ensure_search_attributes
from store.caller import Tenant
from store.clock import shifted
from store.database import Database
from store.due_groups import Untold
from store.first_start import ensure_tenant
from store.groups import Group, GroupBinding, Groups
from store.settings import Settings
from workflows import contracts
from workflows.contracts import GroupDue, GroupStart
from wyrd.wire.ids import uuid7

STARTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
SIGNALED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
TOO_LONG = "b" * 1500
"""As the id of a binding it makes a workflow id that Temporal refuses."""


@dataclass
class Place:
    """A database and a Temporal server, with nobody at work but the relay."""

    database: Database
    client: Client
    tenant: Tenant
    offset: timedelta = field(default=timedelta(0))

    @property
    def relay(self) -> Relay:
        return Relay(self.database, self.client)

    async def evidence(
        self, group_id: str = "g", binding_id: str | None = None, after: float = 60.0
    ) -> Waiting:
        waiting = Waiting(self, binding_id or uuid7(), group_id, after)
        await waiting.more()
        return waiting


@dataclass
class Waiting:
    """A group of a binding of its own."""

    place: Place
    binding_id: str
    group_id: str
    after: float

    async def more(self) -> None:
        def acknowledged(connection: Connection) -> None:
            binding = GroupBinding(self.binding_id, self.after)
            Groups(connection, self.place.tenant).acknowledge_input(uuid7(), self.group_id, [binding])

        await self.place.database.write(acknowledged)

    async def find(self) -> Group:
        found = await self.place.database.read(
            lambda connection: Groups(connection, self.place.tenant).find(self.binding_id, self.group_id)
        )
        assert found is not None
        return found

    async def is_told(self) -> bool:
        return (await self.find()).told_due_at is not None

    @property
    def handle(self) -> WorkflowHandle[object, object]:
        workflow_id = group_workflow_id(self.place.tenant, self.binding_id, self.group_id)
        return self.place.client.get_workflow_handle(workflow_id)

    async def told(self) -> tuple[list[float], list[float]]:
        """The due times that its workflow was started with, and signalled."""
        started: list[float] = []
        signaled: list[float] = []
        converter = pydantic_data_converter
        async for event in self.handle.fetch_history_events():
            if event.event_type == STARTED:
                payloads = event.workflow_execution_started_event_attributes.input.payloads
                (start,) = await converter.decode(payloads, [GroupStart])
                started.append(start.due_at)
            elif event.event_type == SIGNALED:
                payloads = event.workflow_execution_signaled_event_attributes.input.payloads
                (due,) = await converter.decode(payloads, [GroupDue])
                signaled.append(due.due_at)
        return started, signaled


@pytest.fixture
async def place(sqlite_database: Database, tmp_path: Path, temporal_address: str) -> AsyncIterator[Place]:
    client = await connect(Settings(home=tmp_path, temporal_address=temporal_address))
    await ensure_search_attributes(client)
    made = Place(sqlite_database, client, await ensure_tenant(sqlite_database, "acme"))
    with shifted(lambda: made.offset):
        yield made


@pytest.fixture
def quick_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "EVERY_SECONDS", 0.01)


async def test_what_was_committed_before_a_crash_is_told_by_whoever_comes_next(place: Place) -> None:
    waiting = await place.evidence()
    assert await place.relay.pass_once() == 1
    due_at = (await waiting.find()).due_at
    assert due_at is not None
    assert await waiting.told() == ([due_at.timestamp()], [due_at.timestamp()])
    assert (await waiting.find()).told_due_at == due_at
    assert await place.relay.pass_once() == 0


async def test_a_crash_after_the_signal_tells_again_which_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await place.evidence()

    def crash(connection: Connection, told: list[Untold]) -> None:
        raise RuntimeError("the process dies here")

    with monkeypatch.context() as patched:
        patched.setattr(relay_module, "_told", crash)
        with pytest.raises(RuntimeError):
            await place.relay.pass_once()
    assert await place.relay.pass_once() == 1
    started, signaled = await waiting.told()
    assert (len(started), len(signaled)) == (1, 2)
    assert set(signaled) == set(started)
    assert await place.relay.pass_once() == 0


async def test_more_evidence_signals_the_same_workflow(place: Place) -> None:
    waiting = await place.evidence()
    await place.relay.pass_once()
    place.offset = timedelta(seconds=30)
    await waiting.more()
    await place.relay.pass_once()
    (started,), signaled = await waiting.told()
    assert [round(one - started) for one in signaled] == [0, 30]


async def test_a_group_that_cannot_be_told_keeps_no_other_one_waiting(place: Place) -> None:
    first, refused, last = [
        await place.evidence(),
        await place.evidence(binding_id=TOO_LONG),
        await place.evidence(),
    ]
    for _ in range(2):
        with pytest.raises(RPCError):
            await place.relay.pass_once()
    for waiting in (first, last):
        assert len((await waiting.told())[1]) == 1
    assert (await refused.find()).told_due_at is None


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def at_work(place: Place) -> AsyncIterator[None]:
    running = asyncio.create_task(place.relay.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_relay_goes_on_after_a_failure(
    place: Place, quick_relay: None, caplog: pytest.LogCaptureFixture
) -> None:
    async def failed() -> bool:
        return "is tried again" in caplog.text

    await place.evidence(binding_id=TOO_LONG)
    async with at_work(place):
        await until(failed)
        waiting = await place.evidence()
        await until(waiting.is_told)


async def test_a_database_that_is_away_ends_no_relay(
    place: Place, quick_relay: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(connection: Connection) -> list[Untold]:
        raise RuntimeError("the database is away")

    async def failed() -> bool:
        return "the database is away" in caplog.text

    waiting = await place.evidence()
    with monkeypatch.context() as patched:
        patched.setattr(relay_module, "_waiting", away)
        async with at_work(place):
            await until(failed)
            assert not await waiting.is_told()
            patched.undo()
            await until(waiting.is_told)


async def test_many_groups_at_once_are_all_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_BATCH", 8)
    waiting = [await place.evidence() for _ in range(20)]
    counts = [await place.relay.pass_once() for _ in range(4)]
    assert counts == [8, 8, 4, 0]
    for one in waiting:
        assert (await one.find()).told_due_at is not None


async def test_two_relays_at_once_tell_every_group(place: Place) -> None:
    waiting = [await place.evidence() for _ in range(10)]
    await asyncio.gather(place.relay.pass_once(), place.relay.pass_once())
    for one in waiting:
        started, signaled = await one.told()
        assert len(started) == 1
        assert set(signaled) == set(started)
    assert await place.relay.pass_once() == 0


class TestSweep:
    async def test_a_group_whose_workflow_was_ended_by_hand_is_taken_up_all_the_same(
        self, place: Place
    ) -> None:
        waiting = await place.evidence()
        await place.relay.pass_once()
        await waiting.handle.terminate()
        place.offset = timedelta(seconds=60) + LATE - timedelta(seconds=5)
        assert await place.relay.sweep() == 0
        place.offset += timedelta(seconds=10)
        assert await place.relay.sweep() == 1
        described = await waiting.handle.describe()
        assert described.status is WorkflowExecutionStatus.RUNNING
        due_at = (await waiting.find()).due_at
        assert due_at is not None
        assert (await waiting.told())[0] == [due_at.timestamp()]

    async def test_a_workflow_that_is_at_work_is_only_reminded(self, place: Place) -> None:
        waiting = await place.evidence()
        await place.relay.pass_once()
        before = (await waiting.handle.describe()).run_id
        place.offset = timedelta(hours=1)
        assert await place.relay.sweep() == 1
        assert (await waiting.handle.describe()).run_id == before
        assert len((await waiting.told())[1]) == 2

    async def test_all_of_many_are_told_and_what_was_judged_is_not(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(relay_module, "_BATCH", 4)
        waiting = [await place.evidence() for _ in range(10)]
        while await place.relay.pass_once():
            pass
        await place.database.write(
            lambda connection: Groups(connection, place.tenant).judged(waiting[3].binding_id, "g", uuid7())
        )
        place.offset = timedelta(hours=1)
        assert await place.relay.sweep() == 9
        assert len((await waiting[3].told())[1]) == 1

    async def test_a_relay_sweeps_by_itself(
        self, place: Place, quick_relay: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(relay_module, "SWEEP_SECONDS", 0.0)
        waiting = await place.evidence()
        await place.relay.pass_once()
        await waiting.handle.terminate()
        place.offset = timedelta(hours=1)

        async def is_running() -> bool:
            return (await waiting.handle.describe()).status is WorkflowExecutionStatus.RUNNING

        async with at_work(place):
            await until(is_running)


async def test_two_tenants_with_the_same_group_have_workflows_of_their_own(place: Place) -> None:
    rival = Place(place.database, place.client, await ensure_tenant(place.database, "rival"))
    mine = await place.evidence()
    theirs = await rival.evidence(binding_id=mine.binding_id)
    assert await place.relay.pass_once() == 2
    assert mine.handle.id != theirs.handle.id
    for waiting, tenant in ((mine, place.tenant), (theirs, rival.tenant)):
        described = await waiting.handle.describe()
        assert described.typed_search_attributes[contracts.TENANT] == tenant.slug
        assert described.typed_search_attributes[contracts.GROUP] == group_digest("g")
        assert waiting.handle.id.startswith(f"{tenant.slug}/group/")


async def test_what_the_caller_calls_its_group_is_in_no_id(place: Place) -> None:
    waiting = await place.evidence("anna@example.com")
    await place.relay.pass_once()
    described = await waiting.handle.describe()
    assert "anna" not in described.id
    assert "anna" not in str(described.typed_search_attributes)
    assert "anna" not in str(await described.static_summary())
