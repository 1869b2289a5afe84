"""A walk over the application's own route table: no door is open that should not be (P58).

A new route is covered by being in the table. What it needs from here is at most a line in
`OPEN`, when it is meant for everybody, or a value for a new kind of path parameter.
"""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.services import Services
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


def filled(path: str, values: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        return values.get(found.group(1), uuid7())

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
        answer = await knocked(client, door, filled(door.path, {}), {})
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
        path, headers = filled(door.path, {}), {"content-type": "application/json"}
        answer = await client.request(door.method, path, headers=headers, content=b"{ not json")
        assert answer.status_code == 401, (str(door), answer.text[:200])


async def test_p58_every_open_route_is_in_the_table(app: FastAPI) -> None:
    assert {str(door) for door in doors(app)} >= OPEN


async def test_p58_no_route_answers_with_another_tenants_rows(
    app: FastAPI, client: httpx.AsyncClient, services: Services, admin: Person, rival: Person
) -> None:
    """Every id of A's, tried by B in every path parameter: 404, or a refusal of the request."""
    ids = await everything_of(services, client, admin)
    told = []
    for door in doors(app):
        if str(door) in OPEN or "{" not in door.path:
            continue
        for ident in sorted(ids):
            names = re.findall(r"\{(\w+)", door.path)
            values = {name: known_word(name) or ident for name in names}
            answer = await knocked(client, door, filled(door.path, values), rival.headers)
            missing = is_problem(answer) and answer.status_code in (400, 401, 404, 405, 422)
            if not missing:
                told.append((str(door), ident, answer.status_code, answer.text[:200]))
            assert admin.tenant.id not in answer.text
    assert told == []


def known_word(name: str) -> str | None:
    """Parameters that are words of the language and not ids."""
    return {"role": "viewer", "kind": "Verifier", "space": "acme", "namespace": "datasets"}.get(name)


async def everything_of(services: Services, client: httpx.AsyncClient, owner: Person) -> set[str]:
    """Ids of what `owner`'s tenant holds: every UUID and digest of its rows and blobs."""
    await services.blobs.put(owner.tenant, b"evidence of A")
    ids: set[str] = set()

    def gather(connection: Any) -> None:
        for table in metadata.sorted_tables:
            if "tenant_id" not in table.c:
                continue
            for row in connection.execute(table.select().where(table.c.tenant_id == owner.tenant.id)):
                ids.update(
                    value
                    for name, value in row._mapping.items()
                    if isinstance(value, str)
                    and name not in ("tenant_id", "key_sha256")
                    and re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|wyu_\w+", value)
                )

    await services.database.read(gather)
    assert ids
    return ids


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
