"""The Bifrost client over HTTP: what it sends, what it makes of answers, what it refuses by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel

from tests.sdk import frames
from tests.sdk.desk import stored_desk
from tests.sdk.peer import KEY, NOW, Answer, Peer, Seen, problem
from wyrd import AsyncBifrost, Bifrost, Code, TableConfig, WyrdClient, WyrdError, WyrdState, aio
from wyrd._client.graph import load
from wyrd._client.samples import COLUMNS
from wyrd.verify import Recorded
from wyrd.wire.bifrost import FieldSpec
from wyrd.wire.ids import uuid7
from wyrd.wire.refs import CardRef

TICKETS = "vala.datasets.tickets"
BATCHES = "/v1/bifrost/tables/vala.datasets/tickets/batches"
DESCRIBED = "/v1/bifrost/tables/vala.datasets/tickets"
SAMPLES = "/v1/bifrost/tables/vala.drift/observations"
ARROW = "application/vnd.apache.arrow.stream"
TRACE = "0af7651916cd43dd8448eb211c80319c"
FIELDS = [FieldSpec(name="n", data_type="Int64"), FieldSpec(name="word", data_type="Utf8", nullable=True)]
CORRELATION = [FieldSpec(name=name, data_type="Utf8", nullable=True) for name in ("card_uid", "run_id")]

BATCH = pa.record_batch({"n": [1, 2], "word": ["a", None]})


class Ticket(BaseModel):
    n: int
    word: str | None = None


def described(fields: list[FieldSpec], namespace: str = "vala.datasets", name: str = "tickets") -> Answer:
    entry = {"namespace": namespace, "name": name, "table_uid": uuid7(), "status": "Active"}
    return Answer(
        body={
            "entry": {**entry, "fingerprint": "f", "registered_at": NOW, "updated_at": NOW},
            "user_fields": [field.model_dump(mode="json", exclude_none=True) for field in fields],
            "correlation_fields": [field.model_dump(mode="json", exclude_none=True) for field in CORRELATION],
            "physical_layout": {"partition_granularity": "day", "sort_keys": [], "bloom_columns": []},
        }
    )


def accepted(one: Seen) -> Answer:
    if one.headers["content-type"] == ARROW:
        return Answer(body={"batch_id": one.query["batch_id"], "rows": 1, "duplicate": False})
    return Answer(body={"batch_id": one.json["batch_id"], "rows": 1, "duplicate": False})


def rows_of(one: Seen) -> list[dict[str, Any]]:
    if one.headers["content-type"] == ARROW:
        rows: list[dict[str, Any]] = pa.ipc.open_stream(one.body).read_all().to_pylist()
        return rows
    found: list[dict[str, Any]] = one.json["rows"]
    return found


@pytest.fixture
def tables(peer: Peer) -> Peer:
    """The peer, with the tables of tickets and samples."""
    peer.routes["POST", BATCHES] = peer.routes["POST", f"{SAMPLES}/batches"] = accepted
    peer.routes["GET", DESCRIBED] = lambda _: described(FIELDS)
    peer.routes["GET", SAMPLES] = lambda _: described(list(COLUMNS), "vala.drift", "observations")
    return peer


@pytest.fixture
def bifrost(client: WyrdClient) -> Iterator[Bifrost]:
    one = Bifrost(TableConfig(Ticket, TICKETS), client)
    yield one
    one.shutdown()


@pytest.fixture
def state(tables: Peer, client: WyrdClient) -> WyrdState:
    desk = stored_desk(tables)
    graph = client._run(load(client.server_url, CardRef.model_validate(desk.service)))
    tables.seen.clear()
    return WyrdState(client, graph)


class TestInserting:
    def test_few_rows_go_as_json_without_asking_for_the_table(self, tables: Peer, bifrost: Bifrost) -> None:
        bifrost.insert({"n": 1, "word": "ä"})
        bifrost.insert(Ticket(n=2))
        bifrost.insert('{"n": 3}')
        bifrost.flush()
        (sent,) = tables.requests("POST", BATCHES)
        assert sent.headers["content-type"] == "application/json"
        assert rows_of(sent) == [{"n": 1, "word": "ä"}, {"n": 2, "word": None}, {"n": 3}]
        assert tables.requests("GET", DESCRIBED) == []

    def test_many_rows_go_as_arrow_and_the_table_is_asked_for_once(
        self, tables: Peer, client: WyrdClient
    ) -> None:
        bifrost = Bifrost(TableConfig(Ticket, TICKETS), client, batch_rows=50)
        for number in range(100):
            bifrost.insert({"n": number})
        bifrost.shutdown()
        sent = tables.requests("POST", BATCHES)
        assert [one.headers["content-type"] for one in sent] == [ARROW, ARROW]
        rows = sorted((row for one in sent for row in rows_of(one)), key=lambda row: row["n"])
        assert rows[7] == {"n": 7, "word": None, "card_uid": None, "run_id": None}
        assert len(rows) == 100
        assert 1 <= len(tables.requests("GET", DESCRIBED)) <= 2

    def test_a_table_that_has_grown_is_asked_for_again(self, tables: Peer, bifrost: Bifrost) -> None:
        for number in range(40):
            bifrost.insert({"n": number})
        bifrost.flush()
        tables.routes["GET", DESCRIBED] = lambda _: described(
            [*FIELDS, FieldSpec(name="more", data_type="Int64", nullable=True)]
        )
        for number in range(40):
            bifrost.insert({"n": number, "more": 1})
        bifrost.flush()
        assert rows_of(tables.requests("POST", BATCHES)[-1])[0]["more"] == 1

    def test_rows_that_do_not_fit_are_told_of_by_themselves(self, tables: Peer, bifrost: Bifrost) -> None:
        for number in range(40):
            bifrost.insert(
                {"n": "seven"} if number == 7 else {"n": number, **({"x": 1} if number == 9 else {})}
            )
        with pytest.raises(WyrdError) as refused:
            bifrost.flush()
        told = {one["code"]: one["row"]["n"] for one in refused.value.details["refused"]}
        assert told == {"WYRD_SPEC_400_VALIDATION": "seven", "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD": 9}
        (sent,) = tables.requests("POST", BATCHES)
        assert len(rows_of(sent)) == 38

    def test_a_repeat_is_the_same_batch(
        self, tables: Peer, bifrost: Bifrost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("wyrd._client.recording._FIRST_PAUSE", 0.001)
        tables.queue(
            "POST", BATCHES, problem(503, "WYRD_SERVER_503_SERVICE_UNAVAILABLE"), Answer(502, raw=b"proxy")
        )
        bifrost.insert({"n": 1})
        bifrost.flush()
        bodies = [one.body for one in tables.requests("POST", BATCHES)]
        assert len(bodies) == 3
        assert len(set(bodies)) == 1

    def test_correlation_says_whose_a_row_is(self, tables: Peer, bifrost: Bifrost) -> None:
        run_id = uuid7()
        bifrost.insert({"n": 1}, {"run_id": run_id.upper()})
        bifrost.flush()
        (sent,) = tables.requests("POST", BATCHES)
        assert rows_of(sent) == [{"n": 1, "run_id": run_id}]
        for wrong in ({"run_id": "x"}, {"card_uid": 7}, {"session": run_id}):
            with pytest.raises(WyrdError) as refused:
                bifrost.insert({"n": 1}, wrong)
            assert refused.value.member is Code.SPEC_400_VALIDATION

    def test_a_written_batch_is_stored_when_the_call_returns(self, tables: Peer, client: WyrdClient) -> None:
        with pytest.raises(WyrdError) as refused:
            Bifrost(client).write_batch(TICKETS, {"n": 1})
        assert refused.value.member is Code.SPEC_400_VALIDATION
        tables.queue("POST", BATCHES, problem(429, "WYRD_VALA_429_INGEST_BUSY"))
        Bifrost(client).write_batch(TICKETS, pa.table({"n": [1, 2]}))
        first, second = tables.requests("POST", BATCHES)
        assert first.query == second.query
        assert rows_of(second) == [{"n": 1}, {"n": 2}]

    def test_without_a_table_nothing_is_inserted_or_registered(self, peer: Peer, client: WyrdClient) -> None:
        bifrost = Bifrost(client=client)
        for call in (lambda: bifrost.insert({"n": 1}), bifrost.register):
            with pytest.raises(WyrdError) as refused:
                call()
            assert refused.value.details["field"] == "table"
        assert peer.seen == []

    def test_a_shut_down_client_inserts_no_more_and_still_asks(
        self, tables: Peer, client: WyrdClient
    ) -> None:
        bifrost = Bifrost(TableConfig(Ticket, TICKETS), client)
        bifrost.shutdown()
        with pytest.raises(WyrdError) as refused:
            bifrost.insert({"n": 1})
        assert refused.value.member is Code.SDK_409_BIFROST_CLOSED
        assert bifrost.describe_table("vala.datasets", "tickets")["user_fields"][0]["name"] == "n"


class TestTables:
    def test_client_and_table_are_taken_in_either_order_and_swapped_tables_come_back(
        self, peer: Peer, client: WyrdClient
    ) -> None:
        config, other = TableConfig(Ticket, TICKETS), TableConfig(Ticket, "vala.datasets.other")
        for bifrost in (
            Bifrost(config, client),
            Bifrost(client, config),
            Bifrost(table=config, client=client),
        ):
            assert bifrost.table is config
            assert bifrost.use_table(other) is config
        assert peer.seen == []

    def test_register_sends_the_columns_and_resolves(self, peer: Peer, client: WyrdClient) -> None:
        schema = {
            "type": "object",
            "properties": {"at": {"type": "string", "format": "date-time"}, "word": {"type": "string"}},
            "required": ["at"],
        }
        config = TableConfig.from_json_schema("datasets.words", schema, time_column="at")
        answer = {"outcome": "Created", "table_uid": uuid7(), "fingerprint": "f"}
        peer.queue(
            "POST",
            "/v1/bifrost/tables",
            Answer(201, answer),
            Answer(200, {**answer, "outcome": "AlreadyExists"}),
        )
        assert config.resolved is None
        bifrost = Bifrost(config, client)
        assert (bifrost.register(), bifrost.register()) == ("created", "already_exists")
        assert config.resolved == {"table_uid": answer["table_uid"], "fingerprint": "f"}
        sent = peer.requests("POST", "/v1/bifrost/tables")[0].json
        assert (sent["namespace"], sent["name"]) == ("datasets", "words")
        assert sent["physical_layout"]["time_column"] == "at"
        assert [(one["name"], one["nullable"]) for one in sent["fields"]] == [("at", False), ("word", True)]

    def test_models_and_arrow_schemas_say_the_same_columns(self) -> None:
        arrow = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("word", pa.string())])
        from_model, from_arrow = TableConfig(Ticket, TICKETS), TableConfig.from_arrow(TICKETS, arrow)
        assert from_model.arrow_schema == from_arrow.arrow_schema == arrow
        assert from_model.fqn == TICKETS

    def test_a_described_table_is_resolved(self, tables: Peer, client: WyrdClient) -> None:
        config = TableConfig.describe(TICKETS, client)
        assert config.resolved is not None
        assert config.arrow_schema.names == ["n", "word"]

    @pytest.mark.parametrize(
        ("table", "code"),
        [
            ("tickets", Code.VALA_400_SCHEMA_PARSE),
            (".tickets", Code.VALA_400_SCHEMA_PARSE),
            (7, Code.VALA_400_SCHEMA_PARSE),
        ],
    )
    def test_names_that_are_none(self, table: Any, code: Code) -> None:
        with pytest.raises(WyrdError) as refused:
            TableConfig(Ticket, table)
        assert refused.value.member is code

    def test_configurations_that_are_none(self) -> None:
        class Reserved(BaseModel):
            run_id: str

        attempts: list[tuple[Callable[[], Any], Code]] = [
            (lambda: TableConfig(Reserved, TICKETS), Code.VALA_400_BIFROST_RESERVED_COLUMN),
            (lambda: TableConfig(dict, TICKETS), Code.VALA_400_SCHEMA_PARSE),
            (lambda: TableConfig(Ticket, TICKETS, "century"), Code.SPEC_400_VALIDATION),
            (lambda: TableConfig(Ticket, TICKETS, compaction_type="wild"), Code.SPEC_400_VALIDATION),
            (
                lambda: TableConfig(Ticket, TICKETS, sort_keys=[{"column": "n", "direction": "up"}]),
                Code.SPEC_400_VALIDATION,
            ),
        ]
        for make, code in attempts:
            with pytest.raises(WyrdError) as refused:
                make()
            assert refused.value.member is code


class TestRuns:
    def test_samples_are_rows_of_their_table_about_the_views_card(
        self, tables: Peer, state: WyrdState
    ) -> None:
        state.start_bifrost()
        run = state.run(session_id="01890a5d-ac96-774b-bcce-b302099a8057")
        assert run.observe.submit("drift", {"score": 0.4}) == Recorded()
        assert isinstance(run.observe.submit("drift", scores={"score": "high"}), Recorded)
        run.observe.submit("drift", {"named": "a"})
        state.shutdown()
        (sent,) = tables.requests("POST", f"{SAMPLES}/batches")
        first, second, third = rows_of(sent)
        assert (third["series"], third["num_value"], third["str_value"]) == ("named", None, "a")
        assert (first["series"], first["num_value"], first["str_value"]) == ("score", 0.4, "0.4")
        assert (second["num_value"], second["str_value"]) == (None, "high")
        assert first["record_id"] < second["record_id"]
        assert {(row["run_id"], row["card_uid"], row["session_id"]) for row in (first, second)} == {
            (run.run_id, run.card_uid, run.session_id)
        }
        assert tables.requests("POST", "/v1/verification/enqueue") == []

    @pytest.mark.parametrize(
        ("value", "code"),
        [
            ({"other": 1}, Code.VERIFICATION_422_INPUT_INCOMPATIBLE),
            ({1: 1}, Code.VERIFICATION_422_INPUT_INCOMPATIBLE),
            ({"score": True}, Code.VERIFICATION_422_INPUT_INCOMPATIBLE),
            ({"score": None}, Code.VERIFICATION_422_INPUT_INCOMPATIBLE),
            ({"score": float("inf")}, Code.VERIFICATION_422_INPUT_INCOMPATIBLE),
            ({"score": 10**400}, Code.VERIFICATION_422_INPUT_INCOMPATIBLE),
            ({"score": [0.4]}, Code.VERIFICATION_422_INPUT_INCOMPATIBLE),
            ({"charted": "0.4"}, Code.VERIFICATION_422_INPUT_INCOMPATIBLE),
            ({"measured": "high"}, Code.VERIFICATION_422_INPUT_INCOMPATIBLE),
            ({}, Code.VERIFICATION_400_INPUT_INVALID),
            (0.4, Code.VERIFICATION_400_INPUT_INVALID),
        ],
    )
    def test_samples_that_do_not_fit_their_slot(
        self, tables: Peer, state: WyrdState, value: Any, code: Code
    ) -> None:
        state.start_bifrost()
        with pytest.raises(WyrdError) as refused:
            state.run().observe.submit("drift", value)
        assert refused.value.member is code
        state.shutdown()
        assert tables.requests("POST", f"{SAMPLES}/batches") == []

    def test_a_server_with_another_table_of_samples_is_known_at_the_start(
        self, tables: Peer, state: WyrdState
    ) -> None:
        tables.routes["GET", SAMPLES] = lambda _: described(list(COLUMNS[:-1]), "vala.drift", "observations")
        with pytest.raises(WyrdError) as refused:
            state.start_bifrost()
        assert refused.value.member is Code.VALA_409_BIFROST_FINGERPRINT_MISMATCH
        tables.routes["GET", SAMPLES] = lambda _: described(list(COLUMNS), "vala.drift", "observations")
        state.start_bifrost()

    def test_a_state_starts_once_and_ends_for_good(self, tables: Peer, state: WyrdState) -> None:
        with pytest.raises(WyrdError) as idle:
            state.flush()
        assert idle.value.member is Code.SDK_400_BIFROST_NOT_STARTED
        state.start_bifrost()
        with pytest.raises(WyrdError) as twice:
            state.start_bifrost()
        assert twice.value.member is Code.SDK_409_BIFROST_ALREADY_STARTED
        state.shutdown()
        state.shutdown()
        late: list[Callable[[], Any]] = [
            state.start_bifrost,
            state.flush,
            lambda: state.run().observe.record(TICKETS, {"n": 1}),
        ]
        for call in late:
            with pytest.raises(WyrdError) as closed:
                call()
            assert closed.value.member is Code.SDK_409_BIFROST_CLOSED

    @pytest.mark.parametrize(
        "table",
        [
            "tickets",
            "datasets.tickets",
            "vala.drift.observations",
            "vala.datasets.",
            "vala.datasets.A",
            ["x"],
            None,
        ],
    )
    def test_rows_go_to_datasets_alone(self, tables: Peer, state: WyrdState, table: Any) -> None:
        state.start_bifrost()
        # A stream of samples is open already: it is no way in.
        state.run().observe.submit("drift", {"score": 0.4})
        with pytest.raises(WyrdError) as refused:
            state.run().observe.record(table, {"n": 1})
        assert refused.value.member is Code.SDK_400_INVALID_OBSERVATION
        state.shutdown()


class TestAsync:
    async def test_it_records_asks_and_streams_as_the_other_does(self, tables: Peer) -> None:
        batch = BATCH
        tables.routes["POST", "/v1/query"] = lambda _: frames.answered(batch)
        async with aio.WyrdClient(tables.url, KEY) as client:
            bifrost = aio.Bifrost(TableConfig(Ticket, TICKETS), client)
            bifrost.insert({"n": 1})
            await bifrost.insert({"n": 2})
            await bifrost.flush()
            assert [rows_of(one) for one in tables.requests("POST", BATCHES)] == [[{"n": 1}, {"n": 2}]]
            assert (await bifrost.sql("SELECT 1", Ticket))[1] == Ticket(n=2)
            stream = await bifrost.stream("SELECT 1")
            assert [one async for one in stream] == [batch]
            assert stream.terminal is not None
            left = await bifrost.stream("SELECT 1")
            await anext(left)
            await left.aclose()
            await bifrost.shutdown()
            with pytest.raises(WyrdError) as refused:
                bifrost.insert({"n": 3})
            assert refused.value.member is Code.SDK_409_BIFROST_CLOSED

    async def test_it_takes_the_other_client_as_published_applications_give_it(self, tables: Peer) -> None:
        assert AsyncBifrost is aio.Bifrost
        with WyrdClient(tables.url, KEY) as client:
            bifrost = AsyncBifrost(client=client)
            found = await bifrost.describe_table("vala.datasets", "tickets")
            assert found["entry"]["name"] == "tickets"
            await bifrost.shutdown()

    async def test_a_flush_waits_without_holding_the_loop(
        self, tables: Peer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("wyrd._client.recording._FIRST_PAUSE", 0.001)
        turned, tried = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def rule(one: Seen) -> Answer:
            if turned.is_set():
                return accepted(one)
            loop.call_soon_threadsafe(tried.set)
            return problem(503, "WYRD_SERVER_503_SERVICE_UNAVAILABLE")

        tables.routes["POST", BATCHES] = rule
        async with aio.WyrdClient(tables.url, KEY) as client:
            bifrost = aio.Bifrost(TableConfig(Ticket, TICKETS), client)
            bifrost.insert({"n": 1})
            flushing = asyncio.create_task(bifrost.flush())
            await tried.wait()
            turned.set()
            await flushing
            await bifrost.shutdown()
