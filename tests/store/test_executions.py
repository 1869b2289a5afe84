"""Executions on both databases: accepted once, ended once, blocks recorded once, lists and leases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from store.blocks import BlockEnd, Blocks
from store.caller import Tenant
from store.database import Database
from store.execution_lists import execution_page, open_executions
from store.executions import (
    Accepted,
    EndedRow,
    Executions,
    NewExecution,
    record_ended,
    workflow_id_of,
)
from store.leases import hold, release
from store.submission_keys import SubmissionKeys, forget_keys
from store.tables.executions import execution_blocks, executions, submission_keys
from store.tables.leases import leases
from wyrd.errors import Code
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionStatus

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "verification-submit-1"
SECRET = "the customer's own words"
NUL = "with a \0 inside"


def new(**members: Any) -> NewExecution:
    made = NewExecution(
        execution_id=uuid7(),
        source="submit",
        verifier_uid=uuid7(),
        verifier="support/Verifier/rule@1.0.0",
        subject_uid=uuid7(),
        subject="support/Agent/desk@1.0.0",
        owner_uid=uuid7(),
        owner="support/Service/desk@1.0.0",
        binding_id=uuid7(),
        principal_id=uuid7(),
        run_id=uuid7(),
        group_id=None,
        inputs=json.dumps({"a": {"kind": "json", "value": SECRET}}),
        timeout_seconds=60.0,
        created_at=START,
    )
    return replace(made, **members)


class Store:
    """One tenant's executions, one transaction a call."""

    def __init__(self, database: Database, tenant: Tenant) -> None:
        self.database = database
        self.tenant = tenant

    async def __call__(self, name: str, *args: Any, **named: Any) -> Any:
        def work(connection: Connection) -> Any:
            return getattr(Executions(connection, self.tenant), name)(*args, **named)

        return await self.database.write(work)

    async def save_block(self, execution_id: str, end: BlockEnd) -> BlockEnd:
        return await self.database.write(lambda c: Blocks(c, self.tenant, execution_id).save(end))

    async def blocks(self, execution_id: str, only: list[int] | None = None) -> dict[int, BlockEnd]:
        return await self.database.read(lambda c: Blocks(c, self.tenant, execution_id).all(only))

    async def accepted_before(self, *arguments: Any) -> str | None:
        return await self.database.read(lambda c: SubmissionKeys(c, self.tenant).accepted_before(*arguments))

    async def page(self, filters: dict[str, Any], *, before: Any, limit: int) -> list[Any]:
        return await self.database.read(
            lambda connection: execution_page(connection, self.tenant, filters, before=before, limit=limit)
        )

    async def rows(self, table: Any) -> list[Any]:
        return await self.database.read(lambda connection: list(connection.execute(select(table))))


@pytest.fixture
def store(database: Database, tenant: Tenant) -> Store:
    return Store(database, tenant)


class TestAccepting:
    async def test_an_accepted_execution_is_pending_and_not_acknowledged(self, store: Store) -> None:
        made = new()
        assert await store("accept", made, key=KEY, body_sha256="a" * 64) == Accepted(made.execution_id, True)
        row = await store("find", made.execution_id)
        assert (row.status, row.acknowledged, row.ended_at, row.created_at) == ("pending", False, None, START)
        assert row.workflow_id == workflow_id_of(store.tenant, made.execution_id)

    async def test_the_same_key_and_body_are_the_first_execution(self, store: Store) -> None:
        first = new()
        await store("accept", first, key=KEY, body_sha256="a" * 64)
        again = await store("accept", new(), key=KEY, body_sha256="a" * 64)
        assert again == Accepted(first.execution_id, fresh=False)
        assert len(await store.rows(executions)) == 1

    async def test_the_same_key_with_another_body_is_one_errored_execution_that_keeps_nothing(
        self, store: Store
    ) -> None:
        await store("accept", new(), key=KEY, body_sha256="a" * 64)
        other = new()
        conflict = await store("accept", other, key=KEY, body_sha256="b" * 64)
        assert conflict == Accepted(other.execution_id, fresh=False, conflict=True)
        assert await store("accept", new(), key=KEY, body_sha256="b" * 64) == conflict
        row = await store("find", other.execution_id)
        assert (row.status, row.error_code) == ("errored", "WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT")
        assert row.ended_at is not None
        assert SECRET not in row.inputs

    async def test_keys_are_per_tenant(self, store: Store, other_tenant: Tenant) -> None:
        rival = Store(store.database, other_tenant)
        await store("accept", new(), key=KEY, body_sha256="a" * 64)
        assert (await rival("accept", new(), key=KEY, body_sha256="b" * 64)).fresh

    @pytest.mark.parametrize("bodies", [1, 4])
    async def test_concurrent_submits_of_one_key_make_one_fresh_execution(
        self, store: Store, bodies: int
    ) -> None:
        found = await asyncio.gather(
            *(store("accept", new(), key=KEY, body_sha256=f"{n % bodies:064d}") for n in range(16))
        )
        assert sum(one.fresh for one in found) == 1
        assert len({one.execution_id for one in found}) == bodies
        rows = await store.rows(executions)
        assert sorted(row.status for row in rows) == ["errored"] * (bodies - 1) + ["pending"]

    async def test_a_repetition_is_found_for_the_same_principal_alone(self, store: Store) -> None:
        made = new()
        await store("accept", made, key=KEY, body_sha256="a" * 64)
        assert await store.accepted_before(KEY, "a" * 64, made.principal_id) == made.execution_id
        assert await store.accepted_before(KEY, "b" * 64, made.principal_id) is None
        assert await store.accepted_before(KEY, "a" * 64, uuid7()) is None

    async def test_withdrawing_forgets_the_execution_and_its_key(self, store: Store) -> None:
        made = new()
        await store("accept", made, key=KEY, body_sha256="a" * 64)
        await store("withdraw", made.execution_id)
        assert await store("find", made.execution_id) is None
        assert (await store("accept", new(), key=KEY, body_sha256="b" * 64)).fresh

    async def test_what_was_acknowledged_is_not_withdrawn(self, store: Store) -> None:
        made = new()
        await store("accept", made, key=KEY, body_sha256="a" * 64)
        assert await store("acknowledge", [made.execution_id]) == 1
        await store("withdraw", made.execution_id)
        assert (await store("find", made.execution_id)).acknowledged

    async def test_acknowledging_what_was_withdrawn_says_so(self, store: Store) -> None:
        assert await store("acknowledge", [uuid7()]) == 0

    async def test_a_key_is_kept_while_its_execution_is_open(self, store: Store) -> None:
        ended, running = new(), new()
        await store("accept", ended, key=KEY, body_sha256="a" * 64)
        await store("accept", running, key=f"{KEY}2", body_sha256="a" * 64)
        await store("end", ended.execution_id, ExecutionStatus.CANCELLED, None, None)
        assert await store.database.write(lambda c: forget_keys(c, older_than=START)) == 0
        assert await store.database.write(lambda c: forget_keys(c, older_than=START + timedelta(1))) == 1
        assert [row.execution_id for row in await store.rows(submission_keys)] == [running.execution_id]

    async def test_waiting_counts_no_further_than_its_limit(self, store: Store) -> None:
        for _ in range(3):
            await store("accept", new())
        assert await store("waiting", 10) == 3
        assert await store("waiting", 2) == 2


class TestEnding:
    async def test_only_the_first_end_counts(self, store: Store) -> None:
        made = new()
        await store("accept", made)
        ends = [
            store("complete", made.execution_id, verdict="passed", result="{}", started_at=START),
            store("end", made.execution_id, ExecutionStatus.CANCELLED, None, "cancelled"),
            store(
                "end",
                made.execution_id,
                ExecutionStatus.TIMED_OUT,
                Code.VERIFICATION_504_EXECUTION_TIMED_OUT,
                "late",
            ),
        ]
        assert sum(await asyncio.gather(*ends)) == 1
        row = await store("find", made.execution_id)
        assert (row.verdict is not None) == (row.result is not None) == (row.status == "completed")
        assert (row.error_code is not None) == (row.status == "timed_out")

    async def test_an_end_is_not_marked_as_running_again(self, store: Store) -> None:
        made = new()
        await store("accept", made)
        await store("end", made.execution_id, ExecutionStatus.CANCELLED, None, None)
        await store("mark", made.execution_id, ExecutionStatus.RUNNING)
        assert (await store("find", made.execution_id)).status == "cancelled"

    async def test_the_first_mark_says_when_it_started(self, store: Store) -> None:
        made = new()
        await store("accept", made)
        await store("mark", made.execution_id, ExecutionStatus.RUNNING)
        first = (await store("find", made.execution_id)).started_at
        await store("mark", made.execution_id, ExecutionStatus.RETRYING)
        row = await store("find", made.execution_id)
        assert (row.status, row.started_at, row.acknowledged) == ("retrying", first, True)
        await store("complete", made.execution_id, verdict="passed", result="{}", started_at=START)
        assert (await store("find", made.execution_id)).started_at == first

    async def test_messages_of_other_systems_may_hold_anything(self, store: Store) -> None:
        made = new()
        await store("accept", made)
        assert await store("end", made.execution_id, ExecutionStatus.ERRORED, None, NUL)
        assert (await store("find", made.execution_id)).error_message == "with a � inside"

    async def test_results_come_back_as_they_were_written(self, store: Store) -> None:
        made = new()
        await store("accept", made)
        result = json.dumps({"z": NUL, "a": 10**4000, "half": "\ud800"})
        await store("complete", made.execution_id, verdict="passed", result=result, started_at=START)
        assert (await store("find", made.execution_id)).result == result

    @pytest.mark.parametrize("ending", ["complete", "end"])
    async def test_an_end_that_keeps_little_leaves_no_evidence(self, store: Store, ending: str) -> None:
        made = new()
        await store("accept", made)
        await store.save_block(made.execution_id, BlockEnd(0, "s", "{}", json.dumps(SECRET), "d" * 64))
        if ending == "complete":
            arguments: dict[str, Any] = {"verdict": "passed", "result": "{}", "started_at": START}
            assert await store("complete", made.execution_id, kept="{}", **arguments)
        else:
            assert await store("end", made.execution_id, ExecutionStatus.CANCELLED, None, None, kept="{}")
        late = BlockEnd(1, "s", "{}", json.dumps(SECRET), "d" * 64)
        assert await store.save_block(made.execution_id, late) == late, "the late block learns its end"
        for table in (executions, execution_blocks):
            assert SECRET not in str(await store.rows(table))

    async def test_a_late_end_drops_nothing_that_the_first_kept(self, store: Store) -> None:
        made = new()
        await store("accept", made)
        await store.save_block(made.execution_id, BlockEnd(0, "s", "{}"))
        await store("complete", made.execution_id, verdict="passed", result="{}", started_at=START)
        assert not await store("end", made.execution_id, ExecutionStatus.CANCELLED, None, None, kept="{}")
        assert SECRET in (await store("find", made.execution_id)).inputs
        assert list(await store.blocks(made.execution_id)) == [0]

    async def test_a_verify_that_has_ended_lands_once(self, store: Store) -> None:
        made = new(source="verify")
        completed = ExecutionStatus.COMPLETED
        first = EndedRow(store.tenant, made, completed, START, "passed", "{}")
        again = EndedRow(store.tenant, made, completed, START, "failed", "{}")
        other = EndedRow(store.tenant, new(source="verify"), completed, START, "failed", "{}")
        await store.database.write(record_ended, [first])
        await store.database.write(record_ended, [again, other])
        assert (await store("find", made.execution_id)).verdict == "passed"
        assert (await store("find", other.new.execution_id)).verdict == "failed"


class TestBlocks:
    async def test_the_first_recorded_end_of_a_block_stands(self, store: Store) -> None:
        made = new()
        await store("accept", made)
        first, second = BlockEnd(0, "p", '{"reason":"one"}'), BlockEnd(0, "f", '{"reason":"two"}')
        assert await store.save_block(made.execution_id, first) == first
        assert await store.save_block(made.execution_id, second) == first
        assert await store.blocks(made.execution_id) == {0: first}

    async def test_concurrent_ends_of_a_block_agree_on_one(self, store: Store) -> None:
        made = new()
        await store("accept", made)
        found = await asyncio.gather(
            *(store.save_block(made.execution_id, BlockEnd(0, "s", str(n))) for n in range(12))
        )
        assert len({end.document for end in found}) == 1

    async def test_an_end_and_a_block_do_not_cross(self, store: Store) -> None:
        for _ in range(8):
            made = new()
            await store("accept", made)
            await asyncio.gather(
                store.save_block(made.execution_id, BlockEnd(0, "s", "{}", json.dumps(SECRET), "d" * 64)),
                store("end", made.execution_id, ExecutionStatus.CANCELLED, None, None, kept="{}"),
            )
        assert SECRET not in str(await store.rows(execution_blocks))

    async def test_only_the_blocks_asked_for_are_read(self, store: Store) -> None:
        made = new()
        await store("accept", made)
        for number in range(3):
            await store.save_block(made.execution_id, BlockEnd(number, "s", "{}"))
        assert set(await store.blocks(made.execution_id, [0, 2, 7])) == {0, 2}
        assert await store.blocks(made.execution_id, [7]) == {}


class TestListing:
    async def test_other_tenants_rows_do_not_exist(self, store: Store, other_tenant: Tenant) -> None:
        made = new()
        await store("accept", made)
        await store.save_block(made.execution_id, BlockEnd(0, "s", "{}"))
        rival = Store(store.database, other_tenant)
        assert await rival("find", made.execution_id) is None
        assert await rival.blocks(made.execution_id) == {}
        assert await rival.page({}, before=None, limit=10) == []
        assert not await rival("end", made.execution_id, ExecutionStatus.CANCELLED, None, None)
        await rival("mark", made.execution_id, ExecutionStatus.RUNNING)
        await rival("withdraw", made.execution_id)
        assert await rival("acknowledge", [made.execution_id]) == 0
        assert (await store("find", made.execution_id)).status == "pending"

    async def test_pages_are_newest_first_and_tile_the_list(self, store: Store) -> None:
        times = [START, START, START, START + timedelta(1), START - timedelta(1)]
        made = [new(created_at=at) for at in times]
        for one in made:
            await store("accept", one)
        wanted = [(at, one.execution_id) for at, one in zip(times, made, strict=True)]
        seen: list[tuple[datetime, str]] = []
        before = None
        while page := await store.page({}, before=before, limit=2):
            seen += [(row.created_at, row.execution_id) for row in page]
            before = seen[-1]
        assert seen == sorted(wanted, reverse=True)

    @pytest.mark.parametrize(
        ("members", "filters"),
        [
            ({"run_id": "r"}, {"run_id": "r"}),
            ({"group_id": "g_%"}, {"group_id": "g_%"}),
            ({"binding_id": "b"}, {"binding_id": "b"}),
            ({"source": "group"}, {"source": "group"}),
            ({"verifier_uid": "v"}, {"verifier": "v"}),
            ({"subject_uid": "s"}, {"subject": "s"}),
            ({"verifier": "a_b/Verifier/x@1.0.0"}, {"verifier": "a_b/Verifier/x"}),
            ({"verifier": "a_b/Verifier/x@1.0.0"}, {"verifier": "a_b/Verifier/x@1.0.0"}),
            ({"created_at": START + timedelta(3)}, {"since": START + timedelta(3)}),
            ({"created_at": START - timedelta(3)}, {"until": START}),
        ],
    )
    async def test_filters_find_exactly_what_they_name(
        self, store: Store, members: dict[str, Any], filters: dict[str, Any]
    ) -> None:
        wanted = new(**members)
        await store("accept", wanted)
        for decoy in (new(), new(verifier="aXb/Verifier/x@1.0.0"), new(verifier="a_b/Verifier/xy@1.0.0")):
            await store("accept", decoy)
        page = await store.page(filters, before=None, limit=10)
        assert [row.execution_id for row in page] == [wanted.execution_id]

    async def test_a_bound_caller_sees_neither_other_subjects_nor_other_owners(self, store: Store) -> None:
        mine = new(subject_uid="agent", owner_uid="mine")
        shared = new(subject_uid="agent", owner_uid="theirs")
        other = new(subject_uid="elsewhere", owner_uid="mine")
        for one in (mine, shared, other):
            await store("accept", one)
        page = await store.page({"subjects": ["agent", "mine"]}, before=None, limit=10)
        assert [row.execution_id for row in page] == [mine.execution_id]

    async def test_open_executions_are_oldest_first_across_tenants_and_go_on_from_a_mark(
        self, store: Store, other_tenant: Tenant
    ) -> None:
        made = [new(created_at=START + timedelta(seconds=n // 2)) for n in range(6)]
        rival = Store(store.database, other_tenant)
        for number, one in enumerate(made):
            await (rival if number % 2 else store)("accept", one)
        await store("end", made[0].execution_id, ExecutionStatus.CANCELLED, None, None)

        def page(after: tuple[datetime, str] | None) -> Callable[[Connection], list[Any]]:
            return lambda c: open_executions(c, older_than=START + timedelta(1), limit=2, after=after)

        seen: list[tuple[datetime, str]] = []
        while found := await store.database.read(page(seen[-1] if seen else None)):
            seen += [(row.created_at, row.execution_id) for row in found]
        assert seen == sorted((one.created_at, one.execution_id) for one in made[1:])


class TestLeases:
    async def test_one_holder_at_a_time(self, database: Database) -> None:
        taken = await asyncio.gather(*(database.write(hold, "duty", f"h{n}", 60) for n in range(8)))
        assert sum(taken) == 1
        holder = f"h{taken.index(True)}"
        assert await database.write(hold, "duty", holder, 60), "its holder renews it"
        assert not await database.write(hold, "duty", "another", 60)

    async def test_a_released_or_overdue_lease_is_free(self, database: Database) -> None:
        assert await database.write(hold, "duty", "one", 60)
        await database.write(release, "duty", "another")
        assert not await database.write(hold, "duty", "two", 60), "only its holder releases it"
        await database.write(release, "duty", "one")
        assert await database.write(hold, "duty", "two", 60)
        await database.write(lambda c: c.execute(update(leases).values(until=START)))
        assert await database.write(hold, "duty", "three", 60)
        assert not await database.write(hold, "duty", "two", 60)
