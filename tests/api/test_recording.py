"""Recording and querying through our own client, against the real application on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from tests.api.conftest import Person
from tests.servers import free_ports
from wyrd import Bifrost, Cards, TableConfig, WyrdClient, WyrdError, WyrdState, aio
from wyrd.errors import Code
from wyrd.wire.ids import uuid7

DESK = Path(__file__).resolve().parents[2] / "examples" / "support_desk" / "support-desk.yaml"
TICKETS = "vala.datasets.tickets"
DATA = """
apiVersion: wyrd/v1
kind: Data
metadata: {name: approved, version: 1.0.0, space: support}
spec: {interface: {kind: table}}
"""


@pytest.fixture
async def url(app: FastAPI) -> AsyncIterator[str]:
    """Where the application listens."""
    port = free_ports(1)[0]
    config = uvicorn.Config(app, host="127.0.0.1", port=port, lifespan="off", log_level="warning", ws="none")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done()
        await asyncio.sleep(0.005)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await running


def ticket(number: int, **more: Any) -> dict[str, Any]:
    return {"ticket_id": f"T-{number}", "question": "where?", "answer": "there", "refund": False, **more}


@dataclass
class AsDataclass:
    ticket_id: str
    question: str
    answer: str


class AsModel(BaseModel):
    ticket_id: str
    question: str
    answer: str


async def test_rows_of_a_run_carry_its_id_and_card_and_are_those_of_the_moment(
    url: str, admin: Person
) -> None:
    def work() -> None:
        client = WyrdClient(url, admin.key)
        state = WyrdState.declare(DESK, client)
        with pytest.raises(WyrdError) as early:
            state.run("agent").observe.record(TICKETS, ticket(0))
        assert early.value.member is Code.SDK_400_BIFROST_NOT_STARTED
        state.start_bifrost()
        with pytest.raises(WyrdError) as twice:
            state.start_bifrost()
        assert twice.value.member is Code.SDK_409_BIFROST_ALREADY_STARTED
        with state.run("agent") as run:
            row = ticket(1)
            run.observe.record(TICKETS, row)
            row["answer"] = "changed afterwards"
            run.observe.record(TICKETS, AsDataclass("T-2", "q", "a"))
            run.observe.record(TICKETS, AsModel(ticket_id="T-3", question="q", answer="a"))
        state.flush()
        found = Bifrost(client).sql(
            f"SELECT ticket_id, answer, run_id, card_uid FROM {TICKETS} ORDER BY ticket_id"
        )
        rows = found.to_pylist()
        assert [one["ticket_id"] for one in rows] == ["T-1", "T-2", "T-3"]
        assert rows[0]["answer"] == "there"
        assert {one["run_id"] for one in rows} == {run.run_id}
        assert {one["card_uid"] for one in rows} == {state.card("agent").card_ref.uid}
        state.shutdown()
        with pytest.raises(WyrdError) as late:
            run.observe.record(TICKETS, ticket(4))
        assert late.value.member is Code.SDK_409_BIFROST_CLOSED

    await asyncio.to_thread(work)


async def test_what_can_be_known_at_the_call_is_refused_there_and_nothing_is_queued(
    url: str, admin: Person
) -> None:
    def work() -> None:
        client = WyrdClient(url, admin.key)
        state = WyrdState.declare(DESK, client)
        state.start_bifrost()
        observe = state.run("agent").observe
        for table, row in (
            (TICKETS, ticket(1, question=float("nan"))),
            (TICKETS, {1: "x"}),
            (TICKETS, ["no", "row"]),
            ("vala.verification.results", ticket(1)),
            (TICKETS, ticket(1, run_id="x")),
        ):
            with pytest.raises(WyrdError):
                observe.record(table, row)
        state.flush()
        assert Bifrost(client).sql(f"SELECT * FROM {TICKETS}").num_rows == 0
        state.shutdown()

    await asyncio.to_thread(work)


async def test_a_row_that_does_not_fit_is_named_and_the_others_are_stored(url: str, admin: Person) -> None:
    def work() -> None:
        client = WyrdClient(url, admin.key)
        state = WyrdState.declare(DESK, client)
        state.start_bifrost()
        observe = state.run("agent").observe
        for number in range(60):
            observe.record(TICKETS, ticket(number, **({"refund": "perhaps"} if number == 41 else {})))
        with pytest.raises(WyrdError) as told:
            state.flush()
        assert told.value.details["table"] == TICKETS
        assert told.value.details["rows_refused"] == 1
        found = Bifrost(client).sql(f"SELECT ticket_id FROM {TICKETS}").to_pylist()
        assert len(found) == 59
        assert {"ticket_id": "T-41"} not in found
        state.flush()
        state.shutdown()

    await asyncio.to_thread(work)


async def test_a_queue_that_is_full_admits_nothing_of_a_row(url: str, admin: Person) -> None:
    def work() -> None:
        client = WyrdClient(url, admin.key)
        state = WyrdState.declare(DESK, client)
        state.start_bifrost(client_byte_limit_bytes=64 << 10)
        observe = state.run("agent").observe
        with pytest.raises(WyrdError) as full:
            observe.record(TICKETS, ticket(1, answer="x" * (100 << 10)))
        assert full.value.member is Code.CLIENT_429_QUEUE_FULL
        state.flush()
        assert Bifrost(client).sql(f"SELECT * FROM {TICKETS}").num_rows == 0
        state.shutdown()

    await asyncio.to_thread(work)


async def test_tables_are_registered_written_described_and_queried(url: str, admin: Person) -> None:
    class Measure(BaseModel):
        name: str
        value: float

    def work() -> None:
        client = WyrdClient(url, admin.key)
        table = TableConfig(Measure, "vala.datasets.measures")
        bifrost = Bifrost(table, client)
        assert bifrost.register() == "created"
        assert bifrost.register() == "already_exists"
        for number in range(100):
            bifrost.insert(Measure(name=f"m-{number}", value=number / 2))
        bifrost.flush()
        sql = "SELECT name, value FROM vala.datasets.measures WHERE value >= $1 ORDER BY value DESC LIMIT 2"
        assert bifrost.sql(sql, [49.0], model=Measure) == [
            Measure(name="m-99", value=49.5),
            Measure(name="m-98", value=49.0),
        ]
        assert bifrost.sql(sql, [49.0]).to_arrow().column_names == ["name", "value"]
        streamed = sum(batch.num_rows for batch in bifrost.stream("SELECT * FROM vala.datasets.measures"))
        assert streamed == 100
        assert "vala.datasets.measures" in {
            f"{one['namespace']}.{one['name']}" for one in bifrost.list_tables()
        }
        assert bifrost.running() == []
        with pytest.raises(WyrdError) as wrong:
            bifrost.sql("SELECT nothing FROM vala.datasets.measures")
        assert wrong.value.member is Code.VALA_400_QUERY_INVALID_SQL
        assert "line 1, column 8" in wrong.value.detail
        with pytest.raises(WyrdError) as unknown:
            bifrost.sql("SELECT * FROM vala.datasets.nowhere")
        assert unknown.value.member is Code.VALA_404_BIFROST_TABLE_NOT_FOUND
        bifrost.shutdown()

    await asyncio.to_thread(work)


async def test_the_async_client_records_and_queries_alike(url: str, admin: Person) -> None:
    async with aio.WyrdClient(url, admin.key) as client:
        state = await aio.WyrdState.declare(DESK, client)
        await state.start_bifrost()
        run = state.run("agent")
        run.observe.record(TICKETS, ticket(1))
        await state.flush()
        bifrost = aio.Bifrost(client)
        found = await bifrost.sql(f"SELECT run_id FROM {TICKETS}")
        assert found.to_pylist() == [{"run_id": run.run_id}]
        await state.shutdown()


async def test_a_declaration_brings_the_files_of_its_cards_once(
    url: str, admin: Person, tmp_path: Path
) -> None:
    def work() -> None:
        card, data = tmp_path / "approved.yaml", tmp_path / "answers.csv"
        card.write_text(DATA, encoding="utf-8")
        data.write_text("words\n1\n2\n", encoding="utf-8")
        cards = Cards(WyrdClient(url, admin.key))
        files = {"support/Data/approved": data}
        first = cards.declare(card, files=files)
        assert [(one.outcome.value, one.status.value) for one in first.outcomes] == [("declared", "active")]
        again = cards.declare(card, files=files)
        assert again.root == first.root
        assert again.outcomes[0].outcome.value != "declared"
        for given, code in (
            ({"support/Data/other": data}, Code.SPEC_400_VALIDATION),
            ({"support/Data/approved": tmp_path / "nowhere.csv"}, Code.LOADER_400_IO),
        ):
            with pytest.raises(WyrdError) as refused:
                cards.declare(card, files=given)
            assert refused.value.member is code
        pulled = tmp_path / f"pulled-{uuid7()}"
        cards.pull(first.root, pulled)
        assert [path.read_bytes() for path in pulled.rglob("answers.csv")] == [data.read_bytes()]

    await asyncio.to_thread(work)
