"""Tables that a Service declares are registered with it, or nothing is declared."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from api.services import Services
from bifrost.names import TableName
from bifrost.tables import Tables
from tests.api.conftest import Person
from tests.api.test_bifrost_routes import SEED, TABLES, TICKETS, problem
from wyrd import cards as language
from wyrd.wire.ids import uuid7


def service(version: str, *tables: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "wyrd/v1",
        "kind": "Service",
        "metadata": {"name": "support-desk", "space": "support", "version": version},
        "spec": {"components": [], "tables": list(tables)},
    }


def table(name: str = "tickets", *required: str, **properties: Any) -> dict[str, Any]:
    return {
        "name": name,
        "schema": {"type": "object", "properties": properties, "required": list(required)},
    }


TEXT = {"type": "string"}


async def declare(client: httpx.AsyncClient, who: Person, *submissions: Any) -> httpx.Response:
    headers = {**who.headers, "idempotency-key": f"key-{uuid7()}"}
    return await client.post("/v1/cards", json={"submissions": list(submissions)}, headers=headers)


async def columns(services: Services, who: Person, name: TableName = TICKETS) -> list[tuple[str, bool]]:
    found = await services.database.read(lambda connection: Tables(connection, who.tenant).find(name))
    return [(field.name, field.nullable) for field in found.fields]


async def test_the_tables_of_a_service_are_registered_with_it(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    asked = service(
        "1.0.0", table("tickets", "question", question=TEXT, answer=TEXT), table("visits", who=TEXT)
    )
    assert (await declare(client, admin, asked)).status_code == 200
    assert await columns(services, admin) == [("question", False), ("answer", True)]
    assert await columns(services, admin, TableName("vala.datasets", "visits")) == [("who", True)]


async def test_a_new_version_lets_a_table_grow_and_an_old_one_leaves_it_alone(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    first = service("1.0.0", table("tickets", "question", question=TEXT))
    second = service("1.1.0", table("tickets", "question", question=TEXT, refund={"type": "boolean"}))
    for asked in (first, second, first, second):
        answer = await declare(client, admin, asked)
        assert answer.status_code == 200, answer.text
    assert await columns(services, admin) == [("question", False), ("refund", True)]


async def test_a_version_that_changes_a_table_otherwise_declares_nothing(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    await declare(client, admin, service("1.0.0", table("tickets", "question", question=TEXT)))
    changed = service(
        "2.0.0", table("visits", who=TEXT), table("tickets", "question", question={"type": "integer"})
    )
    answer = await declare(client, admin, changed)
    details = problem(answer, 409, "WYRD_VALA_409_BIFROST_FINGERPRINT_MISMATCH")
    assert details["data"] == {"table": "vala.datasets.tickets"}
    for path in ("/v1/cards/Service/support/support-desk/latest", f"{TABLES}/datasets/visits"):
        told = await client.get(path, headers=admin.headers)
        assert told.status_code == 404 or told.json()["card"]["metadata"]["version"] == "1.0.0"
    assert (await client.get(f"{TABLES}/datasets/visits", headers=admin.headers)).status_code == 404


@pytest.mark.parametrize(
    ("tables", "place"),
    [
        ([table("Tickets", question=TEXT)], "submissions[0].tables[0].name"),
        ([table("visits", who=TEXT), table("visits", who=TEXT)], "submissions[0].tables[1].name"),
        ([table("tickets", run_id=TEXT)], "submissions[0].tables[0].schema.properties.run_id"),
        ([table("tickets", wyrd_score=TEXT)], "submissions[0].tables[0].schema.properties.wyrd_score"),
        ([table("tickets", Question=TEXT)], "submissions[0].tables[0].schema"),
        ([{"name": "tickets", "schema": {"type": "string"}}], "submissions[0].tables[0].schema"),
        (
            [{"name": "tickets", "schema": {"type": "object", "properties": {"x": {"type": "text"}}}}],
            "submissions[0].tables[0].schema",
        ),
        (
            [
                table("visits", who=TEXT),
                {"name": "tickets", "schema": {"type": "object", "properties": {"x": {"$ref": "#"}}}},
            ],
            "submissions[0].tables[1].schema",
        ),
    ],
    ids=lambda one: str(one)[:40],
)
async def test_a_table_that_cannot_be_is_refused_with_its_place(
    client: httpx.AsyncClient, services: Services, admin: Person, tables: list[Any], place: str
) -> None:
    details = problem(
        await declare(client, admin, service("1.0.0", *tables)), 400, "WYRD_REGISTRY_400_INVALID_CARD_SPEC"
    )
    assert place in details["field"]
    listed = (await client.get(TABLES, headers=admin.headers)).json()
    assert all(one["namespace"] != "vala.datasets" for one in listed)


async def test_the_second_pages_row_does_not_fit_the_first_pages_table(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    """The seed's first page declares `tickets` without two columns that its second page writes."""
    submissions = language.load(SEED / "support-desk.yaml").submissions()
    answer = await declare(client, admin, *submissions)
    assert answer.status_code == 200, answer.text
    uids = {one["card_ref"]["kind"]: one["card_ref"]["uid"] for one in answer.json()["outcomes"]}
    row = {"ticket_id": "t-1", "question": "Refund?", "answer": "Of course.", "refund": True}
    correlated = {"card_uid": uids["Agent"], "run_id": uuid7()}
    path = f"{TABLES}/vala.datasets/tickets/batches"
    refused = await client.post(
        path, json={"batch_id": uuid7(), "rows": [{**row, **correlated}]}, headers=admin.headers
    )
    details = problem(refused, 400, "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD")
    assert details["data"] == {"field": "ticket_id", "row": 0}
    fits = {name: row[name] for name in ("question", "answer")}
    taken = await client.post(
        path, json={"batch_id": uuid7(), "rows": [{**fits, **correlated}]}, headers=admin.headers
    )
    assert taken.status_code == 200, taken.text
