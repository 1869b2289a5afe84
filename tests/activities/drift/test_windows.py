"""A sample is in exactly one window, whenever it came in and however long it took to be stored."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.drift.window import samples_of_table, window_samples
from bifrost.names import DRIFT_OBSERVATIONS
from engine.drift.baseline import Baseline, fit, judge
from store.database import Database
from store.ingestion import sample_time, samples_settled
from store.outbox import Batch, Outbox
from store.tenants import make_tenant
from tests.bifrost.published import Desk
from tests.conftest import opened
from tests.engine.drift.checks import EVERY_METHOD
from tests.servers import PostgresServer
from wyrd.cards import DriftCheck
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7

START = datetime(2026, 11, 1, 4, tzinfo=UTC)
WIDTH = timedelta(hours=1)
SUBJECT = uuid7()
MICROSECOND = timedelta(microseconds=1)

offsets = st.one_of(
    st.integers(0, 4 * 3_600_000_000 - 1),
    # At a boundary, and beside one.
    st.builds(lambda hour, step: max(0, hour * 3_600_000_000 + step), st.integers(0, 3), st.integers(-2, 2)),
)


def batch(rows: Sequence[dict[str, Any]], at: datetime) -> Batch:
    return Batch(
        table=DRIFT_OBSERVATIONS.full,
        batch_id=uuid7(),
        encoding="json",
        payload=orjson.dumps(list(rows)),
        row_count=len(rows),
        principal_id=uuid7(),
        request_id="request-1",
        ingested_at=at,
    )


def row(record_id: str, card_uid: str = SUBJECT, **more: Any) -> dict[str, Any]:
    created = START - timedelta(days=3)
    return {
        "record_id": record_id,
        "series": "score",
        "num_value": 1.0,
        "created_at": created.isoformat(),
        "card_uid": card_uid,
        **more,
    }


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    database = opened(f"sqlite:///{tmp_path / 'wyrd.db'}")
    found = Desk(database, tmp_path)
    yield found
    found.close()
    database.close()


def test_every_sample_is_in_one_window_and_in_no_other(desk: Desk) -> None:
    """Half of them published, half still waiting; their own claims of a time play no part."""
    seen: dict[str, datetime] = {}

    async def read(start: datetime, end: datetime, subject: str) -> list[str]:
        found = await window_samples(desk.database, desk.cuts, desk.tenant, subject, ["score"], start, end)
        return list(found.record_ids)

    @settings(max_examples=15, deadline=None)
    @given(st.lists(offsets, min_size=1, max_size=30), st.booleans())
    def tiled(moments: list[int], publish: bool) -> None:
        # Every example adds to what is there.
        subject = uuid7()
        mine = {uuid7(): START + timedelta(microseconds=moment) for moment in moments}

        def add(connection: Any) -> None:
            Outbox(connection, desk.tenant).add([batch([row(one, subject)], at) for one, at in mine.items()])

        desk.database.write_now(add)
        if publish:
            desk.publisher.publish(desk.tenant, DRIFT_OBSERVATIONS)
        boundaries = [START + WIDTH * number for number in range(5)]
        windows = [asyncio.run(read(*window, subject)) for window in itertools.pairwise(boundaries)]
        assert sorted(itertools.chain(*windows)) == sorted(mine)
        for (start, end), found in zip(itertools.pairwise(boundaries), windows, strict=True):
            assert all(start <= mine[one] < end for one in found)
        seen.update(mine)

    tiled()
    assert seen


async def test_a_sample_is_a_record_of_one_of_the_features_about_the_subject(desk: Desk) -> None:
    mine, second, other, elsewhere = (uuid7() for _ in range(4))
    rows = [
        row(mine),
        row(mine, series="kind", num_value=None, str_value="a"),
        row(second, series="kind", num_value=None, str_value="b"),
        row(other, series="another feature"),
        row(elsewhere, card_uid=uuid7()),
    ]

    def add(connection: Any) -> None:
        Outbox(connection, desk.tenant).add([batch(rows, START)])

    desk.database.write_now(add)
    found = await window_samples(
        *(desk.database, desk.cuts, desk.tenant, SUBJECT, ["score", "kind"], START, START + WIDTH), ["kind"]
    )
    assert sorted(found.record_ids) == sorted([mine, second])
    assert found.labels("kind").tolist() == ["a", "b"]


async def test_a_window_waits_for_samples_that_took_their_time_before_its_end(database: Database) -> None:
    """A commit may take longer than any margin; what it stores is not missed all the same."""
    tenant = await database.write(make_tenant, "acme")
    stamped, go = threading.Event(), threading.Event()
    order: list[str] = []
    times: list[datetime] = []

    def slow(connection: Any) -> None:
        times.append(sample_time(connection, tenant))
        stamped.set()
        assert go.wait(30)
        Outbox(connection, tenant).add([batch([row(uuid7())], times[0])])
        order.append("stored")

    storing = asyncio.create_task(database.write(slow))
    await asyncio.to_thread(stamped.wait, 30)
    end = await database.clock()
    assert times[0] < end

    async def settle() -> None:
        await database.write(samples_settled, tenant)
        order.append("settled")

    settling = asyncio.create_task(settle())
    done, _ = await asyncio.wait([settling], timeout=0.3)
    assert not done
    go.set()
    await asyncio.gather(storing, settling)
    assert order == ["stored", "settled"]
    waiting = await database.read(
        lambda connection: Outbox(connection, tenant).pending(DRIFT_OBSERVATIONS.full)
    )
    assert len(waiting) == 1


async def test_samples_are_stored_side_by_side(postgres: PostgresServer) -> None:
    """The lock that a window waits for is shared by those who store."""
    url = postgres.new_database()
    database = opened(url)
    tenant = await database.write(make_tenant, "acme")
    both = threading.Barrier(2, timeout=30)

    def store(connection: Any) -> None:
        sample_time(connection, tenant)
        both.wait()

    await asyncio.gather(database.write(store), database.write(store))
    database.close()
    postgres.drop(url)


def test_a_window_of_more_values_than_fit_is_refused(desk: Desk) -> None:
    def add(connection: Any) -> None:
        Outbox(connection, desk.tenant).add([batch([row(uuid7())] * 3, START)])

    desk.database.write_now(add)
    assert desk.cuts.rows_now(desk.tenant, DRIFT_OBSERVATIONS, most=3).num_rows == 3
    with pytest.raises(WyrdError) as refused:
        desk.cuts.rows_now(desk.tenant, DRIFT_OBSERVATIONS, most=2)
    assert refused.value.member is Code.VALA_413_QUERY_RESULT_TOO_LARGE


def test_a_window_is_not_read_while_some_of_it_cannot_be(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be published beyond the size of a cut may belong to it."""
    monkeypatch.setattr("bifrost.reading.TAIL_BYTES", 10)

    def add(connection: Any) -> None:
        Outbox(connection, desk.tenant).add([batch([row(uuid7())], START)])

    desk.database.write_now(add)
    assert desk.cuts.rows_now(desk.tenant, DRIFT_OBSERVATIONS).num_rows == 0
    with pytest.raises(WyrdError) as refused:
        desk.cuts.rows_now(desk.tenant, DRIFT_OBSERVATIONS, whole=True)
    assert refused.value.status == 503


def table(rows: list[dict[str, Any]]) -> pa.Table:
    kinds = [
        ("record_id", pa.string()),
        ("series", pa.string()),
        ("num_value", pa.float64()),
        ("str_value", pa.string()),
        ("created_at", pa.timestamp("us", "UTC")),
    ]
    return pa.Table.from_pylist(rows, pa.schema(kinds))


@pytest.mark.parametrize("drift", EVERY_METHOD, ids=lambda one: one.method)
def test_the_order_in_which_rows_are_read_changes_no_bit_of_a_report(drift: DriftCheck) -> None:
    """Files, publications and compaction put rows in any order; observation order is in the rows."""
    drawn = random.Random(0)
    rows = []
    for number in range(200):
        shared = {
            "record_id": f"r{drawn.random()}",
            # Several at one moment, where the record's id decides.
            "created_at": START + timedelta(seconds=number // 3),
        }
        rows.append({**shared, "series": "score", "num_value": drawn.gauss(0.5, 1), "str_value": "x"})
        rows.append({**shared, "series": "kind", "num_value": None, "str_value": drawn.choice("abc")})
    features = ["score", "kind"]

    def report(shuffled: list[dict[str, Any]]) -> Any:
        samples = samples_of_table(table(shuffled), features, ["kind"])
        baseline: Baseline | None = None
        if drift.method != "Custom":
            baseline = fit(drift, samples)
        return judge(drift, baseline, samples).document()

    first = report(rows)
    for _ in range(20):
        drawn.shuffle(rows)
        assert report(rows) == first


def test_p26_a_record_with_the_same_feature_twice_makes_the_whole_report_inconclusive() -> None:
    """Nothing tells which of the two would be meant, so that nothing is taken of either."""

    def one(record_id: str, number: float) -> dict[str, Any]:
        return {"record_id": record_id, "series": "score", "num_value": number, "created_at": START}

    good = [one(f"r{number:03}", float(number)) for number in range(200)]
    check = EVERY_METHOD[2]
    assert judge(check, None, samples_of_table(table(good), ["score"])).features
    report = judge(check, None, samples_of_table(table([*good, one("r007", 7.0)]), ["score"]))
    assert report.document() == {"method": "Custom", "features": {}, "verdict": "Inconclusive"}
    assert "record r007 repeats the feature score" in report.finding().reason
