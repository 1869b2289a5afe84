"""operator-connection: what each command asks and prints, and where a secret comes from."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.sdk.peer import NOW, Answer, Peer, full_result
from wyrd.wire.ids import uuid7

PATH = "/v1/operator-connections"
SECRET = "the-very-secret"


def view(body: dict[str, Any], **more: Any) -> dict[str, Any]:
    found = {
        "connection_id": uuid7(),
        "provider": body["provider"],
        "name": body["name"],
        "status": "active",
        "created_at": NOW,
        "updated_at": NOW,
    }
    if "auth" in body:
        found["auth"] = {name: body["auth"][name] for name in ("scheme", "name") if name in body["auth"]}
    return {**found, **{name: body[name] for name in ("workspace_id", "origin") if name in body}, **more}


@pytest.fixture(autouse=True)
def server(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> Peer:
    monkeypatch.delenv("WYRD_CONNECTION_SECRET", raising=False)
    peer.routes["POST", PATH] = lambda one: Answer(201, view(one.json))
    return peer


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def sent(peer: Peer, method: str = "POST", path: str = PATH) -> Any:
    (one,) = peer.requests(method, path)
    return one.json


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (
            ("slack", "desk", "--workspace-id", "T1"),
            {"provider": "slack", "name": "desk", "workspace_id": "T1", "bot_token": SECRET},
        ),
        (("pager_duty", "desk"), {"provider": "pager_duty", "name": "desk", "integration_key": SECRET}),
        (
            ("http", "desk", "--origin", "https://x.example", "--auth", "bearer"),
            {
                "provider": "http",
                "name": "desk",
                "origin": "https://x.example",
                "auth": {"scheme": "bearer", "token": SECRET},
            },
        ),
        (
            ("http", "desk", "--origin", "https://x.example", "--auth", "basic", "--username", "ann"),
            {
                "provider": "http",
                "name": "desk",
                "origin": "https://x.example",
                "auth": {"scheme": "basic", "username": "ann", "password": SECRET},
            },
        ),
        (
            ("http", "desk", "--origin", "https://x.example", "--auth", "header", "--header", "X-Key"),
            {
                "provider": "http",
                "name": "desk",
                "origin": "https://x.example",
                "auth": {"scheme": "header", "name": "X-Key", "value": SECRET},
            },
        ),
    ],
    ids=["slack", "pager_duty", "bearer", "basic", "header"],
)
@pytest.mark.parametrize("source", ["environment", "input"])
def test_create_sends_the_secret_and_never_prints_it(
    wyrd: Command,
    peer: Peer,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    body: dict[str, Any],
    source: str,
) -> None:
    typed(monkeypatch, "" if source == "environment" else f"{SECRET}\nmore\n")
    if source == "environment":
        monkeypatch.setenv("WYRD_CONNECTION_SECRET", SECRET)
    said = wyrd("operator-connection", "create", *arguments)
    assert said.code == 0, said.err
    assert sent(peer) == body
    assert "desk" in said.out
    assert SECRET not in said.out + said.err


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("pager_duty", "desk"), "WYRD_CONNECTION_SECRET"),
        (("http", "desk", "--origin", "https://x.example"), "--auth"),
        (("http", "desk", "--auth", "basic"), "--username"),
        (("http", "desk", "--auth", "header"), "--header"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_asked(
    wyrd: Command, peer: Peer, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], field: str
) -> None:
    typed(monkeypatch, "")
    said = wyrd("operator-connection", "create", *arguments, "--format", "json")
    assert said.code == 64
    assert said.error["details"]["field"] == field
    assert peer.requests("POST", PATH) == []


def test_no_option_and_no_argument_takes_a_secret(wyrd: Command) -> None:
    for command in ("create", "update"):
        told = wyrd("operator-connection", command, "--help").out
        assert not [
            word for word in ("--token", "--password", "--bot-token", "--integration-key") if word in told
        ]


def test_list_get_and_disable_know_a_connection_by_name_and_by_id(wyrd: Command, peer: Peer) -> None:
    one = view({"provider": "slack", "name": "desk-slack", "workspace_id": "T1"})
    two = view({"provider": "pager_duty", "name": "desk-pager"}, status="disabled")
    peer.routes["GET", PATH] = lambda _: Answer(body=[one, two])
    peer.routes["DELETE", f"{PATH}/{one['connection_id']}"] = lambda _: Answer(
        body={**one, "status": "disabled"}
    )
    listed = wyrd("operator-connection", "list").out
    assert "desk-slack" in listed
    assert "disabled" in listed
    assert wyrd("operator-connection", "list", "--format", "json").json == {"connections": [one, two]}
    for named in (two["name"], two["connection_id"]):
        assert wyrd("operator-connection", "get", named, "--format", "json").json == two
    assert "desk-slack is disabled" in wyrd("operator-connection", "disable", "desk-slack").out
    missing = wyrd("operator-connection", "get", "nobody", "--format", "json")
    assert (missing.code, missing.error["code"]) == (66, "WYRD_OPERATOR_404_CONNECTION_NOT_FOUND")


def test_update_sends_what_is_named_and_asks_for_a_secret_only_then(
    wyrd: Command, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth = {"scheme": "header", "name": "X-Key"}
    one = view({"provider": "http", "name": "desk-http", "origin": "https://x.example", "auth": auth})
    path = f"{PATH}/{one['connection_id']}"
    peer.routes["GET", PATH] = lambda _: Answer(body=[one])
    peer.routes["PATCH", path] = lambda _: Answer(body=one)
    typed(monkeypatch, "")
    assert wyrd("operator-connection", "update", "desk-http", "--status", "disabled").code == 0
    assert sent(peer, "PATCH", path) == {"provider": "http", "status": "disabled"}
    typed(monkeypatch, f"{SECRET}\n")
    said = wyrd("operator-connection", "update", "desk-http", "--origin", "https://y.example")
    assert said.code == 0, said.err
    assert peer.requests("PATCH", path)[-1].json == {
        "provider": "http",
        "origin": "https://y.example",
        "auth": {"scheme": "header", "name": "X-Key", "value": SECRET},
    }


def test_the_deliveries_of_an_execution_are_shown_under_its_result(wyrd: Command, peer: Peer) -> None:
    said = full_result()
    told = {"uid": uuid7()}
    failed = {"code": "attempts_exhausted", "message": "3 attempts failed"}
    dispatches = [
        {"dispatch_id": uuid7(), "operator": told, "status": "delivered", "error": None, "attempts": [{}]},
        {"dispatch_id": uuid7(), "operator": {"digest": "d" * 64}, "status": "failed", "error": failed},
    ]
    document = {
        "execution_id": said["execution_id"],
        "status": "completed",
        "result": said,
        "dispatches": dispatches,
    }
    path = f"/v1/verification/executions/{said['execution_id']}"
    peer.routes["GET", path] = lambda _: Answer(body=document)
    lines = wyrd("executions", "show", said["execution_id"]).out.splitlines()
    one = next(line for line in lines if told["uid"] in line)
    assert "delivered  1" in one
    two = next(line for line in lines if "d" * 12 in line)
    assert "3 attempts failed" in two
