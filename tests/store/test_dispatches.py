"""Dispatches on both databases: one row an Operator, whoever writes it how often."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from store.caller import Tenant
from store.database import Database
from store.dispatches import (
    AttemptEnd,
    DispatchError,
    Dispatches,
    DispatchFault,
    NewDispatch,
    dispatch_id_of,
    overdue_dispatches,
    unstarted_dispatches,
)
from wyrd.wire.ids import is_uuid7, uuid7

START = datetime(2026, 1, 1, tzinfo=UTC)
UNREACHABLE = DispatchError(DispatchFault.DESTINATION_UNREACHABLE, "nobody there")


def new(tenant: Tenant, execution_id: str, operator: str = "an operator", **more: Any) -> NewDispatch:
    binding_id = "01890000-0000-7000-8000-0000000000bb"
    values: dict[str, Any] = {
        "dispatch_id": dispatch_id_of(tenant, execution_id, binding_id, operator),
        "execution_id": execution_id,
        "binding_id": binding_id,
        "reaction": "failure",
        "operator_uid": None,
        "operator_digest": "d" * 64,
        "request": "{}",
        "created_at": START,
        "deadline_at": START + timedelta(minutes=5),
    }
    return NewDispatch(**{**values, **more})


async def write(database: Database, tenant: Tenant, work: Callable[[Dispatches], Any]) -> Any:
    return await database.write(lambda connection: work(Dispatches(connection, tenant)))


def test_p20_the_id_follows_from_tenant_execution_binding_and_operator(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    one, two = uuid7(), uuid7()
    found = dispatch_id_of(tenant, one, "b", "o")
    assert found == dispatch_id_of(tenant, one, "b", "o")
    others = {
        dispatch_id_of(other_tenant, one, "b", "o"),
        dispatch_id_of(tenant, two, "b", "o"),
        dispatch_id_of(tenant, one, "c", "o"),
        dispatch_id_of(tenant, one, "b", "p"),
        dispatch_id_of(tenant, one, "bo", ""),
    }
    assert len(others | {found}) == 6


def test_published_clients_read_the_id_since_it_has_the_form_of_a_uuid7(tenant: Tenant) -> None:
    one = uuid7()
    found = dispatch_id_of(tenant, one, "b", "o")
    assert is_uuid7(found)
    assert uuid.UUID(found).variant == uuid.RFC_4122
    assert found[:13] == one[:13]


async def test_p65_a_dispatch_that_is_there_stays_as_it_is(database: Database, tenant: Tenant) -> None:
    execution_id = uuid7()
    one = new(tenant, execution_id)
    other = new(tenant, execution_id, "other")
    for request in ('{"first": 1}', '{"second": 2}'):
        made = [new(tenant, execution_id, request=request), other]
        await write(database, tenant, partial(Dispatches.add, made=made))
    found = await write(database, tenant, lambda all: all.of_execution(execution_id))
    assert len(found) == 2
    assert (await write(database, tenant, lambda all: all.find(one.dispatch_id))).request == '{"first": 1}'


async def test_attempts_are_numbered_and_told_in_order(database: Database, tenant: Tenant) -> None:
    one = new(tenant, uuid7())

    def work(all: Dispatches) -> None:
        all.add([one])
        first = all.begin(one.dispatch_id, START)
        all.finish(one.dispatch_id, first, AttemptEnd(12, 500, UNREACHABLE), START)
        all.begin(one.dispatch_id, START)

    await write(database, tenant, work)
    ((row, attempts),) = await write(database, tenant, lambda all: all.of_execution(one.execution_id))
    assert (row.status, row.acknowledged, row.ended_at) == ("running", True, None)
    assert [(it.number, it.duration_ms, it.status_code, it.error_code) for it in attempts] == [
        (1, 12, 500, "destination_unreachable"),
        (2, None, None, None),
    ]
    done = AttemptEnd(3, 200, None)
    await write(database, tenant, lambda all: all.finish(one.dispatch_id, 2, done, START))
    row = await write(database, tenant, lambda all: all.find(one.dispatch_id))
    assert (row.status, row.ended_at) == ("delivered", START)


async def test_the_first_end_of_a_dispatch_stands(database: Database, tenant: Tenant) -> None:
    one = new(tenant, uuid7())
    await write(database, tenant, lambda all: all.add([one]))
    assert await write(database, tenant, lambda all: all.fail(one.dispatch_id, UNREACHABLE, START))
    late = DispatchError(DispatchFault.DEADLINE_EXCEEDED, "late")
    assert not await write(database, tenant, lambda all: all.fail(one.dispatch_id, late, START))
    done = AttemptEnd(3, 200, None)
    await write(database, tenant, lambda all: all.finish(one.dispatch_id, 1, done, START))
    row = await write(database, tenant, lambda all: all.find(one.dispatch_id))
    assert (row.status, row.error_code) == ("failed", "destination_unreachable")


async def test_what_could_not_be_rendered_has_ended_when_it_is_stored(
    database: Database, tenant: Tenant
) -> None:
    fault = DispatchError(DispatchFault.INVALID_REQUEST, "x" * 5000)
    one = new(tenant, uuid7(), request=None, error=fault)
    await write(database, tenant, lambda all: all.add([one]))
    row = await write(database, tenant, lambda all: all.find(one.dispatch_id))
    assert (row.status, row.error_code, len(row.error_message), row.ended_at) == (
        *("failed", "invalid_request"),
        *(500, START),
    )
    assert await write(database, tenant, lambda all: all.unfinished(one.execution_id)) == []


async def test_a_dispatch_belongs_to_its_tenant(
    database: Database, tenant: Tenant, other_tenant: Tenant
) -> None:
    one = new(tenant, uuid7())
    await write(database, tenant, lambda all: all.add([one]))

    def none_of_it(all: Dispatches) -> None:
        assert all.find(one.dispatch_id) is None
        assert all.of_execution(one.execution_id) == []
        assert all.unfinished(one.execution_id) == []
        assert not all.fail(one.dispatch_id, UNREACHABLE, START)
        all.acknowledge(one.dispatch_id)

    await write(database, other_tenant, none_of_it)
    row = await write(database, tenant, lambda all: all.find(one.dispatch_id))
    assert (row.status, row.acknowledged) == ("pending", False)


async def test_the_duty_sees_what_nobody_started_and_what_is_overdue(
    database: Database, tenant: Tenant, other_tenant: Tenant
) -> None:
    mine, theirs, started, ended = (
        new(tenant, uuid7()),
        new(other_tenant, uuid7(), created_at=START + timedelta(seconds=1)),
        new(tenant, uuid7()),
        new(tenant, uuid7()),
    )

    def work(all: Dispatches) -> None:
        all.add([mine, started, ended])
        all.acknowledge(started.dispatch_id)
        all.fail(ended.dispatch_id, UNREACHABLE, START)

    await write(database, tenant, work)
    await write(database, other_tenant, lambda all: all.add([theirs]))

    def unstarted(before: datetime, limit: int = 10) -> list[str]:
        return [
            row.dispatch_id
            for row in database.read_now(
                lambda connection: unstarted_dispatches(connection, older_than=before, limit=limit)
            )
        ]

    later = START + timedelta(minutes=1)
    assert unstarted(later) == [mine.dispatch_id, theirs.dispatch_id]
    assert unstarted(later, 1) == [mine.dispatch_id]
    assert unstarted(START) == []
    overdue = await database.read(
        lambda connection: overdue_dispatches(
            connection, deadline_before=START + timedelta(hours=1), limit=10
        )
    )
    assert {row.dispatch_id for row in overdue} == {mine.dispatch_id, theirs.dispatch_id, started.dispatch_id}
    assert {row.workflow_id.partition("/")[0] for row in overdue} == {"acme", "rival"}
