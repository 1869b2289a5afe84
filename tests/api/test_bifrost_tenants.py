"""P58 over Bifrost: two tenants with the same names and ids never meet, on any door."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import pyarrow as pa
import pytest

from api.services import Services
from store.caller import Role
from tests.api.conftest import Person, person
from wyrd.wire.ids import uuid7

TABLE = {
    "namespace": "datasets",
    "name": "tickets",
    "fields": [
        {"name": "ticket_id", "data_type": "Utf8", "nullable": False},
        {"name": "answer", "data_type": "Utf8", "nullable": True},
    ],
}
BATCHES = "/v1/bifrost/tables/datasets/tickets/batches"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
RUN = uuid7()
BATCH = uuid7()


async def query(client: httpx.AsyncClient, who: Person, sql: str, *params: Any) -> list[list[Any]]:
    headers = {**who.headers, "accept": "application/json"}
    answer = await client.post("/v1/query", json={"sql": sql, "params": list(params)}, headers=headers)
    assert answer.status_code == 200, answer.text
    rows: list[list[Any]] = answer.json()["rows"]
    return rows


async def tool(client: httpx.AsyncClient, who: Person, name: str, arguments: dict[str, Any]) -> str:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }
    headers = {**who.headers, "accept": "application/json, text/event-stream"}
    answer = await client.post("/mcp", json=message, headers=headers)
    return answer.text


def exported(name: str, **attributes: str) -> dict[str, Any]:
    told = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [*told, {"key": "wyrd.run_id", "value": {"stringValue": RUN}}],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


async def filled(client: httpx.AsyncClient, who: Person, word: str) -> None:
    """A table, a batch and a span, under names and ids that both tenants use."""
    made = await client.post("/v1/bifrost/tables", json=TABLE, headers=who.headers)
    assert made.status_code in (200, 201), made.text
    row = {"ticket_id": "T-1", "answer": f"{word} answer", "run_id": RUN}
    sent = await client.post(BATCHES, json={"batch_id": BATCH, "rows": [row]}, headers=who.headers)
    assert (sent.status_code, sent.json()["duplicate"]) == (200, False), sent.text
    spans = await client.post("/v1/traces", json=exported(f"{word} span"), headers=who.headers)
    assert spans.status_code == 200, spans.text


async def test_p58_the_same_names_and_ids_are_two_things_in_two_tenants(
    client: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    for who, word in ((admin, "ours"), (rival, "theirs")):
        await filled(client, who, word)
    for who, word, other in ((admin, "ours", "theirs"), (rival, "theirs", "ours")):
        tickets = await query(client, who, "SELECT * FROM vala.datasets.tickets WHERE run_id = $1", RUN)
        assert len(tickets) == 1
        spans = await query(client, who, "SELECT name FROM vala.traces.spans WHERE trace_id = $1", TRACE)
        assert spans == [[f"{word} span"]]
        told = [
            json.dumps([tickets, spans]),
            await tool(client, who, "bifrost.query", {"sql": "SELECT * FROM vala.datasets.tickets"}),
            await tool(client, who, "bifrost.list_tables", {}),
            await tool(client, who, "bifrost.describe_table", {"namespace": "datasets", "name": "tickets"}),
        ]
        assert any(word in text for text in told)
        assert not any(other in text for text in told)


async def test_p58_a_table_of_one_tenant_does_not_exist_for_another(
    client: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    await filled(client, admin, "ours")
    read = await client.get("/v1/bifrost/tables/datasets/tickets", headers=rival.headers)
    assert (read.status_code, read.json()["code"]) == (404, "WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND")
    batch = {"batch_id": BATCH, "rows": [{"ticket_id": "x"}]}
    sent = await client.post(BATCHES, json=batch, headers=rival.headers)
    assert (sent.status_code, sent.json()["code"]) == (404, "WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND")
    listed = await client.get("/v1/bifrost/tables", headers=rival.headers)
    assert "tickets" not in listed.text
    sql = {"sql": "SELECT * FROM vala.datasets.tickets"}
    asked = await client.post("/v1/query", json=sql, headers={**rival.headers, "accept": "application/json"})
    assert (asked.status_code, asked.json()["code"]) == (404, "WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND")
    assert "ours" not in asked.text
    # The control: it is there for whom it belongs to.
    assert len(await query(client, admin, "SELECT * FROM vala.datasets.tickets")) == 1
    assert await query(client, rival, "SELECT * FROM vala.traces.spans") == []


@pytest.mark.parametrize("role", [Role.VIEWER])
async def test_who_may_read_may_not_record(
    client: httpx.AsyncClient, services: Services, admin: Person, role: Role
) -> None:
    await filled(client, admin, "ours")
    viewer = await person(services, "acme", "vic", role)
    assert len(await query(client, viewer, "SELECT * FROM vala.datasets.tickets")) == 1
    row = {"batch_id": uuid7(), "rows": [{"ticket_id": "x"}]}
    refused = [
        await client.post(BATCHES, json=row, headers=viewer.headers),
        await client.post(
            BATCHES,
            params={"batch_id": uuid7()},
            content=_arrow(),
            headers={**viewer.headers, "content-type": "application/vnd.apache.arrow.stream"},
        ),
        await client.post("/v1/traces", json=exported("x"), headers=viewer.headers),
        await client.post("/v1/bifrost/tables", json={**TABLE, "name": "other"}, headers=viewer.headers),
        await client.patch(
            "/v1/bifrost/tables/datasets/tickets", json={"retention_days": 3}, headers=viewer.headers
        ),
    ]
    assert {answer.status_code for answer in refused} == {403}
    assert len(await query(client, admin, "SELECT * FROM vala.datasets.tickets")) == 1


async def test_an_observation_about_a_card_of_another_tenant_is_refused_on_every_door(
    client: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    await filled(client, admin, "ours")
    await filled(client, rival, "theirs")
    foreign = await _declared(client, rival)
    row = {"ticket_id": "x", "card_uid": foreign}
    good = {"ticket_id": "y"}
    doors = [
        await client.post(BATCHES, json={"batch_id": uuid7(), "rows": [good, row]}, headers=admin.headers),
        await client.post(
            BATCHES,
            params={"batch_id": uuid7()},
            content=_arrow(card_uid=foreign),
            headers={**admin.headers, "content-type": "application/vnd.apache.arrow.stream"},
        ),
        await client.post(
            "/v1/traces", json=exported("x", **{"wyrd.card_uid": foreign}), headers=admin.headers
        ),
    ]
    for answer in doors:
        assert (answer.status_code, answer.json()["code"]) == (403, "WYRD_VALA_403_BIFROST_CARD_SCOPE")
    # The whole batch was refused, and the same Card is fine where it belongs.
    assert await query(client, admin, "SELECT ticket_id FROM vala.datasets.tickets") == [["T-1"]]
    own = {"batch_id": uuid7(), "rows": [row]}
    assert (await client.post(BATCHES, json=own, headers=rival.headers)).status_code == 200


async def _declared(client: httpx.AsyncClient, who: Person) -> str:
    prompt = {"provider": "openai", "model": "m", "messages": [{"role": "user", "content": "hi"}]}
    metadata = {"name": "hello", "version": "1.0.0", "space": "tests"}
    card = {"apiVersion": "wyrd/v1", "kind": "Prompt", "metadata": metadata, "spec": prompt, "artifacts": []}
    answer = await client.post(
        "/v1/cards",
        json={"submissions": [card]},
        headers={**who.headers, "idempotency-key": f"declare-{uuid7()}"},
    )
    assert answer.status_code == 200, answer.text
    uid: str = answer.json()["root"]["uid"]
    return uid


def _arrow(**more: str) -> bytes:
    batch = pa.record_batch({"ticket_id": ["x"], **{name: [value] for name, value in more.items()}})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
