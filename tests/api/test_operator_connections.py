"""`/v1/operator-connections`: exactly the published shapes, and secrets that never come back."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from sqlalchemy import Connection

from api.services import Services
from store.caller import Role
from store.connections import Connections
from store.sealing import Sealer
from tests.api.conftest import Person, person
from wyrd.errors import Code
from wyrd.wire.ids import uuid7

PATH = "/v1/operator-connections"
SLACK = {
    "provider": "slack",
    "name": "support-slack",
    "workspace_id": "T0123",
    "bot_token": "xoxb-very-secret",
}
PAGER = {"provider": "pager_duty", "name": "support-pager", "integration_key": "integration-secret"}
BEARER = {"scheme": "bearer", "token": "bearer-secret"}
BASIC = {"scheme": "basic", "username": "desk", "password": "basic secret"}
HEADER = {"scheme": "header", "name": "X-Api-Key", "value": "header-secret"}
SECRETS = ("xoxb-very-secret", "integration-secret", "bearer-secret", "basic secret", "header-secret")


def http(
    auth: dict[str, str], origin: str = "https://desk.example", name: str = "desk-http"
) -> dict[str, Any]:
    return {"provider": "http", "name": name, "origin": origin, "auth": auth}


async def create(client: httpx.AsyncClient, who: Person, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(PATH, json=body, headers=who.headers)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def secret_of(services: Services, who: Person, connection_id: str) -> dict[str, str]:
    def opened(connection: Connection) -> dict[str, str]:
        repository = Connections(connection, who.tenant)
        return repository.secret(services.sealer, repository.find(connection_id))

    return services.database.read_now(opened)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (SLACK, {"workspace_id": "T0123"}),
        (PAGER, {}),
        (http(BEARER), {"origin": "https://desk.example", "auth": {"scheme": "bearer"}}),
        (http(BASIC), {"origin": "https://desk.example", "auth": {"scheme": "basic"}}),
        (http(HEADER), {"origin": "https://desk.example", "auth": {"scheme": "header", "name": "X-Api-Key"}}),
    ],
    ids=["slack", "pager_duty", "bearer", "basic", "header"],
)
async def test_a_view_has_the_published_members_and_no_other(
    client: httpx.AsyncClient, admin: Person, body: dict[str, Any], shown: dict[str, Any]
) -> None:
    made = await create(client, admin, body)
    told = {key: made.pop(key) for key in ("connection_id", "created_at", "updated_at")}
    assert all(told.values())
    assert made == {"provider": body["provider"], "name": body["name"], "status": "active", **shown}


async def test_no_answer_and_no_stored_byte_holds_a_secret(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    bodies = [
        SLACK,
        PAGER,
        http(BEARER, name="one-http"),
        http(BASIC, name="two-http"),
        http(HEADER, name="three"),
    ]
    answers = []
    for body in bodies:
        made = await client.post(PATH, json=body, headers=admin.headers)
        one = f"{PATH}/{made.json()['connection_id']}"
        answers += [made, await client.get(one, headers=admin.headers)]
        answers.append(await client.delete(one, headers=admin.headers))
        again = await client.post(PATH, json=body, headers=admin.headers)
        assert again.status_code == 409
        answers.append(again)
    answers.append(await client.get(PATH, headers=admin.headers))
    for answer in answers:
        assert not [secret for secret in SECRETS if secret in answer.text]
    stored = b"".join(path.read_bytes() for path in services.settings.home.glob("wyrd.db*"))
    assert b"support-pager" in stored
    assert not [secret for secret in SECRETS if secret.encode() in stored]


async def test_the_list_is_a_bare_array_in_order_of_creation_with_disabled_ones(
    client: httpx.AsyncClient, admin: Person
) -> None:
    first, second = await create(client, admin, SLACK), await create(client, admin, PAGER)
    gone = await client.delete(f"{PATH}/{first['connection_id']}", headers=admin.headers)
    assert (gone.status_code, gone.json()["status"]) == (200, "disabled")
    listed = await client.get(PATH, headers=admin.headers)
    assert [(one["connection_id"], one["status"]) for one in listed.json()] == [
        (first["connection_id"], "disabled"),
        (second["connection_id"], "active"),
    ]


async def test_a_patch_changes_what_it_names_and_nothing_else(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    made = await create(client, admin, SLACK)
    one = f"{PATH}/{made['connection_id']}"
    changed = await client.patch(
        one, json={"provider": "slack", "workspace_id": "T999", "status": "disabled"}, headers=admin.headers
    )
    told = changed.json()
    assert (told["workspace_id"], told["status"], told["name"]) == ("T999", "disabled", "support-slack")
    assert secret_of(services, admin, made["connection_id"]) == {"bot_token": "xoxb-very-secret"}
    changed = await client.patch(
        one, json={"provider": "slack", "bot_token": "xoxb-newer", "status": "active"}, headers=admin.headers
    )
    assert changed.json()["status"] == "active"
    assert secret_of(services, admin, made["connection_id"]) == {"bot_token": "xoxb-newer"}


async def test_a_renamed_connection_keeps_its_secret(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    made = await create(client, admin, PAGER)
    one = f"{PATH}/{made['connection_id']}"
    changed = await client.patch(
        one, json={"provider": "pager_duty", "name": "renamed"}, headers=admin.headers
    )
    assert changed.json()["name"] == "renamed"
    assert secret_of(services, admin, made["connection_id"]) == {"integration_key": "integration-secret"}
    await create(client, admin, PAGER)
    taken = await client.patch(
        one, json={"provider": "pager_duty", "name": "support-pager"}, headers=admin.headers
    )
    assert (taken.status_code, taken.json()["code"]) == (409, Code.OPERATOR_409_CONNECTION_CONFLICT.value)


async def test_another_key_cannot_open_a_secret_and_says_so(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    made = await create(client, admin, PAGER)
    services.sealer = Sealer(b"another key of thirty-two bytes.")
    answer = await client.patch(
        f"{PATH}/{made['connection_id']}",
        json={"provider": "pager_duty", "name": "renamed"},
        headers=admin.headers,
    )
    assert (answer.status_code, answer.json()["code"]) == (503, Code.OPERATOR_503_KEY_UNAVAILABLE.value)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "provider"),
        ({"provider": "carrier_pigeon"}, "provider"),
        ({"provider": ["slack"]}, "provider"),
        ({**SLACK, "bot_token": ""}, "bot_token"),
        ({**SLACK, "bot_token": "two\nlines"}, "bot_token"),
        ({**SLACK, "bot_token": None}, "bot_token"),
        ({**SLACK, "name": "No"}, "name"),
        ({**SLACK, "token": "x"}, "token"),
        ({key: value for key, value in PAGER.items() if key != "integration_key"}, "integration_key"),
        (http(BEARER, origin="https://desk.example/path"), "origin"),
        (http(BEARER, origin="https://user@desk.example"), "origin"),
        (http(BEARER, origin="ftp://desk.example"), "origin"),
        (http(BEARER, origin="http://desk.example"), "origin"),
        (http(BEARER, origin="http://127.0.0.1:8080"), "origin"),
        (http(BEARER, origin="https://desk.example:port"), "origin"),
        (http({"scheme": "digest"}), "auth"),
        (http({"scheme": "bearer"}), "auth.token"),
        (http({**HEADER, "name": "Host"}), "auth.name"),
        (http({**HEADER, "value": "two\r\nlines"}), "auth.value"),
        (http({**BASIC, "username": "a:b"}), "auth.username"),
    ],
)
async def test_a_body_that_fits_no_provider_is_refused_by_the_field_without_repeating_values(
    client: httpx.AsyncClient, admin: Person, body: dict[str, Any], field: str
) -> None:
    answer = await client.post(PATH, json=body, headers=admin.headers)
    told = answer.json()
    assert (answer.status_code, told["code"]) == (400, Code.OPERATOR_400_INVALID_CONNECTION.value), told
    assert told["details"]["field"] == field
    assert not [secret for secret in SECRETS if secret in answer.text]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"provider": "pager_duty", "status": "active"}, "provider"),
        ({"status": "active"}, "provider"),
        ({"provider": "http"}, ""),
        ({"provider": "http", "status": "deleted"}, "status"),
        ({"provider": "http", "status": None}, ""),
        ({"provider": "http", "origin": "https://elsewhere.example"}, ""),
    ],
)
async def test_a_patch_that_says_nothing_usable_is_refused(
    client: httpx.AsyncClient, admin: Person, body: dict[str, Any], field: str
) -> None:
    """The last one: a stored secret must not follow an origin that somebody else chose."""
    made = await create(client, admin, http(BEARER))
    answer = await client.patch(f"{PATH}/{made['connection_id']}", json=body, headers=admin.headers)
    told = answer.json()
    assert (answer.status_code, told["code"]) == (400, Code.OPERATOR_400_INVALID_CONNECTION.value), told
    assert told["details"]["field"] == field


async def test_a_secret_goes_unencrypted_only_where_the_settings_allow_the_host(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    allowed = ("hooks.internal", "10.0.0.0/8")
    services.settings = services.settings.model_copy(update={"operator_destinations": allowed})
    for number, origin in enumerate(("http://hooks.internal", "http://10.1.2.3:8080")):
        made = await create(client, admin, http(BEARER, origin=origin, name=f"hook-{number}"))
        assert made["origin"] == origin
    for origin in ("http://11.1.2.3", "http://internal", "http://hooks.internal.example"):
        answer = await client.post(PATH, json=http(BEARER, origin=origin), headers=admin.headers)
        assert answer.json()["details"]["field"] == "origin"


async def test_an_origin_is_kept_in_its_one_form(client: httpx.AsyncClient, admin: Person) -> None:
    made = await create(client, admin, http(BEARER, origin="HTTPS://Desk.Example:443/"))
    assert made["origin"] == "https://desk.example"


@pytest.mark.parametrize("role", [Role.EDITOR, Role.VIEWER, Role.SERVICE])
async def test_only_administrators_come_near_connections(
    client: httpx.AsyncClient, services: Services, admin: Person, role: Role
) -> None:
    made = await create(client, admin, PAGER)
    other = await person(services, "acme", role.value, role)
    one = f"{PATH}/{made['connection_id']}"
    for method, path in (("POST", PATH), ("GET", PATH), ("GET", one), ("PATCH", one), ("DELETE", one)):
        body = PAGER if method in ("POST", "PATCH") else None
        answer = await client.request(method, path, headers=other.headers, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, Code.PERMISSION_403_DENIED_RBAC.value)


async def test_connections_of_another_tenant_do_not_exist(
    client: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    made = await create(client, admin, PAGER)
    assert (await create(client, rival, PAGER))["name"] == made["name"]
    for ident in (made["connection_id"], uuid7(), "nonsense"):
        for method, body in (
            ("GET", None),
            ("DELETE", None),
            ("PATCH", {"provider": "pager_duty", "status": "disabled"}),
        ):
            answer = await client.request(method, f"{PATH}/{ident}", json=body, headers=rival.headers)
            assert (answer.status_code, answer.json()["code"]) == (
                404,
                Code.OPERATOR_404_CONNECTION_NOT_FOUND.value,
            )
    assert (await client.get(f"{PATH}/{made['connection_id']}", headers=admin.headers)).json()[
        "status"
    ] == "active"
