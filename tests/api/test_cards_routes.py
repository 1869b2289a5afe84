"""`/v1/cards` over HTTP: shapes, codes, and the way from a declaration to a downloaded file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from api.services import Services
from store.caller import Role
from tests.api.conftest import Person, person
from wyrd.wire.ids import uuid7

VERIFIER = {
    "inputs": {"answer": {"type": "json"}},
    "requirements": [
        {
            "id": "no-promise",
            "statement": "No promise is made",
            "check": {
                "kind": "assert",
                "path": "inputs.answer",
                "operator": "not_contains",
                "expected": "guaranteed refund",
            },
        }
    ],
}
AGENT = {
    "prompt": {
        "provider": "openai",
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "Answer: {{question}}"}],
    },
    "execution_route": {"kind": "native"},
}
SOURCE = b"def check(answer):\n    return {}\n"

ENVELOPE = {"apiVersion", "kind", "metadata", "spec", "relationships", "status"}
ITEM = {"card_uid", "kind", "space", "name", "version", "spec_hash", "status", "created_at", "updated_at"}


def card(kind: str, name: str, spec: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "space": "support", "version": "1.0.0", **more.pop("metadata", {})}
    return {
        "apiVersion": "wyrd/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        "artifacts": [],
        **more,
    }


def desk() -> list[dict[str, Any]]:
    def sibling(kind: str, name: str) -> dict[str, Any]:
        return {"sibling": {"kind": kind, "name": name, "version": "1.0.0", "space": "support"}}

    bound = [{"verifier": sibling("Verifier", "no-promise")}]
    components = [{"alias": "agent", "ref": sibling("Agent", "support-agent"), "verified_by": bound}]
    spec = {"service_type": "agent", "verified_by": bound, "components": components}
    return [
        card("Verifier", "no-promise", VERIFIER),
        card("Agent", "support-agent", AGENT),
        card("Service", "support-desk", spec),
    ]


async def declared(
    client: httpx.AsyncClient, who: Person, *cards: Mapping[str, Any], key: str | None = None
) -> httpx.Response:
    headers = {**who.headers, "idempotency-key": key or f"card-declaration-{uuid7()}"}
    return await client.post("/v1/cards", json={"submissions": list(cards)}, headers=headers)


def code_of(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["code"])


async def test_a_declaration_answers_exactly_the_receipts_members(
    client: httpx.AsyncClient, admin: Person
) -> None:
    answer = await declared(client, admin, *desk())
    assert answer.status_code == 200, answer.text
    receipt = answer.json()
    assert set(receipt) == {"root", "outcomes", "upload_plans"}
    assert receipt["upload_plans"] == []
    assert set(receipt["root"]) == {"kind", "name", "version", "space", "uid"}
    for outcome in receipt["outcomes"]:
        assert set(outcome) == {"card_ref", "spec_hash", "status", "outcome"}
        assert (outcome["status"], outcome["outcome"]) == ("active", "declared")


async def test_a_read_answers_the_envelope_by_every_way(client: httpx.AsyncClient, admin: Person) -> None:
    root = (await declared(client, admin, *desk())).json()["root"]
    reference = {key: root[key] for key in ("kind", "space", "name", "version")}
    answers = [
        await client.get("/v1/cards/by-ref", params=reference, headers=admin.headers),
        await client.get(f"/v1/cards/by-uid/Service/{root['uid']}", headers=admin.headers),
        await client.get(f"/v1/cards/by-uid/Service/{root['uid'].upper()}", headers=admin.headers),
        await client.get("/v1/cards/Service/support/support-desk/latest", headers=admin.headers),
    ]
    bodies = [answer.json() for answer in answers]
    assert all(body == bodies[0] for body in bodies)
    assert set(bodies[0]) == {"card", "created_at", "updated_at"}
    envelope = bodies[0]["card"]
    assert set(envelope) == ENVELOPE
    assert set(envelope["metadata"]) == {"name", "version", "space", "uid", "spec_hash"}
    assert set(envelope["relationships"]) == {"outbound", "outbound_refs"}
    assert set(envelope["status"]) == {"phase", "updated_at", "verification"}
    assert len(envelope["status"]["verification"]["binding_ids"]) == 2
    assert envelope["spec"]["service_type"] == "agent"


async def test_aliases_of_one_card_are_listed_as_the_service_lists_them(
    client: httpx.AsyncClient, admin: Person
) -> None:
    code = card("Artifact", "check-code", {"artifact_kind": "code"})
    ref = {"sibling": {"kind": "Artifact", "name": "check-code", "version": "1.0.0", "space": "support"}}
    components = [{"alias": alias, "ref": ref} for alias in ("second", "first", "third")]
    service = card("Service", "three-names", {"service_type": "agent", "components": components})
    root = (await declared(client, admin, code, service)).json()["root"]
    answer = await client.get(f"/v1/cards/by-uid/Service/{root['uid']}", headers=admin.headers)
    related = answer.json()["card"]["relationships"]
    assert [one["alias"] for one in related["outbound_refs"]] == ["second", "first", "third"]
    assert len(related["outbound"]) == 1


async def test_nulls_inside_free_json_survive_the_answer(client: httpx.AsyncClient, admin: Person) -> None:
    expected = {"a": None, "b": [None]}
    check = {"kind": "assert", "path": "inputs.answer", "operator": "equals", "expected": expected}
    spec = {**VERIFIER, "requirements": [{"id": "same", "statement": "It is the same", "check": check}]}
    root = (await declared(client, admin, card("Verifier", "null-check", spec))).json()["root"]
    answer = await client.get(f"/v1/cards/by-uid/Verifier/{root['uid']}", headers=admin.headers)
    assert answer.json()["card"]["spec"]["requirements"][0]["check"]["expected"] == expected


async def test_the_list_answers_exactly_its_members(client: httpx.AsyncClient, admin: Person) -> None:
    await declared(client, admin, *desk())
    query = {"include_prerelease": "false", "limit": "3"}
    first = (await client.get("/v1/cards", params=query, headers=admin.headers)).json()
    assert set(first) == {"items", "next_cursor"}
    assert all(set(item) == ITEM for item in first["items"])
    query["cursor"] = first["next_cursor"]
    last = (await client.get("/v1/cards", params=query, headers=admin.headers)).json()
    assert set(last) == {"items"}
    assert [item["name"] for item in first["items"] + last["items"]] == [
        "support-agent",
        "support-agent-prompt",
        "support-desk",
        "no-promise",
    ]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"limit": "0"}, "WYRD_REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE"),
        ({"limit": "many"}, "WYRD_SPEC_400_VALIDATION"),
        ({"stauts": "active"}, "WYRD_SPEC_400_VALIDATION"),
        ({"status": "gone"}, "WYRD_QUERY_400_INVALID_FIELD"),
        ({"filter": "name ="}, "WYRD_QUERY_400_INVALID_SYNTAX"),
        ({"cursor": "x"}, "WYRD_REGISTRY_400_CURSOR_MISMATCH"),
    ],
)
async def test_a_bad_list_query_names_its_field(
    client: httpx.AsyncClient, admin: Person, query: dict[str, str], code: str
) -> None:
    answer = await client.get("/v1/cards", params=query, headers=admin.headers)
    assert code_of(answer, 400) == code
    assert answer.json()["details"]["field"] == next(iter(query))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "WYRD_LOADER_400_INVALID_ENVELOPE"),
        ({"submissions": []}, "WYRD_LOADER_400_INVALID_ENVELOPE"),
        ({"submissions": [{}]}, "WYRD_LOADER_400_INVALID_ENVELOPE"),
        (
            {"submissions": [{**card("Verifier", "ok-name", {}), "spec": []}]},
            "WYRD_LOADER_400_INVALID_ENVELOPE",
        ),
        ({"submissions": [card("External", "ok-name", {})]}, "WYRD_LOADER_400_INVALID_ENVELOPE"),
        (
            {"submissions": [{**card("Verifier", "ok-name", VERIFIER), "apiVersion": "wyrd/v2"}]},
            "WYRD_LOADER_400_INVALID_ENVELOPE",
        ),
        (
            {"submissions": [card("Verifier", "ok-name", {**VERIFIER, "requirments": []})]},
            "WYRD_LOADER_400_INVALID_ENVELOPE",
        ),
    ],
)
async def test_p51_a_malformed_declaration_names_its_field(
    client: httpx.AsyncClient, admin: Person, body: dict[str, Any], code: str
) -> None:
    headers = {**admin.headers, "idempotency-key": "a-key-of-mine"}
    answer = await client.post("/v1/cards", json=body, headers=headers)
    assert code_of(answer, 400) == code
    assert "submissions" in answer.json()["details"]["field"]


async def test_a_declaration_without_a_key_is_refused(client: httpx.AsyncClient, admin: Person) -> None:
    answer = await client.post("/v1/cards", json={"submissions": desk()}, headers=admin.headers)
    assert code_of(answer, 400) == "WYRD_REGISTRY_400_IDEMPOTENCY_KEY_REQUIRED"


async def test_the_key_decides_between_a_replay_and_a_conflict(
    client: httpx.AsyncClient, admin: Person
) -> None:
    first = await declared(client, admin, *desk(), key="a-key-of-mine")
    again = await declared(client, admin, *desk(), key="a-key-of-mine")
    assert again.json() == first.json()
    other = await declared(client, admin, desk()[0], key="a-key-of-mine")
    assert code_of(other, 409) == "WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT"


async def test_delete_answers_its_two_members_and_then_404s_the_card(
    client: httpx.AsyncClient, admin: Person
) -> None:
    receipt = (await declared(client, admin, *desk())).json()
    root, checked = receipt["root"], receipt["outcomes"][0]["card_ref"]
    held = await client.delete(f"/v1/cards/by-uid/Verifier/{checked['uid']}", headers=admin.headers)
    assert code_of(held, 409) == "WYRD_SPEC_409_CONFLICT"
    reference = {key: root[key] for key in ("kind", "space", "name", "version")}
    gone = await client.delete("/v1/cards/by-ref", params=reference, headers=admin.headers)
    assert (gone.status_code, gone.json()) == (200, {"card_uid": root["uid"], "deleted": True})
    again = await client.delete(f"/v1/cards/by-uid/Service/{root['uid']}", headers=admin.headers)
    assert again.json() == {"card_uid": root["uid"], "deleted": False}
    missing = await client.get("/v1/cards/by-ref", params=reference, headers=admin.headers)
    assert code_of(missing, 404) == "WYRD_REGISTRY_404_CARD_NOT_FOUND"


async def test_deactivate_and_reactivate_answer_the_card(client: httpx.AsyncClient, admin: Person) -> None:
    root = (await declared(client, admin, *desk())).json()["root"]
    address = f"/v1/cards/by-uid/Service/{root['uid']}"
    for call, phase in (("deactivate", "deprecated"), ("reactivate", "active")):
        answer = await client.post(f"{address}/{call}", headers=admin.headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["card"]["status"]["phase"] == phase


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ({"kind": "Verifiers"}, "WYRD_SPEC_400_VALIDATION"),
        ({"name": "N"}, "WYRD_SPEC_400_VALIDATION"),
        ({"name": "a\0bcd"}, "WYRD_SPEC_400_VALIDATION"),
        ({"version": "1"}, "WYRD_SPEC_400_VALIDATION"),
        ({"version": "1.0.0\0"}, "WYRD_SPEC_400_VALIDATION"),
        ({"name": "nobody"}, "WYRD_REGISTRY_404_CARD_NOT_FOUND"),
    ],
)
async def test_a_malformed_or_unknown_reference_is_told_apart(
    client: httpx.AsyncClient, admin: Person, reference: dict[str, str], code: str
) -> None:
    query = {"kind": "Verifier", "space": "support", "name": "no-promise", "version": "1.0.0", **reference}
    answer = await client.get("/v1/cards/by-ref", params=query, headers=admin.headers)
    assert answer.json()["code"] == code


async def test_a_file_goes_up_and_comes_down_again(client: httpx.AsyncClient, admin: Person) -> None:
    digest = base64.b64encode(hashlib.sha256(SOURCE).digest()).decode()
    file = {"relative_path": "check.py", "sha256": digest, "size_bytes": len(SOURCE), "content_type": None}
    receipt = (
        await declared(
            client, admin, card("Artifact", "check-code", {"artifact_kind": "code"}, artifacts=[file])
        )
    ).json()
    uid = receipt["root"]["uid"]
    assert receipt["outcomes"][0]["status"] == "pending"
    (plan,) = receipt["upload_plans"]
    assert set(plan) == {"card_ref", "entries"}
    (entry,) = plan["entries"]
    assert set(entry) == {"relative_path", "upload_id", "plan"}
    assert set(entry["plan"]) == {"protocol", "data"}
    assert entry["plan"]["protocol"] == "local_fs"

    done = {"protocol": "single_put", "data": {}}
    complete = f"/v1/cards/upload/{entry['upload_id']}/complete"
    early = await client.post(complete, json=done, headers=admin.headers)
    assert code_of(early, 404) == "WYRD_STORAGE_404_OBJECT_NOT_FOUND"
    put_url = entry["plan"]["data"]["put_url"]
    wrong = await client.put(put_url, content=b"x" * len(SOURCE), headers=admin.headers)
    assert code_of(wrong, 400) == "WYRD_STORAGE_400_SHA256_MISMATCH"
    assert (await client.put(put_url, content=SOURCE, headers=admin.headers)).status_code == 200

    stored = await client.post(complete, json=done, headers=admin.headers)
    assert stored.status_code == 200, stored.text
    assert set(stored.json()) == {"stored"}
    assert set(stored.json()["stored"]) == {"storage_path", "size_bytes", "sha256", "created_at"}
    finished = await client.post(
        f"/v1/cards/{uid}/complete",
        content=b"null",
        headers={**admin.headers, "content-type": "application/json"},
    )
    assert finished.status_code == 200, finished.text
    assert set(finished.json()) == {"root", "outcomes", "upload_plans"}
    assert finished.json()["outcomes"][0]["status"] == "active"

    listed = await client.get(f"/v1/cards/{uid}/artifacts", headers=admin.headers)
    assert listed.json() == {
        "artifacts": [{"relative_path": "check.py", "sha256": digest, "size_bytes": len(SOURCE)}]
    }
    wanted = {"card_uid": uid, "relative_path": "check.py", "ttl_secs": None}
    download = await client.post("/v1/cards/download/init", json=wanted, headers=admin.headers)
    assert set(download.json()) == {"plan", "size_bytes", "sha256"}
    assert set(download.json()["plan"]) == {"get_url", "ttl_secs"}
    address = download.json()["plan"]["get_url"]
    # The published client refuses to fetch a server-relative address anywhere else.
    assert address.startswith("/v1/cards/download/local?")
    assert (await client.get(address)).content == SOURCE
    forged = await client.get(address.replace("signature=", "signature=x"))
    assert code_of(forged, 401) == "WYRD_AUTH_401_INVALID_TOKEN"
    unsigned = await client.get("/v1/cards/download/local?sha256=" + hashlib.sha256(SOURCE).hexdigest())
    assert code_of(unsigned, 401) == "WYRD_AUTH_401_UNAUTHENTICATED"


async def test_a_multipart_upload_is_refused_clearly(client: httpx.AsyncClient, admin: Person) -> None:
    upload = f"/v1/cards/upload/wyu_{uuid7().replace('-', '')}"
    part = await client.post(f"{upload}/part-url?part_number=1", headers=admin.headers)
    assert code_of(part, 400) == "WYRD_SPEC_400_VALIDATION"
    unknown = {"protocol": "carrier_pigeon", "data": {}}
    done = await client.post(f"{upload}/complete", json=unknown, headers=admin.headers)
    assert code_of(done, 400) == "WYRD_SPEC_400_VALIDATION"


@pytest.mark.parametrize("kind", ["Verifier", "Agent", "Service", "Trigger", "Operator"])
async def test_the_schemas_are_served_and_take_what_is_declared(
    client: httpx.AsyncClient, admin: Person, kind: str
) -> None:
    answer = await client.get(f"/v1/cards/schemas/{kind}", headers=admin.headers)
    schema = answer.json()
    Draft202012Validator.check_schema(schema)
    for one in desk():
        if one["kind"] == kind:
            Draft202012Validator(schema).validate({key: one[key] for key in ("kind", "metadata", "spec")})
    missing = await client.get("/v1/cards/schemas/Nonsense", headers=admin.headers)
    assert code_of(missing, 404) == "WYRD_SPEC_404_NOT_FOUND"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SERVICE])
async def test_only_those_who_may_write_cards_declare(
    client: httpx.AsyncClient, services: Services, role: Role
) -> None:
    reader = await person(services, "acme", "vera", role)
    answer = await declared(client, reader, *desk())
    assert code_of(answer, 403) == "WYRD_PERMISSION_403_DENIED_RBAC"


async def test_p58_another_tenants_cards_answer_404_on_every_path(
    client: httpx.AsyncClient, admin: Person, rival: Person
) -> None:
    receipt = (await declared(client, admin, *desk(), key="the-same-key")).json()
    root = receipt["root"]
    reference = {key: root[key] for key in ("kind", "space", "name", "version")}
    uid = root["uid"]
    answers = [
        await client.get("/v1/cards/by-ref", params=reference, headers=rival.headers),
        await client.delete("/v1/cards/by-ref", params=reference, headers=rival.headers),
        await client.get(f"/v1/cards/by-uid/Service/{uid}", headers=rival.headers),
        await client.delete(f"/v1/cards/by-uid/Service/{uid}", headers=rival.headers),
        await client.post(f"/v1/cards/by-uid/Service/{uid}/deactivate", headers=rival.headers),
        await client.post(f"/v1/cards/by-uid/Service/{uid}/reactivate", headers=rival.headers),
        await client.post(f"/v1/cards/{uid}/complete", headers=rival.headers),
        await client.get(f"/v1/cards/{uid}/artifacts", headers=rival.headers),
        await client.get("/v1/cards/Service/support/support-desk/latest", headers=rival.headers),
        await client.post(
            "/v1/cards/download/init",
            json={"card_uid": uid, "relative_path": "x"},
            headers=rival.headers,
        ),
    ]
    assert {code_of(answer, 404) for answer in answers} == {"WYRD_REGISTRY_404_CARD_NOT_FOUND"}
    assert (await client.get("/v1/cards", headers=rival.headers)).json() == {"items": []}
    theirs = await declared(client, rival, *desk(), key="the-same-key")
    assert theirs.status_code == 200
    assert theirs.json()["root"]["uid"] != uid
    assert (await client.get(f"/v1/cards/by-uid/Service/{uid}", headers=admin.headers)).status_code == 200
