"""A walk over the application's own route table: no door is open that should not be (P58).

A new route is covered by being in the table. What it needs from here is at most a line in
`OPEN`, when it is meant for everybody, or a value for a new kind of path parameter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection

from activities.temporal import connect, ensure_search_attributes
from api.services import Services
from api.verification import Verification
from store.tables.metadata import metadata
from tests.api.conftest import Person
from tests.api.routes_of import Door, doors
from wyrd.errors import Code
from wyrd.wire.ids import uuid7

OPEN = {
    "POST /auth/token",
    "GET /healthz",
    "GET /readyz",
    "GET /docs",
}
"""Meant for callers without a credential."""

SAME_FOR_ALL = {"GET /v1/cards/schemas/{kind}"}
"""Answer nothing that belongs to a tenant."""


def filled(path: str, values: Mapping[str, str]) -> str:
    """The path with its parameters filled in; a `defaultdict` has a value for each."""

    def value(found: re.Match[str]) -> str:
        return values[found.group(1)]

    return re.sub(r"\{(\w+)(?::\w+)?\}", value, path)


async def knocked(
    client: httpx.AsyncClient, door: Door, path: str, headers: dict[str, str]
) -> httpx.Response:
    sent = {**headers, "idempotency-key": f"walk-{uuid7()}"}
    if door.method in ("POST", "PUT", "PATCH"):
        return await client.request(door.method, path, headers=sent, json={})
    return await client.request(door.method, path, headers=sent)


def is_problem(answer: httpx.Response) -> bool:
    return bool(answer.headers.get("content-type") == "application/problem+json")


async def test_p58_every_route_but_the_open_ones_answers_401_without_a_credential(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    table = doors(app)
    assert len(table) >= 16
    let_in = []
    for door in table:
        answer = await knocked(client, door, filled(door.path, defaultdict(uuid7)), {})
        if (answer.status_code == 401) is (str(door) in OPEN):
            let_in.append((str(door), answer.status_code, answer.text[:200]))
        elif answer.status_code == 401:
            assert is_problem(answer), door
            assert answer.json()["code"] == Code.AUTH_401_UNAUTHENTICATED.value, door
    assert let_in == []


async def test_p58_a_body_is_not_looked_at_before_the_credential_is(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    for door in doors(app):
        if str(door) in OPEN or door.method not in ("POST", "PUT", "PATCH"):
            continue
        path, headers = filled(door.path, defaultdict(uuid7)), {"content-type": "application/json"}
        answer = await client.request(door.method, path, headers=headers, content=b"{ not json")
        assert answer.status_code == 401, (str(door), answer.text[:200])


async def test_p58_every_open_route_is_in_the_table(app: FastAPI) -> None:
    assert {str(door) for door in doors(app)} >= OPEN


@pytest.fixture
async def connected(
    services: Services, client: httpx.AsyncClient, temporal_address: str
) -> httpx.AsyncClient:
    """The client of an application that verifies and submits, with a real Temporal server.

    The application's own lifespan closes what is opened here.
    """
    settings = services.settings.model_copy(update={"temporal_address": temporal_address})
    services.temporal = await connect(settings)
    await ensure_search_attributes(services.temporal)
    verification = Verification.build(
        settings, services.database, services.blobs, services.temporal, services.bifrost.cuts
    )
    await verification.open()
    await verification.workshop.get()
    services.verifying = verification
    return client


async def test_p58_no_route_answers_with_another_tenants_rows(
    app: FastAPI, services: Services, connected: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    """Every id of A's, tried by B in every path parameter: 404, or a refusal of the request."""
    await filled_tenant(connected, services, admin)
    places = await everything_of(services, admin)
    told, answered_to_owner = [], set()
    for door in doors(app):
        if str(door) in OPEN | SAME_FOR_ALL or "{" not in door.path:
            continue
        for place in places:
            path = filled(door.path, place)
            answer = await knocked(connected, door, path, rival.headers)
            if not (is_problem(answer) and answer.status_code in (400, 401, 404, 405)):
                told.append((str(door), path, answer.status_code, answer.text[:200]))
            assert admin.tenant.id not in answer.text
            if door.method == "GET":
                owner = await knocked(connected, door, path, admin.headers)
                if owner.status_code == 200:
                    answered_to_owner.add(str(door))
                    assert answer.status_code == 404, (str(door), path)
    assert told == []
    # What the walk would find if a predicate were missing: these doors do open for the owner.
    assert answered_to_owner >= {
        "GET /v1/cards/by-uid/{kind}/{uid}",
        "GET /v1/cards/{kind}/{space}/{name}/latest",
        "GET /v1/cards/{uid}/artifacts",
        "GET /v1/principals/{principal_id}/roles",
        "GET /v1/principals/{principal_id}/credentials",
        "GET /v1/verification/executions/{execution_id}",
        "GET /v1/operator-connections/{connection_id}",
    }


async def test_p58_no_list_shows_another_tenants_rows(
    app: FastAPI, services: Services, connected: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    await filled_tenant(connected, services, admin)
    places = await everything_of(services, admin)
    ids = {place.ident for place in places}
    listed = 0
    for door in doors(app):
        if str(door) in OPEN or "{" in door.path or door.method != "GET":
            continue
        theirs = await knocked(connected, door, door.path, rival.headers)
        leaked = [ident for ident in ids if ident in theirs.text]
        assert leaked == [], (str(door), leaked)
        own = await knocked(connected, door, door.path, admin.headers)
        listed += any(ident in own.text for ident in ids)
    assert listed >= 3


async def test_p58_ids_in_bodies_do_not_reach_another_tenants_cards(
    services: Services, connected: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    held = await filled_tenant(connected, services, admin)
    asked = {"verifier_card_uid": held.verifier, "card_uid": held.subject, "inputs": held.inputs}
    key = {"idempotency-key": held.idempotency_key}
    for door, body, code in (
        ("/v1/verification/execute", asked, Code.VERIFICATION_404_TARGET_NOT_FOUND),
        ("/v1/verification/enqueue", asked, Code.VERIFICATION_404_TARGET_NOT_FOUND),
        (
            "/v1/cards/download/init",
            {"card_uid": held.subject, "relative_path": "data.csv", "ttl_secs": None},
            Code.REGISTRY_404_CARD_NOT_FOUND,
        ),
    ):
        answer = await connected.post(door, json=body, headers={**rival.headers, **key})
        assert is_problem(answer), answer.text
        assert (answer.status_code, answer.json()["code"]) == (404, code.value), door
    query = {"kind": "Service", "space": SPACE, "name": "support-desk", "version": "1.0.0"}
    for method in ("GET", "DELETE"):
        answer = await connected.request(method, "/v1/cards/by-ref", params=query, headers=rival.headers)
        assert answer.status_code == 404
    assert (await connected.get("/v1/cards/by-ref", params=query, headers=admin.headers)).status_code == 200


async def test_p58_the_same_card_key_and_digest_are_two_things_in_two_tenants(
    services: Services, connected: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    one = await filled_tenant(connected, services, admin)
    two = await filled_tenant(connected, services, rival)
    assert one.idempotency_key == two.idempotency_key
    assert {one.verifier, one.subject, one.execution}.isdisjoint({two.verifier, two.subject, two.execution})
    workflows = [
        (await connected.get(f"/v1/verification/executions/{held.execution}", headers=who.headers)).json()
        for held, who in ((one, admin), (two, rival))
    ]
    assert [told["workflow_id"].partition("/")[0] for told in workflows] == ["acme", "rival"]


SPACE = "support"


@dataclass(frozen=True, slots=True)
class Held:
    """What one tenant holds after `filled_tenant`."""

    verifier: str
    subject: str
    execution: str
    inputs: dict[str, Any]
    idempotency_key: str


async def filled_tenant(client: httpx.AsyncClient, services: Services, who: Person) -> Held:
    """Cards, a connection, a blob and an execution, the same for whichever tenant asks."""
    check = {"kind": "assert", "path": "inputs.answer", "operator": "equals", "expected": "yes"}
    verifier = {
        "inputs": {"answer": {"type": "json"}},
        "requirements": [{"id": "says-yes", "statement": "It says yes", "check": check}],
    }
    sibling = {"kind": "Verifier", "name": "says-yes", "version": "1.0.0", "space": SPACE}
    service = {"verified_by": [{"verifier": {"sibling": sibling}}], "components": []}
    submissions = [
        {
            "apiVersion": "wyrd/v1",
            "kind": kind,
            "metadata": {"name": name, "space": SPACE, "version": "1.0.0"},
            "spec": spec,
        }
        for kind, name, spec in (("Verifier", "says-yes", verifier), ("Service", "support-desk", service))
    ]
    headers = {**who.headers, "idempotency-key": "the-same-key"}
    declared = await client.post("/v1/cards", json={"submissions": submissions}, headers=headers)
    assert declared.status_code == 200, declared.text
    uids = {one["card_ref"]["kind"]: one["card_ref"]["uid"] for one in declared.json()["outcomes"]}
    connection = {"provider": "pager_duty", "name": "on-call", "integration_key": "a-key"}
    made = await client.post("/v1/operator-connections", json=connection, headers=who.headers)
    assert made.status_code == 201, made.text
    await services.blobs.put(who.tenant, b"evidence")
    body = {
        "verifier_card_uid": uids["Verifier"],
        "card_uid": uids["Service"],
        "run_id": "01890000-0000-7000-8000-0000000000cc",
        "inputs": {"answer": {"kind": "json", "value": "yes"}},
    }
    enqueued = await client.post("/v1/verification/enqueue", json=body, headers=headers)
    assert enqueued.status_code == 202, enqueued.text
    return Held(
        uids["Verifier"], uids["Service"], enqueued.json()["execution_id"], body["inputs"], "the-same-key"
    )


class Place(dict[str, str]):
    """Words for the path parameters that have names of words, one id for every other."""

    def __init__(self, words: Mapping[str, str], ident: str) -> None:
        super().__init__(words)
        self.ident = ident

    def __missing__(self, _name: str) -> str:
        return self.ident


async def everything_of(services: Services, owner: Person) -> list[Place]:
    """Values for path parameters, one set for each row of the owner's tenant.

    A row gives its words (kind, space, name) by name, and each of its ids for every other
    parameter.
    """
    places: list[Place] = []

    def gather(connection: Connection) -> None:
        for table in metadata.sorted_tables:
            if "tenant_id" not in table.c:
                continue
            for row in connection.execute(table.select().where(table.c.tenant_id == owner.tenant.id)):
                values = dict(row._mapping)
                words = {"kind": "Service", "space": SPACE, "role": "viewer"}
                words |= {
                    name: values[name]
                    for name in ("kind", "space", "name")
                    if isinstance(values.get(name), str)
                }
                for name, value in values.items():
                    if name != "tenant_id" and isinstance(value, str) and _IDENT.fullmatch(value):
                        places.append(Place(words, value))

    await services.database.read(gather)
    assert len(places) > 10
    return places


_IDENT = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|wyu_\w+")


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
async def test_the_reference_is_complete_and_loads_nothing_from_elsewhere(
    app: FastAPI, client: httpx.AsyncClient, path: str
) -> None:
    answer = await client.get(path)
    assert answer.status_code == 200
    for door in doors(app):
        if door.route.include_in_schema:
            assert door.path.replace(":path", "") in answer.text, door
    assert "<script" not in answer.text
    assert not re.search(r"""(src|href)=["'](https?:)?//""", answer.text)
