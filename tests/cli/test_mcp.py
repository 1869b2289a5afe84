"""`wyrd mcp`: what a peer says on standard input reaches `/mcp`, and what that answers comes back."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

import wyrd as package
from tests.cli.conftest import Command
from tests.sdk.peer import KEY, Answer, Peer, Seen, problem
from wyrd._client.mcp import MOST_BYTES
from wyrd.cli.app import run
from wyrd.errors import Code

SDK = Path(package.__file__).resolve().parents[1]
MODERN = "io.modelcontextprotocol/protocolVersion"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, peer: Peer) -> Any:
    """Say lines to `wyrd mcp`; the messages that come back."""
    peer.routes["POST", "/mcp"] = echoed

    def say(*lines: Any, command: tuple[str, ...] = ("mcp",), code: int = 0) -> list[dict[str, Any]]:
        raw = b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in lines)
        out = io.BytesIO()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="utf-8"))
        assert run(command) == code
        return [json.loads(line) for line in out.getvalue().splitlines()]

    return say


def echoed(one: Seen) -> Answer:
    """An MCP server whose every result is what was asked."""
    message = one.json
    if "id" not in message:
        return Answer(202, raw=b"")
    result: dict[str, Any] = {"asked": message.get("params")}
    if message.get("method") == "initialize":
        result["protocolVersion"] = "2025-11-25"
    return Answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


def request(ident: Any, method: str = "tools/call", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}


@pytest.mark.parametrize("command", [("mcp",), ("mcp", "proxy")])
def test_messages_are_passed_on_with_the_clients_credential(
    said: Any, peer: Peer, command: tuple[str, ...]
) -> None:
    answers = said(request(1, name="cards.list"), request("b", "tools/list"), command=command)
    assert {one["id"] for one in answers} == {1, "b"}
    for one in peer.requests("POST", "/mcp"):
        assert one.headers["x-wyrd-access-token"] == f"Bearer {peer.tokens[-1]}"
        assert one.headers["wyrd-request-id"]
        assert "mcp-protocol-version" not in one.headers


def test_what_the_handshake_agreed_on_goes_with_every_later_message(said: Any, peer: Peer) -> None:
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answers = said(request(0, "initialize"), notice, request(1, "tools/list"))
    assert [one["id"] for one in answers] == [0, 1]
    by_method = {one.json["method"]: one.headers for one in peer.requests("POST", "/mcp")}
    assert "mcp-protocol-version" not in by_method["initialize"]
    assert by_method["notifications/initialized"]["mcp-protocol-version"] == "2025-11-25"
    assert by_method["tools/list"]["mcp-protocol-version"] == "2025-11-25"


def test_a_stateless_message_takes_its_own_headers_along(said: Any, peer: Peer) -> None:
    said(request(1, name="cards.get", _meta={MODERN: "2026-07-28"}))
    [one] = peer.requests("POST", "/mcp")
    assert one.headers["mcp-protocol-version"] == "2026-07-28"
    assert one.headers["mcp-method"] == "tools/call"
    assert one.headers["mcp-name"] == "cards.get"


@pytest.mark.parametrize("name", ["a\r\nx-evil: 1", "smörgås", 7, None])
def test_what_cannot_be_a_header_is_left_to_the_server_to_refuse(said: Any, peer: Peer, name: Any) -> None:
    said(request(1, name=name, _meta={MODERN: "2026-07-28"}))
    [one] = peer.requests("POST", "/mcp")
    assert "mcp-name" not in one.headers
    assert "x-evil" not in one.headers


def test_refusals_of_the_protocol_come_back_as_they_are(said: Any, peer: Peer) -> None:
    refusal = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such tool"}}
    peer.queue("POST", "/mcp", Answer(400, raw=json.dumps(refusal, indent=1).encode()))
    assert said(request(1)) == [refusal]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (problem(401, Code.AUTH_401_CREDENTIAL_REVOKED.value), Code.AUTH_401_CREDENTIAL_REVOKED),
        (problem(503, Code.SERVER_503_NOT_READY.value), Code.SERVER_503_NOT_READY),
        (Answer(502, raw=b"<html>bad gateway</html>"), Code.SPEC_502_UPSTREAM_FAILURE),
        (Answer(200, raw=b"hello"), Code.SPEC_502_UPSTREAM_FAILURE),
        (Answer(200, raw=b"[]"), Code.SPEC_502_UPSTREAM_FAILURE),
    ],
    ids=["revoked", "not ready", "another server", "no JSON", "no message"],
)
def test_other_refusals_are_told_to_the_one_who_asked(
    said: Any, peer: Peer, answer: Answer, code: Code
) -> None:
    peer.queue("POST", "/mcp", answer, answer)
    [told] = said(request("ask"))
    assert told["id"] == "ask"
    assert told["error"]["data"]["code"] == code.value


def test_an_expired_token_is_renewed_once(said: Any, peer: Peer) -> None:
    peer.queue("POST", "/mcp", problem(401, Code.AUTH_401_TOKEN_EXPIRED.value))
    [answer] = said(request(1))
    assert "result" in answer
    assert len(peer.requests("POST", "/auth/token")) == 2


def test_no_server_is_an_error_for_each_request_and_none_for_a_notice(
    said: Any, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WYRD_SERVER_URL", "http://127.0.0.1:9")
    answers = said(request(1), {"jsonrpc": "2.0", "method": "notifications/x"}, request(2))
    assert {one["id"] for one in answers} == {1, 2}
    assert {one["error"]["data"]["code"] for one in answers} == {Code.CLIENT_503_TRANSPORT_DOWN.value}


def test_lines_that_cannot_be_read_are_answered_and_the_next_one_passed_on(said: Any, peer: Peer) -> None:
    long = b'"' + b"x" * (3 * MOST_BYTES) + b'"'
    answers = said(b"{", b"", b'{"id": 1, "id": 2}', long, request(7))
    assert [one.get("error", {}).get("code") for one in answers] == [-32700, -32700, -32700, None]
    assert [one["id"] for one in answers] == [None, None, None, 7]
    assert len(peer.requests("POST", "/mcp")) == 1


def test_a_slow_answer_does_not_hold_up_the_next_one(said: Any, peer: Peer) -> None:
    first = threading.Event()

    def answered(one: Seen) -> Answer:
        if one.json["id"] == "slow":
            # Answered only once the other one was: one after the other they would never end.
            assert first.wait(30)
        else:
            first.set()
        return echoed(one)

    peer.routes["POST", "/mcp"] = answered
    assert [one["id"] for one in said(request("slow"), request("quick"))] == ["quick", "slow"]


def test_without_a_credential_it_does_not_start(wyrd: Command) -> None:
    found = wyrd("mcp", "--format", "json")
    assert found.code == 77
    assert found.error["code"] == Code.CLI_401_NO_CREDENTIALS.value


async def test_an_agent_starts_it_as_a_process_and_shakes_hands(peer: Peer) -> None:
    """The library's own client, which speaks whichever protocol it finds."""

    def served(one: Seen) -> Answer:
        message = one.json
        if message["method"] == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            return Answer(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "peer", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "cards.list", "inputSchema": {"type": "object"}}]},
        }
        if message["method"] not in results:
            return Answer(202, raw=b"")
        return Answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})

    peer.routes["POST", "/mcp"] = served
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SDK),
        "WYRD_SERVER_URL": peer.url,
        "WYRD_API_KEY": KEY,
    }
    command = StdioServerParameters(command=sys.executable, args=["-m", "wyrd.cli", "mcp"], env=environment)
    async with Client(command) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["cards.list"]
