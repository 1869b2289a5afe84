"""Administration of principals: strict shapes, and never a tenant without an administrator."""

from __future__ import annotations

from uuid import UUID

import httpx
import pytest
from sqlalchemy import Connection

from api.services import Services
from store.caller import Role, Tenant
from store.cards import Cards, StoredCard
from store.database import utc_now
from tests.api.conftest import Person, person
from tests.api.test_problems import assert_problem
from wyrd.errors import Code
from wyrd.wire.ids import uuid7
from wyrd.wire.names import Kind


def card_row(connection: Connection, tenant: Tenant, kind: Kind, name: str) -> str:
    """A declared Card as the registry leaves it; answers its uid."""
    now, uid = utc_now(), uuid7()
    row = StoredCard(
        uid, kind, tenant.slug, name, "1.0.0", "1", False, "{}", "0" * 64, None, "{}", "active", now, now
    )
    Cards(connection, tenant).insert(row)
    return uid


async def created(client: httpx.AsyncClient, admin: Person, name: str, *roles: str) -> tuple[str, str]:
    body = {"name": name, "roles": list(roles), "description": "made by a test"}
    answer = await client.post("/v1/principals", json=body, headers=admin.headers)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"principal_id", "credential"}
    return answer.json()["principal_id"], answer.json()["credential"]


async def test_a_new_principal_can_ask_what_its_roles_permit(
    client: httpx.AsyncClient, admin: Person
) -> None:
    _, credential = await created(client, admin, "viewer", "viewer")
    headers = {"authorization": f"Bearer {credential}"}
    assert_problem(await client.get("/v1/principals", headers=headers), Code.PERMISSION_403_DENIED_RBAC)
    answer = await client.post("/v1/verification/evidence", json={"files": []}, headers=headers)
    document = assert_problem(answer, Code.PERMISSION_403_DENIED_RBAC)
    assert document["details"] == {"permission": "verification.submit"}


async def test_the_list_has_exactly_the_published_members_and_pages(
    client: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    made = [(await created(client, admin, f"p{n}", "viewer"))[0] for n in range(3)]
    first = (await client.get("/v1/principals?limit=2", headers=admin.headers)).json()
    assert set(first) == {"principals", "next"}
    assert first["principals"][0] == {
        "principal_id": admin.principal_id,
        "kind": "service",
        "status": "active",
        "name": "ann",
    }
    rest = (await client.get(f"/v1/principals?limit=2&after={first['next']}", headers=admin.headers)).json()
    assert set(rest) == {"principals"}
    assert [p["principal_id"] for p in first["principals"] + rest["principals"]] == [
        admin.principal_id,
        *made,
    ]
    one = (await client.get("/v1/principals?name=p1&kind=service", headers=admin.headers)).json()
    assert [p["principal_id"] for p in one["principals"]] == [made[1]]


async def test_a_list_limit_out_of_range_is_refused(client: httpx.AsyncClient, admin: Person) -> None:
    for limit in (0, -1, 1001):
        answer = await client.get(f"/v1/principals?limit={limit}", headers=admin.headers)
        assert_problem(answer, Code.REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE)
    assert_problem(
        await client.get("/v1/principals?limit=many", headers=admin.headers), Code.SPEC_400_VALIDATION
    )


async def test_a_name_is_taken_once_in_a_tenant_and_free_in_another(
    client: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    await created(client, admin, "robot", "service")
    await created(client, rival, "robot", "service")
    body = {"name": "robot", "roles": ["service"]}
    answer = await client.post("/v1/principals", json=body, headers=admin.headers)
    assert assert_problem(answer, Code.SPEC_409_CONFLICT)["details"] == {"field": "name"}


@pytest.mark.parametrize("name", ["", "a\x00b", "a\nb", "x" * 256])
async def test_a_name_is_one_line_of_visible_text(
    client: httpx.AsyncClient, admin: Person, name: str
) -> None:
    answer = await client.post(
        "/v1/principals", json={"name": name, "roles": ["viewer"]}, headers=admin.headers
    )
    assert assert_problem(answer, Code.SPEC_400_VALIDATION)["details"]["field"] == "name"


async def test_an_unknown_role_is_refused_by_name(client: httpx.AsyncClient, admin: Person) -> None:
    body = {"name": "robot", "roles": ["owner"]}
    answer = await client.post("/v1/principals", json=body, headers=admin.headers)
    assert assert_problem(answer, Code.SPEC_400_VALIDATION)["details"]["field"] == "roles[0]"
    address = f"/v1/principals/{admin.principal_id}/roles/owner"
    answer = await client.put(address, headers=admin.headers)
    assert assert_problem(answer, Code.SPEC_400_VALIDATION)["details"]["field"] == "role"


async def test_credentials_are_added_listed_without_secrets_and_revoked(
    client: httpx.AsyncClient, admin: Person
) -> None:
    principal_id, first = await created(client, admin, "robot", "editor")
    address = f"/v1/principals/{principal_id}/credentials"
    added = (await client.post(address, headers=admin.headers)).json()
    assert set(added) == {"id", "credential"}
    UUID(added["id"])
    listed = await client.get(address, headers=admin.headers)
    assert added["credential"] not in listed.text
    views = listed.json()["credentials"]
    assert [set(view) for view in views] == [{"id", "prefix", "created_at"}] * 2
    assert first.startswith(views[0]["prefix"])
    assert added["credential"].startswith(views[1]["prefix"])

    asked = await client.post(
        "/v1/verification/evidence",
        json={"files": []},
        headers={"authorization": f"Bearer {added['credential']}"},
    )
    assert asked.status_code == 200
    removed = await client.delete(f"{address}/{added['id']}", headers=admin.headers)
    assert (removed.status_code, removed.content) == (200, b"")
    view = (await client.get(address, headers=admin.headers)).json()["credentials"][1]
    assert set(view) == {"id", "prefix", "created_at", "revoked_at", "last_used_at"}
    assert_problem(
        await client.delete(f"{address}/{principal_id}", headers=admin.headers), Code.SPEC_404_NOT_FOUND
    )


async def test_revoke_suspends_with_all_keys_and_checks_the_kind(
    client: httpx.AsyncClient, admin: Person
) -> None:
    principal_id, credential = await created(client, admin, "robot", "editor")
    address = f"/v1/principals/{principal_id}/revoke"
    wrong = await client.post(
        address, json={"principal_kind": "user", "reason": "left"}, headers=admin.headers
    )
    assert assert_problem(wrong, Code.SPEC_400_VALIDATION)["details"] == {"field": "principal_kind"}
    body = {"principal_kind": "service", "reason": "left"}
    for _ in range(2):
        answer = await client.post(address, json=body, headers=admin.headers)
        assert (answer.status_code, answer.content) == (200, b"")
    exchanged = await client.post(
        "/auth/token",
        data={
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token_type": "urn:wyrd:oauth:token-type:api_key",
            "subject_token": credential,
        },
    )
    assert_problem(exchanged, Code.AUTH_401_CREDENTIAL_REVOKED)
    added = await client.post(f"/v1/principals/{principal_id}/credentials", headers=admin.headers)
    assert_problem(added, Code.SPEC_409_CONFLICT)
    listed = (await client.get("/v1/principals?name=robot", headers=admin.headers)).json()
    assert listed["principals"][0]["status"] == "suspended"


async def test_roles_are_read_granted_and_withdrawn_idempotently(
    client: httpx.AsyncClient, admin: Person
) -> None:
    principal_id, _ = await created(client, admin, "robot", "viewer")
    address = f"/v1/principals/{principal_id}/roles"
    viewer, editor = ({"role": role, "source": "direct"} for role in ("viewer", "editor"))
    head = {"principal_id": principal_id, "kind": "service"}
    assert (await client.get(address, headers=admin.headers)).json() == {**head, "roles": [viewer]}
    for changed in (True, False):
        answer = await client.put(f"{address}/editor", headers=admin.headers)
        assert answer.json() == {**head, "role": "editor", "changed": changed, "roles": [editor, viewer]}
    for changed in (True, False):
        answer = await client.delete(f"{address}/editor", headers=admin.headers)
        assert answer.json() == {**head, "role": "editor", "changed": changed, "roles": [viewer]}


async def test_the_last_administrator_cannot_be_removed_by_any_way(
    client: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    own = f"/v1/principals/{admin.principal_id}"
    keys = (await client.get(f"{own}/credentials", headers=admin.headers)).json()["credentials"]
    body = {"principal_kind": "service", "reason": "left"}
    for refused in (
        await client.delete(f"{own}/roles/admin", headers=admin.headers),
        await client.post(f"{own}/revoke", json=body, headers=admin.headers),
        await client.delete(f"{own}/credentials/{keys[0]['id']}", headers=admin.headers),
    ):
        assert_problem(refused, Code.AUTH_409_ADMIN_CONFLICT)
    second, _ = await created(client, admin, "second", "admin")
    assert (await client.delete(f"{own}/roles/admin", headers=admin.headers)).json()["changed"] is True
    assert second


async def test_p58_another_tenants_principals_do_not_exist(
    client: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    theirs = f"/v1/principals/{rival.principal_id}"
    body = {"principal_kind": "service", "reason": "gone"}
    for refused in (
        await client.get(f"{theirs}/credentials", headers=admin.headers),
        await client.post(f"{theirs}/credentials", headers=admin.headers),
        await client.delete(f"{theirs}/credentials/{rival.principal_id}", headers=admin.headers),
        await client.post(f"{theirs}/revoke", json=body, headers=admin.headers),
        await client.get(f"{theirs}/roles", headers=admin.headers),
        await client.put(f"{theirs}/roles/viewer", headers=admin.headers),
        await client.delete(f"{theirs}/roles/admin", headers=admin.headers),
    ):
        assert_problem(refused, Code.AUTH_404_PRINCIPAL_NOT_FOUND)
    listed = (await client.get("/v1/principals", headers=admin.headers)).json()["principals"]
    assert [p["principal_id"] for p in listed] == [admin.principal_id]


async def test_a_card_gets_a_key_bound_to_it_for_at_most_as_long_as_asked(
    client: httpx.AsyncClient, services: Services, admin: Person, rival: Person
) -> None:
    uid = await services.database.write(card_row, admin.tenant, "Service", "support")
    body = {"card_ref": {"kind": "Service", "space": "acme", "name": "support", "version": "1.0.0"}}
    answer = await client.post(
        "/auth/issue-key", json={**body, "expires_in_seconds": 3600, "label": "ci"}, headers=admin.headers
    )
    assert answer.status_code == 200, answer.text
    issued = answer.json()
    assert set(issued) == {
        "key_id", "principal_id", "key", "prefix", "card_ref", "created_at", "expires_at",
    }  # fmt: skip
    assert issued["card_ref"]["uid"] == uid
    caller = await services.tokens.caller(issued["key"])
    assert caller.card_uid == uid
    assert caller.roles == {Role.SERVICE}
    again = await client.post("/auth/issue-key", json=body, headers=admin.headers)
    assert again.json()["principal_id"] == issued["principal_id"]
    assert_problem(
        await client.post("/auth/issue-key", json=body, headers=rival.headers),
        Code.REGISTRY_404_CARD_NOT_FOUND,
    )
    other = {"card_ref": {**body["card_ref"], "kind": "Prompt"}}
    assert_problem(
        await client.post("/auth/issue-key", json=other, headers=admin.headers),
        Code.AUTH_400_PRINCIPAL_KIND_CARD_KIND_MISMATCH,
    )
    editor = await person(services, "acme", "ed", Role.EDITOR)
    assert_problem(
        await client.post("/auth/issue-key", json=body, headers=editor.headers),
        Code.PERMISSION_403_DENIED_RBAC,
    )
