"""Publishing: what waits in the outbox ends up in Iceberg once, whoever crashes, stalls or fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import select, update

from bifrost.catalog import TenantCatalog
from bifrost.names import TableName
from bifrost.publication import PUBLISH_ID
from bifrost.scribe.lease import LeaseLost
from bifrost.scribe.publisher import Publisher, forget
from bifrost.tables import Tables
from store.database import utc_now
from store.outbox import Outbox
from store.tables.bifrost import bifrost_outbox
from store.tables.leases import leases
from tests.bifrost.published import FIELDS, TICKETS, Desk, other_tenant
from wyrd.wire.bifrost import FieldSpec, PhysicalLayout, RegisterTable, SortKey


async def test_p60_every_waiting_row_is_published_once_with_its_system_columns(desk: Desk) -> None:
    batch = desk.put("a", "b", details={"refund": [1, 2.5]})
    desk.put("c", run_id="run-1", card_uid="card-1", priority=3)
    assert await desk.publisher.pass_once(everything=True) == 3
    assert await desk.publisher.pass_once(everything=True) == 0
    table = await desk.cuts.rows(desk.tenant, TICKETS)
    rows = {row["ticket_id"]: row for row in table.to_pylist()}
    assert sorted(rows) == desk.iceberg_ids() == ["a", "b", "c"]
    assert rows["b"] == {
        "ticket_id": "b",
        "priority": None,
        "details": rows["a"]["details"],
        "run_id": None,
        "card_uid": None,
        "sub_principal_id": batch.principal_id,
        "act_principal_id": None,
        "wyrd_request_id": "request-1",
        "wyrd_ingested_at": batch.ingested_at,
        "wyrd_batch_id": batch.batch_id,
        "wyrd_row_ordinal": 1,
        "data_tenant_id": desk.tenant.id,
    }
    assert (rows["c"]["run_id"], rows["c"]["card_uid"], rows["c"]["priority"]) == ("run-1", "card-1", 3)
    assert desk.waiting() == 0


async def test_p60_a_table_is_due_by_its_rows_or_by_its_age_and_not_before(embedded_desk: Desk) -> None:
    desk = Desk(embedded_desk.database, embedded_desk.settings.home, publish_rows=3, publish_seconds=60)
    desk.put("a", "b")
    assert await desk.publisher.pass_once() == 0
    desk.put("c")
    assert await desk.publisher.pass_once() == 3
    desk.put("old", ingested_at=utc_now() - timedelta(seconds=61))
    assert await desk.publisher.pass_once() == 1
    desk.close()


async def test_p61_a_claim_that_a_crash_left_open_is_settled_first_and_under_its_own_id(desk: Desk) -> None:
    desk.put("a", "b")
    publish_id = desk.claim()
    desk.put("c")
    assert await desk.publisher.pass_once() == 3, "an open claim makes its table due"
    table = desk.catalogs.table(desk.tenant, TICKETS)
    assert table is not None
    first, second = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
    assert first.summary is not None
    assert first.summary[PUBLISH_ID] == publish_id
    assert second.summary is not None
    assert second.summary[PUBLISH_ID] != publish_id
    assert desk.ids() == desk.iceberg_ids() == ["a", "b", "c"]


async def test_p61_a_claim_whose_snapshot_is_there_is_marked_done_and_not_appended(desk: Desk) -> None:
    desk.put("a", "b")
    publish_id = desk.claim()
    await desk.publisher.pass_once()
    # As after a restore of the outbox alone: the snapshot is there, and the claim is open again.
    payload = desk.batch([{"ticket_id": "a"}, {"ticket_id": "b"}]).payload
    desk.database.write_now(
        lambda connection: connection.execute(
            update(bifrost_outbox)
            .where(bifrost_outbox.c.publish_id == publish_id)
            .values(published_at=None, payload=payload)
        )
    )
    assert desk.waiting() == 2
    assert desk.ids() == ["a", "b"], "the tail holds nothing that the snapshot names"
    assert await desk.publisher.pass_once() == 0
    assert desk.waiting() == 0
    assert desk.ids() == desk.iceberg_ids() == ["a", "b"]


async def test_p61_a_publisher_that_lost_its_lease_and_wakes_up_late_publishes_nothing(desk: Desk) -> None:
    desk.put("a", "b")
    late, stored = desk.lease("late"), desk.stored
    assert late.take()
    publish_id = desk.claim()

    def meanwhile(connection: Any) -> None:
        connection.execute(update(leases).values(until=utc_now() - timedelta(seconds=1)))

    woken: list[int] = []

    def stall() -> None:
        # The late one has written its files and is about to commit.
        desk.database.write_now(meanwhile)
        woken.append(Publisher(desk.database, desk.catalogs, desk.settings).publish(desk.tenant, TICKETS))

    with _before_commit(desk, stall), pytest.raises(LeaseLost):
        desk.publisher.settle(desk.tenant, stored, publish_id, late)
    assert woken == [2]
    assert desk.ids() == desk.iceberg_ids() == ["a", "b"]
    assert desk.snapshots() == 1


async def test_p61_without_any_lease_the_same_claim_is_still_published_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The lease is the first of three fences. Here it always says yes.
    monkeypatch.setattr("bifrost.scribe.lease.renew", lambda *_: True)
    desk.put("a", "b")
    publish_id, stored = desk.claim(), desk.stored
    other: list[int] = []

    def stall() -> None:
        other.append(desk.publisher.settle(desk.tenant, stored, publish_id, desk.lease("other")))

    with _before_commit(desk, stall):
        assert desk.publisher.settle(desk.tenant, stored, publish_id, desk.lease("late")) == 0
    assert other == [2]
    assert desk.ids() == desk.iceberg_ids() == ["a", "b"]
    assert desk.snapshots() == 1


async def test_p61_a_commit_that_meets_another_is_tried_again_from_a_new_look(desk: Desk) -> None:
    desk.put("a")
    await desk.publisher.pass_once(everything=True)
    desk.put("b")

    def stall() -> None:
        table = desk.catalogs.table(desk.tenant, TICKETS)
        assert table is not None
        with table.transaction() as change:
            change.set_properties({"owner": "somebody else"})

    with _before_commit(desk, stall):
        assert await desk.publisher.pass_once(everything=True) == 1
    assert desk.ids() == desk.iceberg_ids() == ["a", "b"]
    table = desk.catalogs.table(desk.tenant, TICKETS)
    assert table is not None
    assert table.properties["owner"] == "somebody else"


async def test_p60_several_publishers_at_once_publish_every_row_once(desk: Desk) -> None:
    others = [Publisher(desk.database, desk.catalogs, desk.settings) for _ in range(3)]
    for number in range(12):
        desk.put(f"{number:02}-a", f"{number:02}-b")
        await asyncio.gather(*(one.pass_once(everything=True) for one in others))
    while desk.waiting():
        await asyncio.gather(*(one.pass_once(everything=True) for one in others))
    for one in others:
        one.close()
    expected = sorted(f"{number:02}-{letter}" for number, letter in itertools.product(range(12), "ab"))
    assert desk.ids() == desk.iceberg_ids() == expected


async def test_p60_one_failing_table_does_not_stop_the_others_and_loses_nothing(desk: Desk) -> None:
    broken = TableName("vala.datasets", "broken")
    asked = RegisterTable(
        namespace="datasets", name="broken", fields=[FieldSpec(name="n", data_type="Int64")]
    )

    def unreadable(connection: Any) -> None:
        Tables(connection, desk.tenant).register(asked)
        batch = replace(desk.batch([{"n": "not a number"}]), table=broken.full)
        Outbox(connection, desk.tenant).add([batch])

    desk.database.write_now(unreadable)
    desk.put("a")
    assert await desk.publisher.pass_once(everything=True) == 1
    assert desk.ids() == ["a"]
    assert desk.waiting() == 1
    assert await desk.publisher.pass_once() == 0, "it is left alone for a while"


async def test_p60_a_table_that_grew_takes_old_and_new_rows_and_reads_nulls_for_what_was_not(
    desk: Desk,
) -> None:
    desk.put("old")
    await desk.publisher.pass_once(everything=True)
    desk.put("between")
    desk.register([*FIELDS, FieldSpec(name="refund", data_type="Bool", nullable=True)])
    desk.put("new", refund=True)
    waiting = await desk.cuts.rows(desk.tenant, TICKETS)
    await desk.publisher.pass_once(everything=True)
    published = await desk.cuts.rows(desk.tenant, TICKETS)
    for rows in (waiting, published):
        found = dict(zip(rows["ticket_id"].to_pylist(), rows["refund"].to_pylist(), strict=True))
        assert found == {"old": None, "between": None, "new": True}
    table = desk.catalogs.table(desk.tenant, TICKETS)
    assert table is not None
    assert sorted(table.scan().to_arrow()["refund"].to_pylist(), key=str) == [None, None, True]


async def test_p60_rows_of_one_publication_are_sorted_by_the_layout_and_split_by_its_partitions(
    embedded_desk: Desk,
) -> None:
    desk = embedded_desk
    asked = RegisterTable(
        namespace="datasets",
        name="sorted",
        fields=[FieldSpec(name="n", data_type="Int64")],
        physical_layout=PhysicalLayout(
            partition_granularity="hour", sort_keys=[SortKey(column="n", direction="desc")]
        ),
    )
    name = TableName("vala.datasets", "sorted")
    now = utc_now()

    def add(connection: Any) -> None:
        Tables(connection, desk.tenant).register(asked)
        for numbers, moment in (([1, 5], now), ([3, 9], now - timedelta(hours=2)), ([4], now)):
            batch = replace(desk.batch([{"n": number} for number in numbers], moment), table=name.full)
            Outbox(connection, desk.tenant).add([batch])

    desk.database.write_now(add)
    await desk.publisher.pass_once(everything=True)
    table = desk.catalogs.table(desk.tenant, name)
    assert table is not None
    parts = [task.file.file_path for task in table.scan().plan_files()]
    assert len(parts) == 2
    assert table.format_version == 2
    assert {part.split("/")[-2].partition("=")[0] for part in parts} == {"wyrd_ingested_at_hour"}
    read = {tuple(_column(part, "n")) for part in parts}
    assert read == {(5, 4, 1), (9, 3)}


async def test_p60_tenants_have_tables_of_their_own_under_folders_of_their_own(desk: Desk) -> None:
    rival = other_tenant(desk)
    asked = RegisterTable(namespace="datasets", name="tickets", fields=FIELDS)

    def add(connection: Any) -> None:
        Tables(connection, rival).register(asked)
        Outbox(connection, rival).add([desk.batch([{"ticket_id": "theirs"}])])

    desk.database.write_now(add)
    desk.put("ours")
    await desk.publisher.pass_once(everything=True)
    theirs = await desk.cuts.rows(rival, TICKETS)
    assert (desk.ids(), theirs["ticket_id"].to_pylist()) == (["ours"], ["theirs"])
    cuts = [(await desk.cuts.take(tenant, [TICKETS]))[TICKETS] for tenant in (desk.tenant, rival)]
    assert ["/acme/datasets/tickets/" in path for path in cuts[0].files] == [True]
    assert ["/rival/datasets/tickets/" in path for path in cuts[1].files] == [True]


async def test_p60_published_batches_are_known_for_a_week_and_then_forgotten(embedded_desk: Desk) -> None:
    desk = embedded_desk
    desk.put("a")
    desk.put("b")
    await desk.publisher.pass_once(everything=True)

    def age(connection: Any) -> None:
        first = connection.execute(select(bifrost_outbox.c.batch_id).limit(1)).scalar_one()
        connection.execute(
            update(bifrost_outbox)
            .where(bifrost_outbox.c.batch_id == first)
            .values(published_at=utc_now() - timedelta(days=7, seconds=1))
        )
        forget(connection)

    desk.database.write_now(age)
    left = desk.database.read_now(
        lambda connection: connection.execute(select(bifrost_outbox.c.payload)).scalars().all()
    )
    assert left == [None]


class _before_commit:
    """Calls `work` once, when the next commit has written its metadata and is about to swap."""

    def __init__(self, desk: Desk, work: Callable[[], None]) -> None:
        self._work = work
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        written = TenantCatalog._write_metadata
        waiting = [self._work]

        def stalled(*arguments: Any, **named: Any) -> None:
            written(*arguments, **named)
            metadata = named.get("metadata") or arguments[0]
            if waiting and metadata.snapshots:
                waiting.pop()()

        self._patch.setattr(TenantCatalog, "_write_metadata", staticmethod(stalled))

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def _column(location: str, name: str) -> list[Any]:
    found: list[Any] = pq.read_table(location.removeprefix("file://"), columns=[name])[name].to_pylist()
    return found
