"""Tending tables: few files and snapshots, the same rows, and nothing deleted that is still read."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

from bifrost.names import TableName
from bifrost.reading import filesystem
from bifrost.scribe.lease import LeaseLost, TableLease
from bifrost.tables import Tables
from bifrost.warehouse import plain_path
from store.database import utc_now
from store.leases import hold
from store.outbox import Outbox
from store.tables.leases import leases
from tests.bifrost.published import FIELDS, TICKETS, Desk
from wyrd.wire.bifrost import FieldSpec, PhysicalLayout, RegisterTable, SortKey

LATER = timedelta(hours=1)


@pytest.fixture
def lease(desk: Desk) -> TableLease:
    return _taken(desk)


def _taken(desk: Desk) -> TableLease:
    lease = desk.lease()
    assert lease.take()
    return lease


def _published(desk: Desk, lease: TableLease, *ids: str, ingested_at: datetime | None = None) -> None:
    """One publication a ticket, and no tending."""
    for one in ids:
        desk.put(one, priority=len(one), details={"of": one}, ingested_at=ingested_at)
        desk.publisher.settle(desk.tenant, desk.stored, desk.claim(), lease)


def _rows(desk: Desk) -> pa.Table:
    return desk.cuts.rows_now(desk.tenant, TICKETS).sort_by("ticket_id").combine_chunks()


def _stored_files(desk: Desk) -> set[str]:
    storage = filesystem(desk.catalogs.warehouse.storage)
    folder = plain_path(desk.catalogs.warehouse.folder(desk.tenant))
    found = storage.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
    return {file.path for file in found if file.type == pyarrow.fs.FileType.File}


def test_p65_merging_leaves_the_same_rows_in_fewer_files(desk: Desk, lease: TableLease) -> None:
    yesterday = utc_now() - timedelta(days=1)
    _published(desk, lease, *"abc", ingested_at=yesterday)
    _published(desk, lease, *"defghijkl")
    before = _rows(desk)
    assert desk.files() == 12
    assert desk.publisher.maintenance.compact(desk.tenant, desk.stored, lease, utc_now()) == 12
    assert desk.files() == 2
    assert _rows(desk).equals(before)
    assert desk.iceberg_ids() == list("abcdefghijkl")
    table = desk.catalogs.table(desk.tenant, TICKETS)
    assert table is not None
    assert table.inspect.delete_files().num_rows == 0
    assert desk.publisher.maintenance.compact(desk.tenant, desk.stored, lease, utc_now()) == 0


def test_p65_files_of_before_a_table_grew_are_merged_with_those_after(desk: Desk, lease: TableLease) -> None:
    stale = desk.stored
    _published(desk, lease, *"abcde")
    desk.register([*FIELDS, FieldSpec(name="refund", data_type="Bool", nullable=True)])
    desk.put("f", refund=True)
    desk.publisher.settle(desk.tenant, desk.stored, desk.claim(), lease)
    _published(desk, lease, *"ghij")
    before = _rows(desk)
    # By a process that read the table's columns before it grew.
    assert desk.publisher.maintenance.compact(desk.tenant, stale, lease, utc_now()) == 10
    assert _rows(desk).equals(before)
    assert before["refund"].to_pylist().count(True) == 1


def test_p65_merged_files_are_sorted_by_the_layout(embedded_desk: Desk) -> None:
    desk, name = embedded_desk, TableName("vala.datasets", "sorted")
    layout = PhysicalLayout(sort_keys=[SortKey(column="n")])
    asked = RegisterTable(
        namespace="datasets",
        name="sorted",
        fields=[FieldSpec(name="n", data_type="Int64")],
        physical_layout=layout,
    )
    desk.database.write_now(lambda connection: Tables(connection, desk.tenant).register(asked))
    for number in (5, 3, 9, 1, 8, 2, 7, 4):
        batch = replace(desk.batch([{"n": number}]), table=name.full)
        desk.database.write_now(lambda connection, one: Outbox(connection, desk.tenant).add([one]), batch)
        desk.publisher.publish(desk.tenant, name)
    cut = desk.cuts.take_now(desk.tenant, [name])[name]
    assert len(cut.files) == 1
    assert desk.cuts.rows_now(desk.tenant, name)["n"].to_pylist() == [1, 2, 3, 4, 5, 7, 8, 9]


def test_p66_a_cut_can_be_read_for_as_long_as_the_longest_query_takes(desk: Desk, lease: TableLease) -> None:
    tend = desk.publisher.maintenance
    _published(desk, lease, *"abcdefgh")
    cut = desk.cuts.take_now(desk.tenant, [TICKETS])[TICKETS]
    tend.compact(desk.tenant, desk.stored, lease, utc_now())
    # Eight of nine snapshots have been replaced, each by another a moment ago: nothing goes yet,
    # however long ago they were made.
    assert tend.expire(desk.tenant, desk.stored, lease, utc_now()) == 0
    assert tend.sweep(desk.tenant, desk.stored, lease, utc_now()) == 0
    assert _stored_files(desk) >= set(cut.files)
    assert tend.expire(desk.tenant, desk.stored, lease, utc_now() + LATER) == 8
    assert _stored_files(desk) & set(cut.files) == set()
    assert desk.snapshots() == 1
    assert desk.ids() == desk.iceberg_ids() == list("abcdefgh")


def test_p66_a_snapshot_made_long_ago_stays_while_it_was_replaced_only_now(
    desk: Desk, lease: TableLease
) -> None:
    tend = desk.publisher.maintenance
    _published(desk, lease, "a")
    tend.grace = timedelta(seconds=0)
    first = desk.snapshots()
    assert tend.expire(desk.tenant, desk.stored, lease, utc_now() + LATER) == 0, "it is the current one"
    _published(desk, lease, "b")
    tend.grace = LATER
    assert tend.expire(desk.tenant, desk.stored, lease, utc_now() + LATER / 2) == 0
    assert desk.snapshots() == first + 1


def test_p66_what_a_crash_left_behind_is_deleted_once_it_is_old(desk: Desk, lease: TableLease) -> None:
    tend = desk.publisher.maintenance
    _published(desk, lease, *"ab")
    known = _stored_files(desk)
    table = desk.catalogs.table(desk.tenant, TICKETS)
    assert table is not None
    left = f"{table.location()}/data/wyrd_ingested_at_day=2026-01-01/left-behind.parquet"
    with desk.catalogs.io.new_output(left).create() as stream:
        stream.write(b"never committed")
    assert tend.sweep(desk.tenant, desk.stored, lease, utc_now()) == 0, "it may be under way"
    desk.put("c")
    publish_id = desk.claim()
    assert tend.sweep(desk.tenant, desk.stored, lease, utc_now() + timedelta(days=2)) == 0
    desk.publisher.settle(desk.tenant, desk.stored, publish_id, lease)
    assert tend.sweep(desk.tenant, desk.stored, lease, utc_now() + timedelta(days=2)) == 1
    assert plain_path(left) not in _stored_files(desk)
    assert _stored_files(desk) >= known
    assert desk.ids() == list("abc")


def test_p67_days_that_are_past_a_tables_retention_go_and_no_others(desk: Desk, lease: TableLease) -> None:
    now = utc_now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    _published(desk, lease, "first-kept", ingested_at=midnight - timedelta(days=30))
    _published(desk, lease, "last-gone", ingested_at=midnight - timedelta(days=30, microseconds=1))
    _published(desk, lease, "today")
    tend = desk.publisher.maintenance
    assert tend.drop_old(desk.tenant, desk.stored, lease, now) == 0, "everything is kept by default"
    desk.database.write_now(lambda connection: Tables(connection, desk.tenant).keep_days(TICKETS, 30))
    assert tend.drop_old(desk.tenant, desk.stored, lease, now) == 1
    assert desk.ids() == desk.iceberg_ids() == ["first-kept", "today"]


def test_p65_what_lost_its_lease_neither_merges_nor_expires_nor_deletes(
    desk: Desk, lease: TableLease
) -> None:
    _published(desk, lease, *"abcdefgh")
    desk.database.write_now(_give_to_another)
    files, tend = _stored_files(desk), desk.publisher.maintenance
    later = utc_now() + timedelta(days=9)
    with pytest.raises(LeaseLost):
        tend.compact(desk.tenant, desk.stored, lease, later)
    with pytest.raises(LeaseLost):
        tend.expire(desk.tenant, desk.stored, lease, later)
    with pytest.raises(LeaseLost):
        tend.sweep(desk.tenant, desk.stored, lease, later)
    assert _stored_files(desk) >= files
    assert desk.snapshots() == 8


async def test_p66_tables_that_nobody_publishes_to_are_tended_as_well(embedded_desk: Desk) -> None:
    desk = embedded_desk
    _published(desk, _taken(desk), *"abcdefgh")
    due = desk.database.read_now(desk.publisher.maintenance.due)
    assert due == [(desk.tenant, TICKETS)]
    _release(desk)
    await desk.publisher.tend_idle()
    assert desk.files() == 1
    assert desk.database.read_now(desk.publisher.maintenance.due) == []


async def test_p66_more_than_a_hundred_publications_leave_few_files_snapshots_and_metadata(
    embedded_desk: Desk,
) -> None:
    desk = embedded_desk
    desk.publisher.maintenance.grace = timedelta(0)
    for number in range(120):
        desk.put(f"{number:03}")
        await desk.publisher.pass_once(everything=True)
    assert desk.ids() == [f"{number:03}" for number in range(120)]
    assert desk.files() < 50
    assert desk.snapshots() < 50
    assert len(_stored_files(desk)) < 300


def _give_to_another(connection: Any) -> None:
    connection.execute(leases.update().values(until=utc_now() - LATER))
    name = connection.execute(leases.select()).one().name
    assert hold(connection, name, "another", 60.0)


def _release(desk: Desk) -> None:
    desk.database.write_now(lambda connection: connection.execute(leases.delete()))
