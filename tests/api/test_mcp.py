"""The MCP door over a real socket: the library's own client in both protocols, and plain HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from activities.temporal import connect, ensure_search_attributes
from api.mcp.door import MOST_BYTES
from api.mcp.tools import TOOLS, Asking, NoArguments, Tool
from api.services import Services
from api.verification import Verification
from store.caller import Role
from tests.api.conftest import Person, person
from tests.api.test_problems import assert_problem
from tests.servers import free_ports
from wyrd.errors import Code
from wyrd.wire.ids import uuid7

MODES = ("legacy", "auto", "2026-07-28")
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
VERIFIER = {
    "inputs": {"answer": {"type": "json"}},
    "requirements": [
        {
            "id": "says-yes",
            "statement": "It says yes",
            "check": {"kind": "assert", "path": "inputs.answer", "operator": "equals", "expected": "yes"},
        }
    ],
}


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


@pytest.fixture
async def verifying(services: Services, temporal_address: str, app: FastAPI) -> None:
    """Makes the application verify; its lifespan closes what is opened here."""
    settings = services.settings.model_copy(update={"temporal_address": temporal_address})
    services.temporal = await connect(settings)
    await ensure_search_attributes(services.temporal)
    verification = Verification.build(
        settings, services.database, services.blobs, services.temporal, services.bifrost.cuts
    )
    await verification.open()
    services.verifying = verification


@contextlib.asynccontextmanager
async def agent(url: str, who: Person, mode: str = "auto") -> AsyncIterator[Client]:
    """The library's client, connected as that person."""
    async with (
        httpx2.AsyncClient(headers={"x-wyrd-access-token": f"Bearer {who.key}"}, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def document(result: Any) -> dict[str, Any]:
    """What a tool said: one text of JSON, and the same as data."""
    assert isinstance(result, CallToolResult)
    [content] = result.content
    assert content.type == "text"
    found: dict[str, Any] = json.loads(content.text)
    assert result.structured_content == found
    return found


async def problem_of(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    found = document(result)
    assert {"type", "title", "status", "detail", "code", "remediation", "request_id"} <= set(found)
    return found


async def answer_of(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return document(result)


async def declared(url: str, who: Person, *names: str) -> list[str]:
    """Verifiers of those names; their uids."""
    submissions = [
        {
            "apiVersion": "wyrd/v1",
            "kind": "Verifier",
            "metadata": {"name": name, "space": "support", "version": "1.0.0"},
            "spec": VERIFIER,
        }
        for name in names
    ]
    headers = {**who.headers, "idempotency-key": f"declare-{uuid7()}"}
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{url}/v1/cards", json={"submissions": submissions}, headers=headers)
    assert answer.status_code == 200, answer.text
    return [one["card_ref"]["uid"] for one in answer.json()["outcomes"]]


@pytest.mark.parametrize("mode", MODES)
async def test_every_protocol_lists_the_tools_with_closed_arguments(
    url: str, admin: Person, mode: str
) -> None:
    async with agent(url, admin, mode) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == list(TOOLS)
        for tool in listed:
            assert tool.input_schema["type"] == "object"
            assert tool.input_schema["additionalProperties"] is False
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True


@pytest.mark.parametrize("mode", MODES)
async def test_cards_are_listed_and_read_as_by_the_routes(url: str, admin: Person, mode: str) -> None:
    uids = await declared(url, admin, "says-yes", "says-no")
    async with agent(url, admin, mode) as client, httpx.AsyncClient(headers=admin.headers) as http:
        page = await answer_of(client, "cards.list", {"kind": "Verifier", "limit": 1})
        routed = await http.get(f"{url}/v1/cards", params={"kind": "Verifier", "limit": 1})
        assert page == routed.json()
        rest = await answer_of(client, "cards.list", {"kind": "Verifier", "cursor": page["next_cursor"]})
        assert {one["card_uid"] for one in page["items"] + rest["items"]} == set(uids)
        by_uid = (await http.get(f"{url}/v1/cards/by-uid/Verifier/{uids[0]}")).json()
        name = {"kind": "Verifier", "space": "support", "name": "says-yes"}
        for more in ({"version": "1.0.0"}, {}, {"version": "1.0.0", "uid": uids[0]}):
            assert await answer_of(client, "cards.get", {"card_ref": {**name, **more}}) == by_uid
        told = await problem_of(client, "cards.get", {"card_ref": {**name, "uid": uids[1]}})
        assert told["code"] == Code.REGISTRY_404_CARD_NOT_FOUND.value


async def test_tables_are_listed_and_described_as_by_the_routes(
    url: str, admin: Person, rival: Person
) -> None:
    body = {
        "namespace": "datasets",
        "name": "tickets",
        "fields": [{"name": "ticket_id", "data_type": "Utf8"}],
    }
    name = {"namespace": "vala.datasets", "name": "tickets"}
    async with httpx.AsyncClient(headers=admin.headers) as http, agent(url, admin) as client:
        made = await http.post(f"{url}/v1/bifrost/tables", json=body)
        assert made.status_code == 201, made.text
        listed = await answer_of(client, "bifrost.list_tables", {})
        assert listed["tables"] == (await http.get(f"{url}/v1/bifrost/tables")).json()
        assert {"vala.traces", "vala.datasets"} <= {one["namespace"] for one in listed["tables"]}
        routed = await http.get(f"{url}/v1/bifrost/tables/vala.datasets/tickets")
        assert await answer_of(client, "bifrost.describe_table", name) == routed.json()
    async with agent(url, rival) as client:
        told = await problem_of(client, "bifrost.describe_table", name)
        assert told["code"] == Code.VALA_404_BIFROST_TABLE_NOT_FOUND.value
        assert told["details"] == {"variant": "table_not_found", "data": {"table": "vala.datasets.tickets"}}


async def test_a_query_is_answered_as_by_the_route_and_within_its_limits(url: str, admin: Person) -> None:
    sql = "SELECT n, $1 AS word FROM range(5) AS t(n) ORDER BY n"
    async with httpx.AsyncClient(headers=admin.headers, timeout=60) as http, agent(url, admin) as client:
        routed = await http.post(f"{url}/v1/query", json={"sql": sql, "params": ["a"]})
        asked = {"sql": sql, "params": ["a"]}
        found = await answer_of(client, "bifrost.query", asked)
        assert found == routed.json()
        assert found["row_count"] == 5
        assert len((await answer_of(client, "bifrost.query", {**asked, "max_rows": 5}))["rows"]) == 5
        for arguments, code in (
            ({**asked, "max_rows": 4}, Code.VALA_413_QUERY_RESULT_TOO_LARGE),
            ({"sql": "SELECT n FROM range(1001) AS t(n)"}, Code.VALA_413_QUERY_RESULT_TOO_LARGE),
            (
                {"sql": "SELECT repeat('x', 200) FROM range(10) AS t(n)", "max_bytes": 1000},
                Code.VALA_413_QUERY_RESULT_TOO_LARGE,
            ),
            ({**asked, "max_rows": 10_001}, Code.SPEC_400_VALIDATION),
            ({**asked, "max_bytes": 16 * 1024 * 1024 + 1}, Code.SPEC_400_VALIDATION),
            ({**asked, "max_rows": True}, Code.SPEC_400_VALIDATION),
            ({"sql": "DROP TABLE vala.traces.spans"}, Code.VALA_400_QUERY_INVALID_SQL),
            ({"sql": "SELECT 1; SELECT 2"}, Code.VALA_400_QUERY_INVALID_SQL),
        ):
            assert (await problem_of(client, "bifrost.query", arguments))["code"] == code.value, arguments


async def test_a_role_that_may_not_read_rows_may_not_query(
    url: str, services: Services, admin: Person
) -> None:
    nobody = await person(services, "acme", "nora")
    async with agent(url, nobody) as client:
        told = await problem_of(client, "bifrost.query", {"sql": "SELECT 1"})
        assert told["status"] == 403
        assert (await problem_of(client, "bifrost.list_tables", {}))["status"] == 403


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_query_ends_when_its_agent_hangs_up(
    url: str, services: Services, admin: Person, era: str
) -> None:
    oracle = services.bifrost.oracle
    slow = "SELECT count(*) AS n FROM range(100000000) a, range(10000) b"
    message = modern("tools/call", name="bifrost.query", arguments={"sql": slow})
    headers = headers_of(admin, message)
    if era == "handshake":
        del message["params"]["_meta"], headers["mcp-protocol-version"]
    async with httpx.AsyncClient(timeout=60) as http:
        asking = asyncio.create_task(http.post(f"{url}/mcp", json=message, headers=headers))
        while not oracle.running(admin.tenant):
            assert not asking.done(), asking.result().text
            await asyncio.sleep(0.01)
        asking.cancel()
    while oracle.running(admin.tenant):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_executions_and_their_results_are_those_of_the_routes(
    url: str, admin: Person, rival: Person, services: Services, verifying: None
) -> None:
    sibling = {"sibling": {"kind": "Verifier", "name": "says-yes", "version": "1.0.0", "space": "support"}}
    cards = [
        {
            "apiVersion": "wyrd/v1",
            "kind": kind,
            "metadata": {"name": name, "space": "support", "version": "1.0.0"},
            "spec": spec,
        }
        for kind, name, spec in (
            ("Verifier", "says-yes", VERIFIER),
            ("Service", "desk", {"verified_by": [{"verifier": sibling}]}),
        )
    ]
    headers = {**admin.headers, "idempotency-key": f"declare-{uuid7()}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
        outcomes = (await http.post("/v1/cards", json={"submissions": cards})).json()["outcomes"]
        uids = {one["card_ref"]["kind"]: one["card_ref"]["uid"] for one in outcomes}
        body = {
            "verifier_card_uid": uids["Verifier"],
            "card_uid": uids["Service"],
            "run_id": uuid7(),
            "inputs": {"answer": {"kind": "json", "value": "yes"}},
        }
        enqueued = await http.post("/v1/verification/enqueue", json=body)
        execution_id = enqueued.json()["execution_id"]
        async with agent(url, admin) as client:
            page = await answer_of(client, "verification.executions", {"subject": uids["Service"]})
            assert page == (await http.get("/v1/verification/executions")).json()
            assert [one["execution_id"] for one in page["items"]] == [execution_id]
            none = await answer_of(client, "verification.executions", {"since": "2999-01-01T00:00:00Z"})
            assert none["items"] == []
            result = await answer_of(client, "verification.result", {"execution_id": execution_id})
            assert result["execution_id"] == execution_id
    async with agent(url, rival) as client:
        told = await problem_of(client, "verification.result", {"execution_id": execution_id})
        assert told["code"] == Code.VERIFICATION_404_EXECUTION_NOT_FOUND.value
        assert (await answer_of(client, "verification.executions", {}))["items"] == []


async def test_what_a_role_may_not_read_is_a_tool_error_with_the_problem(
    url: str, services: Services, admin: Person
) -> None:
    await declared(url, admin, "says-yes")
    nobody = await person(services, "acme", "nora")
    name = {"kind": "Verifier", "space": "support", "name": "says-yes"}
    async with agent(url, nobody) as client:
        told = await problem_of(client, "cards.get", {"card_ref": name})
        assert (told["code"], told["status"]) == (Code.PERMISSION_403_DENIED_RBAC.value, 403)
    viewer = await person(services, "acme", "vic", Role.VIEWER)
    async with agent(url, viewer) as client:
        assert await answer_of(client, "cards.get", {"card_ref": name})


async def test_another_tenants_cards_are_not_there(url: str, admin: Person, rival: Person) -> None:
    [uid] = await declared(url, admin, "says-yes")
    async with agent(url, rival) as client:
        assert (await answer_of(client, "cards.list", {}))["items"] == []
        ref = {"kind": "Verifier", "space": "support", "name": "says-yes", "uid": uid}
        told = await problem_of(client, "cards.get", {"card_ref": ref})
        assert told["code"] == Code.REGISTRY_404_CARD_NOT_FOUND.value


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("cards.list", {"colour": "red"}, "colour"),
        ("cards.get", {}, "card_ref"),
        ("cards.get", {"card_ref": {"kind": "Verifier"}}, "card_ref.name"),
        ("cards.get", {"card_ref": {"kind": "Verifier", "name": "n", "hue": 1}}, "card_ref.hue"),
        ("bifrost.list_tables", {"namespace": "vala"}, "namespace"),
        ("bifrost.describe_table", {"namespace": "vala.datasets"}, "name"),
        ("verification.executions", {"limit": "many"}, "limit"),
        ("verification.executions", {"since": "yesterday"}, "since"),
        ("verification.result", {"execution_id": 7}, "execution_id"),
    ],
)
async def test_wrong_arguments_are_told_by_name(
    url: str, admin: Person, tool: str, arguments: dict[str, Any], field: str
) -> None:
    async with agent(url, admin) as client:
        told = await problem_of(client, tool, arguments)
    assert told["code"] == Code.SPEC_400_VALIDATION.value
    assert told["details"]["field"] == field


@pytest.mark.parametrize("mode", MODES)
async def test_an_unknown_tool_is_told_and_the_known_ones_named(url: str, admin: Person, mode: str) -> None:
    async with agent(url, admin, mode) as client:
        with pytest.raises(MCPError, match=r"no tool 'cards\.drop'.*cards\.list"):
            await client.call_tool("cards.drop", {})


async def test_a_fault_of_ours_shows_nothing_of_itself(
    url: str, admin: Person, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr("api.mcp.tools.card_page", broken)
    async with agent(url, admin) as client:
        told = await problem_of(client, "cards.list", {})
    assert told["code"] == Code.SPEC_500_INTERNAL.value
    assert "secret" not in json.dumps(told)


async def test_values_that_few_encoders_can_write_arrive_as_text(
    url: str, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"number": 2**70, "half": "\ud800"}

    async def answer(_asking: Asking, _asked: Any) -> dict[str, Any]:
        return held

    monkeypatch.setitem(TOOLS, "cards.list", Tool("cards.list", "", NoArguments, answer))
    for mode in MODES:
        async with agent(url, admin, mode) as client:
            result = await client.call_tool("cards.list", {})
        [content] = result.content
        assert content.type == "text"
        assert json.loads(content.text) == held
        assert result.structured_content is None


def modern(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}


def headers_of(who: Person, message: dict[str, Any]) -> dict[str, str]:
    """What the published proxy sends beside a message."""
    sent = {
        **who.headers,
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": message["method"],
        "accept": "text/event-stream, application/json",
        "wyrd-request-id": uuid7(),
    }
    if "name" in message["params"]:
        sent["mcp-name"] = message["params"]["name"]
    return sent


async def test_the_stateless_protocol_needs_no_handshake_and_keeps_no_session(
    url: str, admin: Person
) -> None:
    async with httpx.AsyncClient() as http:
        for message in (
            modern("server/discover"),
            modern("tools/list"),
            modern("tools/call", name="cards.list", arguments={}),
        ):
            sent = headers_of(admin, message)
            answer = await http.post(f"{url}/mcp", json=message, headers=sent)
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["wyrd-request-id"] == sent["wyrd-request-id"]
            assert "mcp-session-id" not in answer.headers
            assert answer.json()["result"]["resultType"] == "complete"
            if message["method"] == "server/discover":
                found = answer.json()["result"]
                assert "2026-07-28" in found["supportedVersions"]
                assert {"capabilities", "ttlMs", "cacheScope"} <= set(found)
                assert "tools" in found["capabilities"]


async def test_the_first_protocol_answers_with_json_and_without_a_session(url: str, admin: Person) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        },
    }
    headers = {**admin.headers, "accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{url}/mcp", json=message, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["result"]["protocolVersion"] == "2025-06-18"
        assert "mcp-session-id" not in answer.headers
        for method in ("GET", "DELETE"):
            refused = await http.request(method, f"{url}/mcp", headers=headers)
            assert refused.status_code == 405
            assert refused.json()["code"] == Code.SPEC_404_NOT_FOUND.value


async def test_without_a_credential_there_is_only_the_same_401(url: str) -> None:
    async with httpx.AsyncClient() as http:
        for headers, code in (
            ({}, Code.AUTH_401_UNAUTHENTICATED),
            ({"x-wyrd-access-token": "Bearer nothing"}, Code.AUTH_401_INVALID_TOKEN),
        ):
            answer = await http.post(f"{url}/mcp", json=modern("server/discover"), headers=headers)
            assert_problem(answer, code)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", Code.SPEC_400_VALIDATION),
        (b'{"id": 1, "id": 2}', Code.SPEC_400_VALIDATION),
        (b'{"n": NaN}', Code.SPEC_400_VALIDATION),
        (b"[" * 100_000, Code.SPEC_400_VALIDATION),
    ],
    ids=["cut off", "twice the same name", "no JSON", "nested without end"],
)
async def test_a_body_is_read_strictly(url: str, admin: Person, content: bytes, code: Code) -> None:
    headers = {**headers_of(admin, modern("tools/list")), "content-type": "application/json"}
    # The test server takes little; a body over the limit of MCP is over the limit of every route.
    assert len(content) > 64 * 1024 or len(content) < MOST_BYTES
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{url}/mcp", content=content[: 60 * 1024], headers=headers)
    assert_problem(answer, code)


async def test_messages_that_are_no_request_are_refused_by_the_protocol(url: str, admin: Person) -> None:
    headers = headers_of(admin, modern("tools/list"))
    async with httpx.AsyncClient() as http:
        for body in ([], [modern("tools/list")], {"jsonrpc": "1.0"}, "text", 7):
            answer = await http.post(f"{url}/mcp", json=body, headers=headers)
            assert answer.status_code in (202, 400), (body, answer.text)
            assert "error" in answer.json()
        later = {**headers, "mcp-protocol-version": "2999-01-01"}
        answer = await http.post(f"{url}/mcp", json=modern("tools/list"), headers=later)
        assert answer.status_code == 400
        assert "error" in answer.json()


async def test_many_agents_at_once_get_their_own_answers(url: str, admin: Person, rival: Person) -> None:
    await declared(url, admin, "says-yes")
    message = modern("tools/call", name="cards.list", arguments={})
    limits = httpx.Limits(max_connections=20)
    async with httpx.AsyncClient(limits=limits, timeout=60) as http:

        async def ask(who: Person) -> int:
            answer = await http.post(f"{url}/mcp", json=message, headers=headers_of(who, message))
            return len(json.loads(answer.json()["result"]["content"][0]["text"])["items"])

        found = await asyncio.gather(*(ask(who) for who in (admin, rival) * 30))
    assert found == [1, 0] * 30
