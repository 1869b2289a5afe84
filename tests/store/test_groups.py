"""Groups on both databases: what is acknowledged, in which order, and what is due when."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, func, select

from store.caller import Tenant
from store.clock import shifted
from store.database import Database
from store.due_groups import Untold, overdue, untold
from store.executions import EndedRow, Executions, NewExecution, record_ended
from store.groups import Group, GroupBinding, Groups
from store.tables.executions import executions, submission_keys
from store.tables.groups import group_evidence, groups
from tests.store.test_executions import new
from wyrd.errors import Code
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionStatus

T = TypeVar("T")

BINDING = GroupBinding("01890000-0000-7000-8000-0000000000b1", 60.0)
OTHER = GroupBinding("01890000-0000-7000-8000-0000000000b2", 3600.0)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@dataclass
class Store:
    """One tenant's groups, one transaction a call, on a clock that the test moves."""

    database: Database
    tenant: Tenant
    offset: timedelta = field(default=timedelta(0))

    async def __call__(self, work: Callable[[Groups], T]) -> T:
        return await self.database.write(lambda connection: work(Groups(connection, self.tenant)))

    async def executions(self, work: Callable[[Executions], T]) -> T:
        return await self.database.write(lambda connection: work(Executions(connection, self.tenant)))

    async def accept(self, *bindings: GroupBinding, group_id: str = "g", **members: Any) -> str:
        made = new(group_id=group_id, **members)
        await self.executions(lambda repository: repository.accept(made, groups=bindings or (BINDING,)))
        return made.execution_id

    async def submitted(self, made: NewExecution, body_sha256: str) -> None:
        """Accepted under a key that is always the same."""
        await self.executions(
            lambda repository: repository.accept(
                made, key="verification-submit-1", body_sha256=body_sha256, groups=[BINDING]
            )
        )

    async def end(self, execution_id: str, status: ExecutionStatus = ExecutionStatus.ERRORED) -> bool:
        code = Code.VERIFICATION_502_DEPENDENCY_FAILED
        return await self.executions(lambda repository: repository.end(execution_id, status, code, "no"))

    async def find(self, binding: GroupBinding = BINDING, group_id: str = "g") -> Group:
        found = await self(lambda repository: repository.find(binding.binding_id, group_id))
        assert found is not None
        return found

    async def due(self, binding: GroupBinding = BINDING) -> datetime:
        due_at = (await self.find(binding)).due_at
        assert due_at is not None
        return due_at

    async def evidence(self, binding: GroupBinding = BINDING, group_id: str = "g") -> list[str]:
        rows = await self(lambda repository: repository.evidence(binding.binding_id, group_id))
        return [row.execution_id for row in rows]

    async def untold(self, limit: int = 100) -> list[Untold]:
        return await self.database.read(untold, {self.tenant.id: self.tenant}, limit)

    async def tell(self, due_at: datetime | None = None, binding: GroupBinding = BINDING) -> None:
        moment = due_at or await self.due(binding)
        await self(lambda repository: repository.told(binding.binding_id, "g", moment))

    async def judged(self, binding: GroupBinding = BINDING) -> str:
        execution_id = uuid7()
        await self(lambda repository: repository.judged(binding.binding_id, "g", execution_id))
        return execution_id

    async def count(self, table: Any) -> int:
        return await self.database.read(
            lambda connection: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
        )


@pytest.fixture
def store(database: Database, tenant: Tenant) -> Iterator[Store]:
    made = Store(database, tenant)
    with shifted(lambda: made.offset):
        yield made


class TestAcknowledging:
    async def test_an_accepted_input_makes_its_group_due_after_the_quiet_time_of_each_binding(
        self, store: Store
    ) -> None:
        began = datetime.now(UTC)
        await store.accept(OTHER, BINDING)
        assert timedelta(0) <= await store.due() - began - MINUTE < MINUTE
        assert await store.due(OTHER) - await store.due() == timedelta(seconds=3540)

    async def test_new_evidence_moves_the_due_time_later(self, store: Store) -> None:
        await store.accept()
        before = await store.due()
        store.offset = 10 * MINUTE
        await store.accept()
        assert await store.due() - before >= 10 * MINUTE

    async def test_evidence_whose_clock_was_read_earlier_does_not_bring_the_due_time_forward(
        self, store: Store
    ) -> None:
        store.offset = 10 * MINUTE
        await store.accept()
        due, revision = await store.due(), (await store.find()).revision
        store.offset = timedelta(0)
        await store.accept()
        assert await store.due() == due
        assert (await store.find()).revision > revision

    async def test_an_end_of_any_kind_makes_the_group_due_anew(self, store: Store) -> None:
        for number, status in enumerate(
            (ExecutionStatus.ERRORED, ExecutionStatus.CANCELLED, ExecutionStatus.TIMED_OUT)
        ):
            execution_id = await store.accept()
            await store.judged()
            store.offset = (number + 1) * MINUTE
            assert await store.end(execution_id, status)
            assert (await store.find()).due_at is not None

    async def test_a_result_makes_the_group_due_anew_once(self, store: Store) -> None:
        execution_id = await store.accept()
        await store.judged()

        def complete(repository: Executions) -> bool:
            return repository.complete(
                execution_id, verdict="passed", result="{}", started_at=datetime.now(UTC)
            )

        assert await store.executions(complete)
        assert (await store.find()).due_at is not None
        await store.judged()
        assert not await store.executions(complete)
        assert (await store.find()).due_at is None

    async def test_the_end_of_a_groups_own_judgement_is_no_evidence(self, store: Store) -> None:
        await store.accept()
        await store.judged()
        own = new(group_id="g", source="group")
        await store.executions(lambda repository: repository.add(own))
        await store.end(own.execution_id)
        assert (await store.find()).due_at is None

    async def test_an_execution_without_a_group_makes_nothing_due(self, store: Store) -> None:
        made = new(group_id=None)
        await store.executions(lambda repository: repository.accept(made, groups=[BINDING]))
        await store.end(made.execution_id)
        assert await store.count(groups) == await store.count(group_evidence) == 0

    async def test_a_group_that_no_binding_gathers_leaves_nothing(self, store: Store) -> None:
        made = new(group_id="g")
        await store.executions(lambda repository: repository.accept(made, groups=[]))
        await store.end(made.execution_id)
        assert await store.count(groups) == await store.count(group_evidence) == 0

    async def test_a_repeated_submit_is_no_second_piece_of_evidence(self, store: Store) -> None:
        first, again = new(group_id="g"), new(group_id="g")
        for made in (first, again):
            await store.submitted(made, "a" * 64)
        assert await store.evidence() == [first.execution_id]
        assert (await store.find()).revision == 1

    async def test_a_key_that_was_used_for_something_else_is_no_evidence(self, store: Store) -> None:
        first, other = new(group_id="g"), new(group_id="g")
        for made, digest in ((first, "a" * 64), (other, "b" * 64)):
            await store.submitted(made, digest)
        assert await store.evidence() == [first.execution_id]

    async def test_what_is_rolled_back_leaves_neither_evidence_nor_a_due_time(self, store: Store) -> None:
        def work(connection: Connection) -> None:
            made = new(group_id="g")
            Executions(connection, store.tenant).accept(made, groups=[BINDING])
            raise RuntimeError("the process dies here")

        with pytest.raises(RuntimeError):
            await store.database.write(work)
        for table in (executions, group_evidence, groups, submission_keys):
            assert await store.count(table) == 0

    async def test_an_end_that_is_rolled_back_makes_nothing_due(self, store: Store) -> None:
        execution_id = await store.accept()
        await store.judged()

        def work(connection: Connection) -> None:
            ended = Executions(connection, store.tenant).end(
                execution_id, ExecutionStatus.CANCELLED, None, None
            )
            assert ended
            raise RuntimeError("the process dies here")

        with pytest.raises(RuntimeError):
            await store.database.write(work)
        assert (await store.find()).due_at is None


class TestVerifies:
    def ended(self, store: Store, made: NewExecution, *bindings: GroupBinding) -> EndedRow:
        return EndedRow(
            store.tenant,
            made,
            ExecutionStatus.COMPLETED,
            datetime.now(UTC),
            verdict="passed",
            result="{}",
            groups=bindings or (BINDING,),
        )

    async def test_a_stored_verify_is_evidence_of_its_group(self, store: Store) -> None:
        made = [new(group_id="g", source="verify") for _ in range(3)]
        await store.database.write(record_ended, [self.ended(store, one) for one in made])
        assert await store.evidence() == [one.execution_id for one in made]
        assert (await store.find()).due_at is not None

    async def test_verifies_of_several_groups_keep_their_order_of_arrival_in_each(self, store: Store) -> None:
        made = [new(group_id=group, source="verify") for group in ("b", "a", "b", "a", "b")]
        await store.database.write(record_ended, [self.ended(store, one) for one in made])
        for group in ("a", "b"):
            ids = [one.execution_id for one in made if one.group_id == group]
            assert await store.evidence(group_id=group) == ids

    async def test_a_record_that_is_stored_again_after_a_crash_makes_nothing_due(self, store: Store) -> None:
        made = new(group_id="g", source="verify")
        await store.database.write(record_ended, [self.ended(store, made)])
        first = await store.evidence()
        await store.judged()
        store.offset = 10 * MINUTE
        await store.database.write(record_ended, [self.ended(store, made)])
        found = await store.find()
        assert (found.due_at, found.revision) == (None, 1)
        assert await store.evidence() == first == [made.execution_id]


class TestEvidence:
    async def test_evidence_comes_in_order_of_arrival_then_of_execution_ids(self, store: Store) -> None:
        ids = [await store.accept() for _ in range(3)]
        at = datetime(2026, 1, 1, tzinfo=UTC)
        low, high = sorted((uuid7(), uuid7()))

        def earlier(connection: Connection) -> None:
            for execution_id in (high, low):
                row = {
                    "tenant_id": store.tenant.id,
                    "binding_id": BINDING.binding_id,
                    "group_id": "g",
                    "execution_id": execution_id,
                    "acknowledged_at": at,
                }
                connection.execute(group_evidence.insert(), row)

        await store.database.write(earlier)
        assert await store.evidence() == [low, high, *ids]

    async def test_evidence_tells_what_is_there_of_each_execution(self, store: Store) -> None:
        inputs = json.dumps({"turn": {"kind": "json", "value": 1}})
        execution_id = await store.accept(inputs=inputs)
        missing = uuid7()
        await store(lambda repository: repository.acknowledge_input(missing, "g", [BINDING]))
        (there, gone) = await store(lambda repository: repository.evidence(BINDING.binding_id, "g"))
        assert (there.execution_id, there.inputs, there.verdict, there.result) == (
            execution_id,
            inputs,
            None,
            None,
        )
        assert (gone.execution_id, gone.inputs, gone.result) == (missing, None, None)

    async def test_groups_of_two_bindings_two_ids_and_two_tenants_never_meet(
        self, store: Store, other_tenant: Tenant
    ) -> None:
        rival = Store(store.database, other_tenant)
        mine, theirs = await store.accept(), await rival.accept()
        another = await store.accept(group_id="G")
        third = await store.accept(OTHER)
        assert await store.evidence() == [mine]
        assert await rival.evidence() == [theirs]
        assert await store.evidence(group_id="G") == [another]
        assert await store.evidence(OTHER) == [third]
        await rival.judged()
        await rival(lambda repository: repository.replace_verdict(BINDING.binding_id, "g", "failed"))
        assert (await store.find()).due_at is not None
        assert (await store.find()).verdict is None

    @pytest.mark.parametrize("group_id", ["g", "é" * 128, "a/b#c?d", "'; DROP TABLE groups; --"])
    async def test_a_group_id_is_any_text(self, store: Store, group_id: str) -> None:
        execution_id = await store.accept(group_id=group_id)
        assert await store.evidence(group_id=group_id) == [execution_id]

    async def test_a_withdrawn_execution_is_no_evidence_and_changes_what_is_seen(self, store: Store) -> None:
        kept, gone = await store.accept(), await store.accept()
        before = (await store.find()).revision
        await store.executions(lambda repository: repository.withdraw(gone))
        assert await store.evidence() == [kept]
        found = await store.find()
        assert found.revision > before
        assert found.due_at is not None

    async def test_an_execution_that_temporal_has_cannot_be_withdrawn(self, store: Store) -> None:
        execution_id = await store.accept()
        await store.executions(lambda repository: repository.acknowledge([execution_id]))
        await store.executions(lambda repository: repository.withdraw(execution_id))
        assert await store.evidence() == [execution_id]


class TestTelling:
    async def test_a_due_time_is_told_once(self, store: Store) -> None:
        await store.accept()
        (one,) = await store.untold()
        assert (one.tenant, one.binding_id, one.group_id) == (store.tenant, BINDING.binding_id, "g")
        assert one.due_at == await store.due()
        await store.tell()
        assert await store.untold() == []

    async def test_a_later_due_time_is_told_again(self, store: Store) -> None:
        await store.accept()
        await store.tell()
        store.offset = SECOND
        await store.accept()
        assert [one.due_at for one in await store.untold()] == [await store.due()]

    async def test_evidence_that_came_while_it_was_being_told_is_still_untold(self, store: Store) -> None:
        await store.accept()
        being_told = await store.due()
        store.offset = SECOND
        await store.accept()
        await store.tell(being_told)
        assert len(await store.untold()) == 1

    async def test_two_that_tell_at_once_leave_the_later_time(self, store: Store) -> None:
        await store.accept()
        earlier = await store.due()
        store.offset = SECOND
        await store.accept()
        await store.tell()
        await store.tell(earlier)
        assert await store.untold() == []

    async def test_what_was_told_of_a_judged_group_is_forgotten(self, store: Store) -> None:
        await store.accept()
        being_told = await store.due()
        await store.judged()
        await store.tell(being_told)
        assert (await store.find()).told_due_at is None
        await store.accept()
        assert len(await store.untold()) == 1

    async def test_a_late_word_of_a_judged_due_time_does_not_hide_an_earlier_one_that_came_after(
        self, store: Store
    ) -> None:
        """A commit that is late brings a due time that lies before the one that was judged."""
        store.offset = 10 * MINUTE
        await store.accept()
        being_told = await store.due()
        await store.judged()
        store.offset = timedelta(0)
        await store.accept()
        await store.tell(being_told)
        assert len(await store.untold()) == 1

    async def test_the_earliest_are_told_first_and_no_more_than_asked_for(self, store: Store) -> None:
        for group, minutes in (("late", 3), ("early", 1), ("middle", 2)):
            store.offset = minutes * MINUTE
            await store.accept(group_id=group)
        assert [one.group_id for one in await store.untold(2)] == ["early", "middle"]

    async def test_a_judged_group_is_not_told(self, store: Store) -> None:
        await store.accept()
        await store.judged()
        assert await store.untold() == []


class TestOverdue:
    async def overdue(self, store: Store, after: Untold | None = None, limit: int = 100) -> list[Untold]:
        tenants = {store.tenant.id: store.tenant}
        return await store.database.read(overdue, tenants, 2 * MINUTE, after, limit)

    async def test_a_told_group_that_nobody_took_up_is_found_two_minutes_after_it_was_due(
        self, store: Store
    ) -> None:
        await store.accept()
        await store.tell()
        store.offset = 3 * MINUTE - SECOND
        assert await self.overdue(store) == []
        store.offset = 3 * MINUTE + SECOND
        assert [one.group_id for one in await self.overdue(store)] == ["g"]
        await store.judged()
        assert await self.overdue(store) == []

    async def test_what_is_untold_is_not_found_a_second_time(self, store: Store) -> None:
        await store.accept()
        store.offset = 10 * MINUTE
        assert await self.overdue(store) == []
        assert len(await store.untold()) == 1

    async def test_pages_lose_none_and_repeat_none(self, store: Store) -> None:
        names = [f"g{number}" for number in range(7)]
        for name in names:
            await store.accept(group_id=name)

        def told(connection: Connection) -> None:
            connection.execute(groups.update().values(told_due_at=groups.c.due_at))

        await store.database.write(told)
        store.offset = 10 * MINUTE
        found: list[str] = []
        after = None
        while page := await self.overdue(store, after, limit=3):
            found += [one.group_id for one in page]
            after = page[-1]
        assert sorted(found) == names


class TestVerdicts:
    async def test_the_first_verdict_has_none_before_it_and_each_takes_the_place_of_the_last(
        self, store: Store
    ) -> None:
        await store.accept()

        async def replace(verdict: str) -> str | None:
            return await store(
                lambda repository: repository.replace_verdict(BINDING.binding_id, "g", verdict)
            )

        assert await replace("failed") is None
        assert await replace("passed") == "failed"
        assert await replace("passed") == "passed"
        assert (await store.find()).verdict == "passed"

    async def test_what_a_group_was_judged_by_stays_when_more_comes(self, store: Store) -> None:
        await store.accept()
        execution_id = await store.judged()
        await store(lambda repository: repository.replace_verdict(BINDING.binding_id, "g", "failed"))
        await store.accept()
        found = await store.find()
        assert (found.verdict, found.last_execution_id) == ("failed", execution_id)

    async def test_a_binding_tells_how_many_groups_wait_which_is_due_first_and_what_came_last(
        self, store: Store
    ) -> None:
        await store.accept(group_id="g")
        await store.judged()
        await store.accept(group_id="first")
        store.offset = MINUTE
        await store.accept(group_id="second")
        seen = await store(lambda repository: repository.seen(BINDING.binding_id))
        assert seen.waiting == 2
        assert seen.next_due_at == (await store.find(group_id="first")).due_at
        assert seen.last_execution_id == (await store.find()).last_execution_id
