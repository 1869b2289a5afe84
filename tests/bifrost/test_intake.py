"""Intake: a batch is stored whole and once, or refused whole with nothing stored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from sqlalchemy import text

from bifrost.materialise import materialise
from bifrost.names import DRIFT_OBSERVATIONS, EXECUTION_INPUTS, TRACE_SPANS, VERIFICATION_RESULTS, TableName
from bifrost.scribe.arrow_stream import written_stream
from bifrost.scribe.batches import ROWS_AS_JSON
from bifrost.scribe.intake import MAX_ROWS
from bifrost.tables import Tables
from store.caller import Role
from store.database import Database, utc_now
from store.outbox import Batch, Outbox
from tests.bifrost.recording import FIELDS, TICKETS, Recording
from wyrd.errors import WyrdError
from wyrd.wire.arrow_rows import rows_to_arrow
from wyrd.wire.bifrost import BatchAccepted, FieldSpec
from wyrd.wire.ids import uuid7

REQUEST = uuid7()


@pytest.fixture
def acme(database: Database, tmp_path: Path) -> Recording:
    recording = Recording(database, tmp_path)
    recording.register()
    return recording


@pytest.fixture
def embedded(sqlite_database: Database, tmp_path: Path) -> Recording:
    recording = Recording(sqlite_database, tmp_path)
    recording.register()
    return recording


def tickets(count: int) -> list[dict[str, Any]]:
    return [{"ticket_id": f"t{n}", "priority": n, "details": {"n": [n]}} for n in range(count)]


async def record(
    recording: Recording, rows: Any, table: TableName = TICKETS, *, batch_id: str | None = None, **caller: Any
) -> BatchAccepted:
    return await recording.scribe.write_rows(
        recording.caller(**caller), table, batch_id or uuid7(), rows, REQUEST
    )


async def refused(recording: Recording, rows: Any, table: TableName = TICKETS, **more: Any) -> WyrdError:
    with pytest.raises(WyrdError) as caught:
        await record(recording, rows, table, **more)
    assert recording.batches(table) == []
    return caught.value


async def refused_stream(recording: Recording, stream: bytes, table: TableName = TICKETS) -> WyrdError:
    with pytest.raises(WyrdError) as caught:
        await recording.scribe.write_arrow(recording.caller(), table, uuid7(), stream, REQUEST)
    assert recording.batches(table) == []
    return caught.value


def published(recording: Recording, batch: Batch, table: TableName = TICKETS) -> list[dict[str, Any]]:
    """The rows of a stored batch as the table will have them."""
    stored = recording.database.read_now(lambda connection: Tables(connection, recording.tenant).find(table))
    found: list[dict[str, Any]] = materialise(batch, stored, recording.tenant).to_pylist()
    return found


@pytest.mark.parametrize("count", [1, ROWS_AS_JSON - 1, ROWS_AS_JSON, 300])
async def test_rows_are_in_the_outbox_once_they_are_acknowledged(acme: Recording, count: int) -> None:
    run, card = uuid7(), acme.card("Agent")
    rows = [{**row, "run_id": run, "card_uid": card} for row in tickets(count)]
    caller, batch_id = acme.caller(), uuid7()
    accepted = await acme.scribe.write_rows(caller, TICKETS, batch_id, rows, REQUEST)
    assert accepted == BatchAccepted(batch_id=batch_id, rows=count, duplicate=False)
    (batch,) = acme.batches()
    assert batch.encoding == ("json" if count < ROWS_AS_JSON else "arrow")
    assert (batch.row_count, batch.batch_id, batch.actor_id) == (count, batch_id, None)
    found = published(acme, batch)
    assert [
        {**row, "details": orjson.loads(row["details"])}
        for row in ({name: one[name] for name in rows[0]} for one in found)
    ] == rows
    assert [row["wyrd_row_ordinal"] for row in found] == list(range(count))
    assert {row["sub_principal_id"] for row in found} == {caller.principal_id}
    assert {row["wyrd_request_id"] for row in found} == {REQUEST}
    assert {row["wyrd_batch_id"] for row in found} == {batch_id}
    assert {row["data_tenant_id"] for row in found} == {acme.tenant.id}


async def test_a_batch_that_is_sent_again_is_stored_once(acme: Recording) -> None:
    batch_id = uuid7()
    assert not (await record(acme, tickets(2), batch_id=batch_id)).duplicate
    again = await record(acme, tickets(2), batch_id=batch_id.upper())
    assert again == BatchAccepted(batch_id=batch_id, rows=2, duplicate=True)
    assert len(acme.batches()) == 1


async def test_a_batch_that_is_sent_many_times_at_once_is_stored_once(acme: Recording) -> None:
    batch_id = uuid7()
    answers = await asyncio.gather(*(record(acme, tickets(3), batch_id=batch_id) for _ in range(12)))
    assert [answer.duplicate for answer in answers].count(False) == 1
    assert len(acme.batches()) == 1


async def test_p58_two_tenants_may_use_one_batch_id(acme: Recording, tmp_path: Path) -> None:
    rival = Recording(acme.database, tmp_path, "rival")
    rival.register()
    batch_id = uuid7()
    assert not (await record(acme, tickets(1), batch_id=batch_id)).duplicate
    assert not (await record(rival, tickets(2), batch_id=batch_id)).duplicate
    assert [batch.row_count for batch in rival.batches()] == [2]


@pytest.mark.parametrize("batch_id", ["", "x", "0" * 36, "7f0c9d3e-0000-4000-8000-000000000000"])
async def test_a_batch_id_is_a_uuid7(embedded: Recording, batch_id: str) -> None:
    with pytest.raises(WyrdError) as caught:
        await embedded.scribe.write_rows(embedded.caller(), TICKETS, batch_id, tickets(1), REQUEST)
    assert (caught.value.code, caught.value.details["field"]) == ("WYRD_SPEC_400_VALIDATION", "batch_id")


async def test_a_batch_has_a_row_and_not_too_many(embedded: Recording) -> None:
    row = tickets(1)[0]
    for rows in ([], [row] * (MAX_ROWS + 1)):
        assert (await refused(embedded, rows)).details["field"] == "rows"


async def test_one_bad_row_refuses_the_whole_batch(acme: Recording) -> None:
    error = await refused(acme, [*tickets(400), {"ticket_id": "t", "priority": "high"}])
    assert (error.code, error.details["field"]) == ("WYRD_SPEC_400_VALIDATION", "rows[400].priority")
    error = await refused(acme, [*tickets(3), {"ticket_id": "t", "refund": True}])
    assert error.code == "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD"
    assert error.details == {"field": "refund", "row": 3}


async def test_columns_that_wyrd_writes_are_undeclared_in_a_row(embedded: Recording) -> None:
    for name in ("data_tenant_id", "wyrd_ingested_at", "sub_principal_id"):
        error = await refused(embedded, [{"ticket_id": "t", name: "x"}])
        assert error.code == "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD"


async def test_the_caller_must_be_permitted_to_record(embedded: Recording) -> None:
    error = await refused(embedded, tickets(1), role=Role.VIEWER)
    assert error.code == "WYRD_PERMISSION_403_DENIED_RBAC"


@pytest.mark.parametrize("table", [TRACE_SPANS, VERIFICATION_RESULTS], ids=str)
async def test_only_wyrd_writes_its_own_tables(embedded: Recording, table: TableName) -> None:
    error = await refused(embedded, [{"trace_id": "0" * 32}], table)
    assert error.code == "WYRD_VALA_403_BIFROST_RESERVED_BUILTIN_WRITE"
    assert error.details == {"table": table.full}
    stream = written_stream(pa.RecordBatch.from_pydict({"trace_id": ["0" * 32]}))
    assert (await refused_stream(embedded, stream, table)).code == error.code


async def test_a_table_that_is_not_there_takes_nothing(embedded: Recording) -> None:
    error = await refused(embedded, tickets(1), TableName("vala.datasets", "missing"))
    assert error.code == "WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND"


async def test_a_card_out_of_scope_refuses_the_whole_batch(acme: Recording) -> None:
    agent = acme.card("Agent")
    service, stranger = acme.card("Service", agent), acme.card("Agent")
    mine = [{**row, "card_uid": agent} for row in tickets(40)]
    assert (await record(acme, [*mine, {"ticket_id": "no card"}], card_uid=service)).rows == 41
    with pytest.raises(WyrdError) as caught:
        await record(acme, [*mine, {"ticket_id": "t", "card_uid": stranger}], card_uid=service)
    assert caught.value.code == "WYRD_VALA_403_BIFROST_CARD_SCOPE"
    assert [batch.row_count for batch in acme.batches()] == [41]


@pytest.mark.parametrize("name", ["run_id", "card_uid"])
async def test_runs_and_cards_are_uuids_and_kept_in_lower_case(embedded: Recording, name: str) -> None:
    error = await refused(embedded, [*tickets(2), {"ticket_id": "t", name: "run-1"}])
    assert (error.code, error.details["field"]) == ("WYRD_SPEC_400_VALIDATION", f"rows[2].{name}")
    uid = embedded.card("Agent")
    await record(embedded, [{"ticket_id": "t", name: uid.upper()}])
    (batch,) = embedded.batches()
    assert [row[name] for row in published(embedded, batch)] == [uid]


def sample(**more: Any) -> dict[str, Any]:
    return {
        "record_id": uuid7(),
        "series": "score",
        "num_value": 0.4,
        "str_value": "0.4",
        "created_at": utc_now().isoformat(),
        **more,
    }


async def test_samples_are_recorded_about_a_card_in_scope(acme: Recording) -> None:
    service = acme.card("Service")
    await record(acme, [sample(card_uid=service)] * 2, DRIFT_OBSERVATIONS, card_uid=service)
    assert [batch.row_count for batch in acme.batches(DRIFT_OBSERVATIONS)] == [2]


async def test_a_sample_names_its_card_and_the_six_columns_alone(embedded: Recording) -> None:
    service = embedded.card("Service")
    error = await refused(embedded, [sample(card_uid=service), sample()], DRIFT_OBSERVATIONS)
    assert (error.code, error.details["field"]) == ("WYRD_SPEC_400_VALIDATION", "rows[1].card_uid")
    error = await refused(embedded, [sample(card_uid=service, unit="ms")], DRIFT_OBSERVATIONS)
    assert error.code == "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD"
    error = await refused(embedded, [sample(card_uid=uuid7())], DRIFT_OBSERVATIONS)
    assert error.code == "WYRD_VALA_403_BIFROST_CARD_SCOPE"


async def test_a_stream_that_fits_is_stored_as_it_came(acme: Recording) -> None:
    extra = [FieldSpec(name=name, data_type="Utf8", nullable=True) for name in ("card_uid", "run_id")]
    stream = written_stream(rows_to_arrow(FIELDS, tickets(40), extra=extra))
    accepted = await acme.scribe.write_arrow(acme.caller(), TICKETS, uuid7(), stream, REQUEST)
    assert (accepted.rows, accepted.duplicate) == (40, False)
    (batch,) = acme.batches()
    assert (batch.encoding, batch.payload) == ("arrow", stream)


async def test_a_stream_in_another_order_and_spelling_is_made_to_fit(acme: Recording) -> None:
    run = uuid7()
    sent = pa.RecordBatch.from_pydict(
        {
            "run_id": pa.array([run.upper(), None]),
            "priority": pa.array([1, None], pa.int8()),
            "ticket_id": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    await acme.scribe.write_arrow(acme.caller(), TICKETS, uuid7(), written_stream(sent), REQUEST)
    (batch,) = acme.batches()
    found = published(acme, batch)
    assert [(row["ticket_id"], row["priority"], row["details"], row["run_id"]) for row in found] == [
        ("a", 1, None, run),
        ("b", None, None, None),
    ]


async def test_a_stream_that_does_not_fit_is_refused_whole(embedded: Recording) -> None:
    for columns, code in (
        ({"ticket_id": ["a"], "refund": [True]}, "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD"),
        ({"ticket_id": [1]}, "WYRD_SPEC_400_VALIDATION"),
        ({"priority": [1]}, "WYRD_SPEC_400_VALIDATION"),
        ({"ticket_id": ["a"], "details": ["{"]}, "WYRD_VALA_400_VARIANT_INVALID_JSON"),
        ({"ticket_id": ["a"], "card_uid": [uuid7()]}, "WYRD_VALA_403_BIFROST_CARD_SCOPE"),
        ({"ticket_id": []}, "WYRD_VALA_400_INGEST_PROTO"),
    ):
        stream = written_stream(pa.RecordBatch.from_pydict(columns))
        assert (await refused_stream(embedded, stream)).code == code, columns


async def test_a_column_that_another_process_added_is_taken_at_once(acme: Recording) -> None:
    await record(acme, tickets(1))
    other = Recording.__new__(Recording)
    other.__dict__.update(acme.__dict__)
    other.register(*FIELDS, FieldSpec(name="refund", data_type="Bool", nullable=True))
    assert (await record(acme, [{"ticket_id": "t", "refund": True}])).rows == 1
    assert [published(acme, batch)[0]["refund"] for batch in acme.batches()] == [None, True]


async def test_a_table_is_read_once_and_not_for_every_batch(
    embedded: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    await record(embedded, tickets(1))

    async def read(*_arguments: object) -> None:
        raise AssertionError("the database was asked")

    monkeypatch.setattr("bifrost.scribe.intake._MEASURED_SECONDS", 3600.0)
    monkeypatch.setattr(embedded.database, "read", read)
    await record(embedded, tickets(1))


async def record_forever(recording: Recording) -> None:
    for _ in range(100):
        await record(recording, tickets(10))


async def test_too_much_that_waits_to_be_published_is_busy_and_free_again_once_it_is(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bifrost.scribe.intake._MEASURED_SECONDS", 0.0)
    acme = Recording(database, tmp_path, max_unpublished_bytes=4096)
    acme.register()
    with pytest.raises(WyrdError) as caught:
        await record_forever(acme)
    assert caught.value.code == "WYRD_VALA_429_INGEST_BUSY"
    assert caught.value.details == {"table": TICKETS.full}
    waiting = acme.batches()
    assert 3 < len(waiting) < 20
    with pytest.raises(WyrdError, match="INGEST_BUSY"):
        await acme.scribe.write_system(acme.tenant, [waiting[0]])

    def publish(connection: Any) -> None:
        outbox = Outbox(connection, acme.tenant)
        outbox.claim(TICKETS.full, publish_id, [batch.batch_id for batch in waiting])
        outbox.published(TICKETS.full, publish_id, utc_now())

    publish_id = uuid7()
    database.write_now(publish)
    assert (await record(acme, tickets(1))).rows == 1


async def test_what_waits_is_counted_between_two_measurements(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bifrost.scribe.intake._MEASURED_SECONDS", 3600.0)
    acme = Recording(sqlite_database, tmp_path, max_unpublished_bytes=4096)
    acme.register()
    with pytest.raises(WyrdError, match="INGEST_BUSY"):
        await record_forever(acme)


async def test_system_batches_are_stored_once(acme: Recording) -> None:
    await record(acme, tickets(2))
    (batch,) = acme.batches()
    fresh = Batch(TRACE_SPANS.full, uuid7(), "json", b"[]", 1, acme.tenant.id, REQUEST, utc_now())
    assert await acme.scribe.write_system(acme.tenant, [fresh]) == 1
    assert await acme.scribe.write_system(acme.tenant, [fresh, batch]) == 0
    assert await acme.scribe.write_system(acme.tenant, []) == 0


async def test_a_full_disk_is_told_as_such_and_nothing_is_half_written(embedded: Recording) -> None:
    await record(embedded, tickets(1))

    def limit(connection: Any) -> None:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count = {pages}"))

    # The limit holds for one connection, and the pool gives the one that writes again.
    embedded.database.write_now(limit)
    big = [{"ticket_id": "t", "details": "x" * 200_000}]
    with pytest.raises(WyrdError) as caught:
        await record(embedded, big)
    assert caught.value.code == "WYRD_VALA_507_WAL_DISK_FULL"
    assert [batch.row_count for batch in embedded.batches()] == [1]
    embedded.database.write_now(
        lambda connection: connection.execute(text("PRAGMA max_page_count = 1000000"))
    )
    assert not (await record(embedded, big)).duplicate


async def test_what_wyrd_wrote_itself_is_published_however_deep_it_is(acme: Recording) -> None:
    deep: Any = "end"
    for _ in range(80):
        deep = [deep]
    row = {"execution_id": uuid7(), "slot": "letter", "kind": "json", "declaration": {"value": deep}}
    batch = Batch(
        EXECUTION_INPUTS.full, uuid7(), "json", orjson.dumps([row]), 1, acme.tenant.id, REQUEST, utc_now()
    )
    await acme.scribe.write_system(acme.tenant, [batch])
    (stored,) = acme.batches(EXECUTION_INPUTS)
    (found,) = published(acme, stored, EXECUTION_INPUTS)
    assert orjson.loads(found["declaration"]) == {"value": deep}
