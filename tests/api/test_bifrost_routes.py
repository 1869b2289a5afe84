"""`/v1/bifrost/tables`: registering, describing and keeping tables, and recording batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI

from api.services import Services
from bifrost.names import TableName
from bifrost.scribe.arrow_stream import written_stream
from store.caller import Role
from store.outbox import Batch, Outbox
from tests.api.conftest import Person, person
from tests.api.routes_of import doors
from wyrd.errors import Code
from wyrd.wire.ids import uuid7

TABLES = "/v1/bifrost/tables"
TICKETS = TableName("vala.datasets", "tickets")
FIELDS: list[dict[str, Any]] = [
    {"name": "question", "data_type": "Utf8"},
    {"name": "score", "data_type": "Float64", "nullable": True},
    {"name": "details", "data_type": "Variant", "nullable": True},
    {
        "name": "tags",
        "data_type": {"List": {"name": "item", "data_type": "Utf8", "nullable": False}},
        "nullable": True,
    },
]
ROW = {"question": "Where is my parcel?", "score": 0.5, "details": {"a": [1]}, "tags": ["late"]}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
SEED = Path(__file__).parents[1] / "cards_language" / "seed"


@pytest.fixture
async def registered(client: httpx.AsyncClient, admin: Person) -> dict[str, Any]:
    """The table of tickets, as its registration was answered."""
    answer = await client.post(TABLES, json=tickets(), headers=admin.headers)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def tickets(*more: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"namespace": "datasets", "name": "tickets", "fields": [*FIELDS, *more], **options}


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The details of a refusal with that status and code."""
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    details: dict[str, Any] = answer.json()["details"]
    return details


async def stored(services: Services, who: Person, table: TableName = TICKETS) -> list[Batch]:
    return await services.database.read(lambda connection: Outbox(connection, who.tenant).pending(table.full))


async def test_a_table_is_described_in_the_published_shape(
    client: httpx.AsyncClient, admin: Person, registered: dict[str, Any]
) -> None:
    assert set(registered) == {"outcome", "table_uid", "fingerprint"}
    for namespace in ("datasets", "vala.datasets"):
        answer = await client.get(f"{TABLES}/{namespace}/tickets", headers=admin.headers)
        assert answer.status_code == 200
        told = answer.json()
        entry = told.pop("entry")
        assert entry.pop("registered_at") == entry.pop("updated_at")
        assert entry == {
            "namespace": "vala.datasets",
            "name": "tickets",
            "table_uid": registered["table_uid"],
            "status": "Active",
            "fingerprint": registered["fingerprint"],
        }
        assert told == {
            "user_fields": [field | {"nullable": field.get("nullable", False)} for field in FIELDS],
            "correlation_fields": [
                {"name": name, "data_type": "Utf8", "nullable": True} for name in ("card_uid", "run_id")
            ],
            "physical_layout": {"partition_granularity": "day", "sort_keys": [], "bloom_columns": []},
        }


async def test_registering_again_answers_the_table_that_is_there(
    client: httpx.AsyncClient, admin: Person, registered: dict[str, Any]
) -> None:
    again = await client.post(TABLES, json=tickets(), headers=admin.headers)
    assert (again.status_code, again.json()) == (200, {**registered, "outcome": "AlreadyExists"})
    grown = tickets({"name": "refund", "data_type": "Bool", "nullable": True})
    assert (await client.post(TABLES, json=grown, headers=admin.headers)).status_code == 200
    answer = await client.post(TABLES, json=tickets(), headers=admin.headers)
    details = problem(answer, 409, "WYRD_VALA_409_BIFROST_FINGERPRINT_MISMATCH")
    assert details == {"variant": "fingerprint_mismatch", "data": {"table": "vala.datasets.tickets"}}


async def test_the_list_holds_the_built_in_tables_too(
    client: httpx.AsyncClient, admin: Person, registered: dict[str, Any]
) -> None:
    listed = (await client.get(TABLES, headers=admin.headers)).json()
    assert [f"{one['namespace']}.{one['name']}" for one in listed] == [
        "vala.datasets.tickets",
        "vala.drift.observations",
        "vala.logs.records",
        "vala.metrics.points",
        "vala.traces.spans",
        "vala.verification.execution_inputs",
        "vala.verification.results",
    ]
    assert {frozenset(one) for one in listed} == {
        frozenset(["namespace", "name", "table_uid", "status", "fingerprint", "registered_at", "updated_at"])
    }


async def test_the_observations_are_described_as_clients_insist(
    client: httpx.AsyncClient, admin: Person
) -> None:
    told = (await client.get(f"{TABLES}/vala.drift/observations", headers=admin.headers)).json()
    stamp = {"Timestamp": {"unit": "Microsecond", "tz": "+00:00"}}
    assert [(one["name"], one["data_type"], one["nullable"]) for one in told["user_fields"]] == [
        ("record_id", "Utf8", False),
        ("series", "Utf8", False),
        ("num_value", "Float64", True),
        ("str_value", "Utf8", True),
        ("session_id", "Utf8", True),
        ("created_at", stamp, False),
    ]


@pytest.mark.parametrize(
    "path", ["datasets/missing", "vala.drift/tickets", "vala/x", "a.b.c/d", "datasets/Tickets"]
)
async def test_an_unknown_table_is_told_with_its_name(
    client: httpx.AsyncClient, admin: Person, path: str
) -> None:
    body = {"batch_id": uuid7(), "rows": [{"x": 1}]}
    for answer in (
        await client.get(f"{TABLES}/{path}", headers=admin.headers),
        await client.patch(f"{TABLES}/{path}", json={"retention_days": 5}, headers=admin.headers),
        await client.post(f"{TABLES}/{path}/batches", json=body, headers=admin.headers),
    ):
        details = problem(answer, 404, "WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND")
        assert details["variant"] == "table_not_found"
        assert details["data"]["table"].endswith(path.replace("/", "."))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"namespace": "vala.traces"}, "WYRD_VALA_403_BIFROST_RESERVED_BUILTIN_WRITE"),
        ({"name": "Tickets"}, "WYRD_VALA_400_SCHEMA_PARSE"),
        ({"fields": []}, "WYRD_VALA_400_SCHEMA_PARSE"),
        ({"fields": [{"name": "run_id", "data_type": "Utf8"}]}, "WYRD_VALA_400_BIFROST_RESERVED_COLUMN"),
        ({"fields": [{"name": "x", "data_type": "UInt64"}]}, "WYRD_VALA_400_BIFROST_UNSUPPORTED_TYPE"),
        ({"fields": [{"name": "x", "data_type": "Text"}]}, "WYRD_VALA_400_SCHEMA_PARSE"),
        ({"fields": [{"name": "x", "data_type": {"List": {}}}]}, "WYRD_VALA_400_SCHEMA_PARSE"),
        ({"fields": "x"}, "WYRD_VALA_400_SCHEMA_PARSE"),
        ({"compaction_target_file_size_bytes": 1}, "WYRD_VALA_400_BIFROST_INVALID_COMPACTION_TARGET"),
        ({"compaction_type": "never"}, "WYRD_SPEC_400_VALIDATION"),
        ({"name": None}, "WYRD_SPEC_400_VALIDATION"),
    ],
)
async def test_what_cannot_be_registered_is_refused_by_its_code(
    client: httpx.AsyncClient, admin: Person, body: dict[str, Any], code: str
) -> None:
    answer = await client.post(TABLES, json={**tickets(), **body}, headers=admin.headers)
    details = problem(answer, int(code.split("_")[2]), code)
    assert "field" in details if code == "WYRD_SPEC_400_VALIDATION" else set(details) == {"variant", "data"}
    if code == "WYRD_VALA_400_SCHEMA_PARSE":
        assert list(details["data"]) == ["detail"]
    assert (await client.get(f"{TABLES}/datasets/tickets", headers=admin.headers)).status_code == 404


async def test_who_may_do_what_with_tables(
    client: httpx.AsyncClient, services: Services, registered: dict[str, Any]
) -> None:
    people = {role: await person(services, "acme", f"one-{role}", role) for role in Role}
    new = {**tickets(), "name": "other"}

    async def codes(role: Role) -> list[int]:
        headers = people[role].headers
        batch = {"batch_id": uuid7(), "rows": [ROW]}
        answers = [
            await client.get(TABLES, headers=headers),
            await client.get(f"{TABLES}/datasets/tickets", headers=headers),
            await client.post(f"{TABLES}/datasets/tickets/batches", json=batch, headers=headers),
            await client.post(TABLES, json=new, headers=headers),
            await client.patch(f"{TABLES}/datasets/tickets", json={"retention_days": 30}, headers=headers),
        ]
        return [answer.status_code for answer in answers]

    assert await codes(Role.VIEWER) == [200, 200, 403, 403, 403]
    assert await codes(Role.SERVICE) == [200, 200, 200, 403, 403]
    assert await codes(Role.EDITOR) == [200, 200, 200, 201, 403]
    assert await codes(Role.ADMIN) == [200, 200, 200, 200, 200]


async def test_an_administrator_sets_how_long_rows_are_kept(
    client: httpx.AsyncClient, admin: Person, registered: dict[str, Any]
) -> None:
    path = f"{TABLES}/datasets/tickets"
    kept = await client.patch(path, json={"retention_days": 30}, headers=admin.headers)
    assert (kept.status_code, kept.json()["retention_days"]) == (200, 30)
    assert (await client.get(path, headers=admin.headers)).json() == kept.json()
    for_ever = await client.patch(path, json={"retention_days": None}, headers=admin.headers)
    assert "retention_days" not in for_ever.json()
    for body in ({}, {"retention_days": 0}, {"retention_days": True}, {"retention_days": 1.5}, {"days": 3}):
        problem(
            await client.patch(path, json=body, headers=admin.headers), 400, Code.SPEC_400_VALIDATION.value
        )
    results = f"{TABLES}/vala.verification/results"
    problem(
        await client.patch(results, json={"retention_days": 364}, headers=admin.headers),
        400,
        Code.SPEC_400_VALIDATION.value,
    )


async def test_json_rows_are_stored_and_a_repeat_is_told(
    client: httpx.AsyncClient, services: Services, admin: Person, registered: dict[str, Any]
) -> None:
    batch = {"batch_id": uuid7(), "rows": [ROW, {"question": "And now?", "run_id": uuid7()}]}
    path = f"{TABLES}/datasets/tickets/batches"
    request_id = uuid7()
    headers = {**admin.headers, "wyrd-request-id": request_id}
    answers = [await client.post(path, json=batch, headers=headers) for _ in range(2)]
    assert [answer.json() for answer in answers] == [
        {"batch_id": batch["batch_id"], "rows": 2, "duplicate": duplicate} for duplicate in (False, True)
    ]
    (found,) = await stored(services, admin)
    assert json.loads(found.payload) == batch["rows"]
    assert (found.principal_id, found.request_id) == (admin.principal_id, request_id)


@pytest.mark.parametrize("where", ["query", "header"])
async def test_an_arrow_stream_is_stored(
    client: httpx.AsyncClient, services: Services, admin: Person, registered: dict[str, Any], where: str
) -> None:
    batch_id = uuid7()
    stream = written_stream(pa.RecordBatch.from_pydict({"question": ["a", "b"]}))
    answer = await client.post(
        f"{TABLES}/vala.datasets/tickets/batches",
        content=stream,
        params={"batch_id": batch_id} if where == "query" else {},
        headers={**admin.headers, **ARROW, **({"wyrd-batch-id": batch_id} if where == "header" else {})},
    )
    assert answer.json() == {"batch_id": batch_id, "rows": 2, "duplicate": False}
    assert [batch.batch_id for batch in await stored(services, admin)] == [batch_id]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def details(value: str) -> str:
    """A body whose one row has that JSON in its free-form column."""
    return '{"batch_id": "BATCH", "rows": [{"question": "a", "details": ' + value + "}]}"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            '{"batch_id": "BATCH", "rows": [{"question": "a", "refund": 1}]}',
            "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD",
        ),
        ('{"batch_id": "BATCH", "rows": [{"question": 1}]}', "WYRD_SPEC_400_VALIDATION"),
        ('{"batch_id": "BATCH", "rows": [{"score": 1}]}', "WYRD_SPEC_400_VALIDATION"),
        ('{"batch_id": "BATCH", "rows": [{"question": "a", "score": NaN}]}', "WYRD_SPEC_400_VALIDATION"),
        ('{"batch_id": "BATCH", "rows": [{"question": "a", "score": 1e999}]}', "WYRD_SPEC_400_VALIDATION"),
        ('{"batch_id": "BATCH", "rows": [{"question": "a", "question": "b"}]}', "WYRD_SPEC_400_VALIDATION"),
        ('{"batch_id": "BATCH", "rows": [{"question": "\\ud800"}]}', "WYRD_SPEC_400_VALIDATION"),
        ('{"batch_id": "BATCH", "rows": []}', "WYRD_SPEC_400_VALIDATION"),
        ('{"batch_id": "BATCH", "rows": ["a"]}', "WYRD_SPEC_400_VALIDATION"),
        ('{"batch_id": "x", "rows": [{"question": "a"}]}', "WYRD_SPEC_400_VALIDATION"),
        ('{"rows": [{"question": "a"}]}', "WYRD_SPEC_400_VALIDATION"),
        ("", "WYRD_SPEC_400_VALIDATION"),
        ("{", "WYRD_SPEC_400_VALIDATION"),
        (
            details(nested(65)),
            "WYRD_VALA_400_VARIANT_TOO_DEEP",
        ),
        (
            details(nested(20_000)),
            "WYRD_SPEC_400_VALIDATION",
        ),
    ],
    ids=lambda one: one[:60],
)
async def test_a_bad_body_is_refused_and_nothing_is_stored(
    client: httpx.AsyncClient,
    services: Services,
    admin: Person,
    registered: dict[str, Any],
    body: str,
    code: str,
) -> None:
    answer = await client.post(
        f"{TABLES}/datasets/tickets/batches",
        content=body.replace("BATCH", uuid7()),
        headers={**admin.headers, "content-type": "application/json"},
    )
    told = problem(answer, 400, code)
    assert "data" in told or "reason" in told or "field" in told
    assert await stored(services, admin) == []


async def test_a_value_may_be_nested_as_deeply_as_a_variant_may(
    client: httpx.AsyncClient, services: Services, admin: Person, registered: dict[str, Any]
) -> None:
    body = details(nested(64)).replace("BATCH", uuid7())
    headers = {**admin.headers, "content-type": "application/json"}
    answer = await client.post(f"{TABLES}/datasets/tickets/batches", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert len(await stored(services, admin)) == 1


async def test_a_bad_stream_is_refused_and_nothing_is_stored(
    client: httpx.AsyncClient, services: Services, admin: Person, registered: dict[str, Any]
) -> None:
    path = f"{TABLES}/datasets/tickets/batches"
    good = written_stream(pa.RecordBatch.from_pydict({"question": ["a"]}))
    for content, params, code in (
        (b"not arrow", {"batch_id": uuid7()}, "WYRD_VALA_400_INGEST_PROTO"),
        (b"", {"batch_id": uuid7()}, "WYRD_VALA_400_INGEST_PROTO"),
        (good, {"batch_id": "x"}, "WYRD_SPEC_400_VALIDATION"),
        (good, {}, "WYRD_SPEC_400_VALIDATION"),
    ):
        answer = await client.post(path, content=content, params=params, headers={**admin.headers, **ARROW})
        problem(answer, 400, code)
    assert await stored(services, admin) == []


async def test_only_json_and_arrow_are_taken(
    client: httpx.AsyncClient, admin: Person, registered: dict[str, Any]
) -> None:
    headers = {**admin.headers, "content-type": "text/csv"}
    answer = await client.post(f"{TABLES}/datasets/tickets/batches", content=b"question\na", headers=headers)
    assert problem(answer, 400, "WYRD_SPEC_400_VALIDATION")["field"] == "content-type"


async def test_p58_another_tenant_has_neither_the_table_nor_its_batches(
    client: httpx.AsyncClient,
    services: Services,
    admin: Person,
    rival: Person,
    registered: dict[str, Any],
) -> None:
    path, batch = f"{TABLES}/datasets/tickets", {"batch_id": uuid7(), "rows": [ROW]}
    assert (await client.get(path, headers=rival.headers)).status_code == 404
    assert (await client.post(f"{path}/batches", json=batch, headers=rival.headers)).status_code == 404
    listed = await client.get(TABLES, headers=rival.headers)
    assert registered["table_uid"] not in listed.text
    assert "tickets" not in listed.text
    made = await client.post(TABLES, json=tickets(), headers=rival.headers)
    assert (made.status_code, made.json()["fingerprint"]) == (201, registered["fingerprint"])
    for who in (admin, rival):
        answer = await client.post(f"{path}/batches", json=batch, headers=who.headers)
        assert answer.json()["duplicate"] is False
        assert [one.batch_id for one in await stored(services, who)] == [batch["batch_id"]]


async def test_every_route_asks_for_a_credential_before_the_body(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    routes = [door for door in doors(app) if door.path.startswith(TABLES)]
    assert len(routes) == 5
    for door in routes:
        path = door.path.replace("{namespace}", "datasets").replace("{name}", "tickets")
        for headers in ({"content-type": "application/json"}, ARROW):
            answer = await client.request(door.method, path, content=b"{ no", headers=headers)
            assert answer.status_code == 401, str(door)
