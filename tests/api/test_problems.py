"""Every door answers a problem document with a code, a request id, and nothing of the inside."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

from api.app import create_app
from api.dependencies import Router, StrictRoute, refused_with
from api.problems import Document, problem_document
from api.services import Services
from tests.api.conftest import Person
from tests.api.routes_of import api_routes
from wyrd.errors import Code, WyrdError, code_named

BAD = {
    "not json": b"{",
    "two documents": b"{} {}",
    "nan": b'{"files": [NaN]}',
    "infinity": b'{"files": -Infinity}',
    "number out of range": b'{"files": 1e999}',
    "duplicate keys": b'{"files": [], "files": []}',
    "deep nesting": b'{"files": ' + b"[" * 500 + b"]" * 500 + b"}",
    "very deep nesting": b"[" * 20_000,
    "not utf-8": b'{"files": "\xff"}',
    "utf-16": '{"files": []}'.encode("utf-16"),
    "lone surrogate": b'{"files": "\\ud800"}',
    "wrong shape": b'{"files": 3}',
    "not an object": b"[]",
    "null": b"null",
    "empty": b"",
    "unknown member": b'{"files": [], "more": 1}',
    "bad digest": b'{"files": [{"sha256": "ABC", "size_bytes": 1}]}',
    "bool for a number": b'{"files": [{"sha256": "%s", "size_bytes": true}]}' % (b"a" * 64),
    "text for a number": b'{"files": [{"sha256": "%s", "size_bytes": "1"}]}' % (b"a" * 64),
    "negative size": b'{"files": [{"sha256": "%s", "size_bytes": -1}]}' % (b"a" * 64),
}


def assert_problem(answer: httpx.Response, code: Code, status: int | None = None) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = json.loads(answer.content, parse_constant=pytest.fail)
    assert document["code"] == code.value, document
    assert code_named(document["code"]) is not None
    assert document["status"] == answer.status_code == (status or code.status)
    assert set(document) >= {"type", "title", "detail", "remediation", "details", "request_id"}
    assert document["request_id"] == answer.headers["wyrd-request-id"]
    assert document["detail"]
    assert "Traceback" not in answer.text
    return document


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_body_is_a_400_that_names_the_reason(
    client: httpx.AsyncClient, admin: Person, name: str
) -> None:
    headers = {**admin.headers, "content-type": "application/json"}
    answer = await client.post("/v1/verification/evidence", content=BAD[name], headers=headers)
    assert_problem(answer, Code.SPEC_400_VALIDATION)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
async def test_another_content_type_is_a_400_that_names_it(
    client: httpx.AsyncClient, admin: Person, kind: str
) -> None:
    headers = {**admin.headers, "content-type": kind}
    answer = await client.post("/v1/verification/evidence", content=b'{"files": []}', headers=headers)
    assert assert_problem(answer, Code.SPEC_400_VALIDATION)["details"]["field"] == "content-type"


async def test_a_field_at_fault_is_named_by_its_path_and_its_value_is_not_repeated(
    client: httpx.AsyncClient, admin: Person
) -> None:
    body = {"files": [{"sha256": "0" * 64, "size_bytes": "s3cret"}]}
    answer = await client.post("/v1/verification/evidence", json=body, headers=admin.headers)
    document = assert_problem(answer, Code.SPEC_400_VALIDATION)
    assert document["details"]["field"] == "files[0].size_bytes"
    assert "s3cret" not in answer.text


async def test_an_unknown_address_is_a_404_problem(client: httpx.AsyncClient) -> None:
    for path in ("/", "/v1/nothing", "/v1/verification/evidence/", "/v1/principals/", "/redoc"):
        assert_problem(await client.get(path), Code.SPEC_404_NOT_FOUND)


@pytest.mark.parametrize("path", ["/v1/principals/a%00b/roles", "/v1/principals?name=a%00b", "/%00"])
async def test_a_nul_in_an_address_is_a_400(client: httpx.AsyncClient, admin: Person, path: str) -> None:
    assert_problem(await client.get(path, headers=admin.headers), Code.SPEC_400_VALIDATION)


async def test_a_wrong_method_is_a_405_problem_that_says_which_are_allowed(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/v1/verification/evidence")
    assert_problem(answer, Code.SPEC_404_NOT_FOUND, status=405)
    assert answer.headers["allow"] == "POST"


async def test_an_announced_body_over_the_limit_is_a_413(client: httpx.AsyncClient, admin: Person) -> None:
    answer = await client.post(
        "/v1/verification/evidence", content=b"x" * (64 * 1024 + 1), headers=admin.headers
    )
    document = assert_problem(answer, Code.SPEC_413_PAYLOAD_TOO_LARGE)
    assert document["details"] == {"limit": 64 * 1024}


@pytest.mark.parametrize("path", ["/v1/verification/evidence", "/auth/token"])
async def test_a_chunked_body_over_the_limit_is_a_413(
    client: httpx.AsyncClient, admin: Person, path: str
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(70):
            yield b" " * 1024

    kind = "application/x-www-form-urlencoded" if "auth" in path else "application/json"
    answer = await client.post(path, content=chunks(), headers={**admin.headers, "content-type": kind})
    assert "content-length" not in answer.request.headers
    assert_problem(answer, Code.SPEC_413_PAYLOAD_TOO_LARGE)


async def test_a_body_of_exactly_the_limit_is_read(client: httpx.AsyncClient, admin: Person) -> None:
    body = b'{"files": []}'.ljust(64 * 1024)
    headers = {**admin.headers, "content-type": "application/json"}
    answer = await client.post("/v1/verification/evidence", content=body, headers=headers)
    assert answer.json() == {"uploads": []}


async def test_the_request_id_is_echoed_when_it_is_one_and_made_otherwise(
    client: httpx.AsyncClient,
) -> None:
    given = "01890000-0000-7000-8000-0000000000aa"
    assert (await client.get("/healthz", headers={"wyrd-request-id": given})).headers[
        "wyrd-request-id"
    ] == given
    for bad in ("x", "x" * 36, "a" * 5000):
        made = (await client.get("/healthz", headers={"wyrd-request-id": bad})).headers["wyrd-request-id"]
        assert UUID(made).version == 7


class Small(BaseModel):
    model_config = ConfigDict(extra="forbid")

    count: int


@pytest.fixture
async def odd(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    """An application with routes that fail in ways no real route should."""
    app: FastAPI = create_app(services)
    router = Router()

    @router.get("/fails")
    async def fails() -> None:
        raise RuntimeError("the secret is swordfish")

    @router.get("/refuses")
    async def refuses() -> None:
        raise WyrdError(Code.STORAGE_400_SIZE_MISMATCH, "no", expected=1, actual=2)

    @router.post("/small")
    @refused_with(Code.REGISTRY_400_INVALID_CARD_SPEC)
    async def small(body: Small) -> Document:
        return Document({"count": body.count})

    @router.get("/big")
    async def big() -> Document:
        return Document({"big": 2**80, "half": "\ud800", "text": "grüße"})

    @router.get("/nan")
    async def nan() -> Document:
        return Document({"score": float("nan")})

    app.router.routes.extend(router.routes)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://wyrd.test") as client:
        yield client


async def test_an_unhandled_failure_is_a_500_logged_with_its_request_id(
    odd: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "wyrd.api"):
        answer = await odd.get("/fails")
    document = assert_problem(answer, Code.SPEC_500_INTERNAL)
    assert "swordfish" not in answer.text
    assert document["request_id"] in caplog.text
    assert "swordfish" in caplog.text


async def test_details_of_data_carrying_families_travel_as_variant_and_data(odd: httpx.AsyncClient) -> None:
    document = assert_problem(await odd.get("/refuses"), Code.STORAGE_400_SIZE_MISMATCH)
    assert document["details"] == {"variant": "size_mismatch", "data": {"expected": 1, "actual": 2}}


def test_variant_details_that_are_complete_already_are_left_alone() -> None:
    error = WyrdError(Code.STORAGE_400_SIZE_MISMATCH, "no", variant="size_mismatch", data={"expected": 1})
    assert problem_document(error, None)["details"] == {"variant": "size_mismatch", "data": {"expected": 1}}


async def test_a_route_may_name_the_code_its_models_refuse_with(odd: httpx.AsyncClient) -> None:
    answer = await odd.post("/small", json={"count": "many"})
    assert assert_problem(answer, Code.REGISTRY_400_INVALID_CARD_SPEC)["details"]["field"] == "count"


async def test_big_integers_and_half_surrogates_survive_an_answer(odd: httpx.AsyncClient) -> None:
    answer = await odd.get("/big")
    assert json.loads(answer.content) == {"big": 2**80, "half": "\ud800", "text": "grüße"}


async def test_an_answer_never_holds_nan(odd: httpx.AsyncClient) -> None:
    answer = await odd.get("/nan")
    json.loads(answer.content, parse_constant=pytest.fail)


async def test_every_route_reads_its_body_strictly(app: FastAPI) -> None:
    assert len(api_routes(app)) >= 15
    assert [route.path for route in api_routes(app) if not isinstance(route, StrictRoute)] == []
