"""Exit codes, error documents, formats: what programs around the command line rely on."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import wyrd as package
from tests.cli.conftest import Command
from tests.sdk.desk import CARD
from tests.sdk.peer import Answer, Peer, problem
from wyrd.cli import output
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7

SDK = Path(package.__file__).resolve().parents[1]
REF = "default/Prompt/some-prompt@1.0.0"
WARNED = """apiVersion: wyrd/v1
kind: Verifier
metadata: {name: exact, version: 1.0.0}
spec:
  inputs:
    answer: {type: json, schema: {type: string}}
  requirements:
    - id: no-promise
      statement: The answer never promises a guaranteed refund
      check: {kind: assert, path: inputs.answer, operator: not_contains, expected: guaranteed refund}
"""
COMMANDS = [
    ("up",),
    ("serve",),
    ("worker",),
    ("declare",),
    ("get",),
    ("pull",),
    ("list",),
    ("latest",),
    ("delete",),
    ("verify",),
    ("submit",),
    ("cards", "deactivate"),
    ("cards", "reactivate"),
    ("executions", "list"),
    ("executions", "show"),
    ("executions", "wait"),
    ("executions", "cancel"),
    ("keys", "issue"),
    ("keys", "list"),
    ("keys", "revoke"),
    ("mcp", "proxy"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_help_shows_the_format_option_and_one_example(wyrd: Command, command: tuple[str, ...]) -> None:
    said = wyrd(*command, "--help")
    assert said.code == 0
    assert "--format" in said.out
    assert said.out.count("Example: ") == 1
    example = said.out.partition("Example: ")[2]
    assert f"wyrd {' '.join(command)}" in example
    assert "\n" not in example.strip()


def test_no_option_takes_a_secret(wyrd: Command) -> None:
    for command in COMMANDS:
        options = set(re.findall(r"--[a-z-]+", wyrd(*command, "--help").out))
        assert not {one for one in options if re.search("token|secret|password|credential|api-key", one)}


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "WYRD_SPEC_400_VALIDATION", 64),
        (401, "WYRD_AUTH_401_API_KEY_INVALID", 77),
        (403, "WYRD_PERMISSION_403_DENIED_RBAC", 77),
        (404, "WYRD_REGISTRY_404_CARD_NOT_FOUND", 66),
        (409, "WYRD_SPEC_409_CONFLICT", 1),
        (500, "WYRD_NOT_ONE_OF_OURS", 69),
        (503, "WYRD_SERVER_503_NOT_READY", 69),
        (507, "WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED", 74),
    ],
)
def test_a_servers_error_is_one_json_object_and_an_exit_code(
    wyrd: Command,
    peer: Peer,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    code: str,
    expected: int,
) -> None:
    monkeypatch.setattr("wyrd._client.transport.time.sleep", lambda _: None)
    peer.routes["GET", "/v1/cards/by-ref"] = lambda _: problem(status, code, "told", field="x")
    said = wyrd("get", REF, "--format", "json")
    assert said.code == expected
    assert said.out == ""
    assert set(said.error) == {
        "kind",
        "code",
        "status",
        "title",
        "message",
        "remediation",
        "details",
    }
    assert said.error["kind"] == "wyrd_cli_error"


def test_every_code_has_an_exit_code_of_the_contract() -> None:
    for member in Code:
        assert output.exit_code_of(WyrdError(member)) in {1, 64, 66, 69, 74, 77}


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("get",),
        ("get", REF, "--nonsense"),
        ("get", REF, "--format", "xml"),
        ("list", "--limit", "many"),
        ("list", "--limit", "0"),
        ("up", "--port", "70000"),
        ("verify", "polite"),
        ("verify", "polite", "--card", REF, "--input", "answer"),
        ("verify", "polite", "--card", REF, "--input", "answer=plain text"),
        ("verify", "polite", "--card", REF, "--input", "a=1", "--trace", "a=2"),
        ("verify", "polite", "--card", REF, "--run", "x"),
        ("get", "not a reference"),
        ("executions", "show", "not-an-id"),
        ("executions", "list", "--run", "not-an-id"),
        ("list", "--kind", "verifier"),
        ("latest", REF),
        ("verify", "polite", "--card", "no reference"),
        ("declare", "missing.yaml"),
        ("declare", "--check", "missing.yaml"),
        ("get", REF, "--server", "http://example.com"),
    ],
)
def test_a_usage_error_is_64_in_both_formats(wyrd: Command, peer: Peer, arguments: tuple[str, ...]) -> None:
    said = wyrd(*arguments)
    assert said.code == 64
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err
    said = wyrd(*arguments, *(() if "xml" in arguments else ("--format=json",)))
    assert said.code == 64
    if "xml" not in arguments:
        assert said.error["kind"] == "wyrd_cli_error"
    assert [one for one in peer.seen if one.path != "/auth/token"] == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("get",), "REF"),
        (("get", REF, "--nonsense"), "--nonsense"),
        (("list", "--limit", "many"), "--limit"),
        (("verify", "polite"), "--card"),
        (("verify", "polite", "--card", "no reference"), "--card"),
        (("verify", "polite", "--card", REF, "--input", "answer"), "--input"),
        (("verify", "polite", "--card", REF, "--run", "x"), "--run"),
        (("latest", REF), "NAME"),
        (("executions", "list", "--verifier", "polite"), "--verifier"),
        (("executions", "list", "--subject", "a/b"), "--subject"),
    ],
)
def test_a_usage_error_names_what_was_given_wrong(
    wyrd: Command, peer: Peer, arguments: tuple[str, ...], field: str
) -> None:
    assert wyrd(*arguments, "--format=json").error["details"]["field"] == field
    assert f"\n  field: {field}\n" in wyrd(*arguments).err


def test_what_a_remedy_refers_to_is_printed_with_it(wyrd: Command, peer: Peer) -> None:
    details = {"field": "metadata.name", "limit": 3, "said": "told", "nothing": None, "deep": {"a": [1]}}
    peer.routes["GET", "/v1/cards/by-ref"] = lambda _: problem(
        400, "WYRD_REGISTRY_400_INVALID_CARD_SPEC", "it was told", **details
    )
    lines = wyrd("get", REF).err.splitlines()
    assert lines[1:-1] == ["  field: metadata.name", "  limit: 3", '  deep: {"a": [1]}']


def test_without_a_credential_the_command_line_has_its_own_code(wyrd: Command) -> None:
    said = wyrd("list", "--format", "json")
    assert said.code == 77
    assert said.error["code"] == "WYRD_CLI_401_NO_CREDENTIALS"


def test_a_server_that_is_not_there_is_69(wyrd: Command, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrd._client.transport.time.sleep", lambda _: None)
    with socket.socket() as held:
        # Bound and not listening: nobody else can be there.
        held.bind(("127.0.0.1", 0))
        said = wyrd("list", "--server", f"http://127.0.0.1:{held.getsockname()[1]}", "--format", "json")
    assert said.code == 69
    assert said.error["code"] == "WYRD_CLIENT_503_TRANSPORT_DOWN"


def test_an_unreadable_input_file_is_74(wyrd: Command, peer: Peer) -> None:
    said = wyrd("verify", "polite", "--card", REF, "--input", "a=@missing.json", "--format", "json")
    assert said.code == 74
    assert said.error["details"]["path"] == "missing.json"


class TestDeclareCheck:
    """The published output contract of `declare --check`."""

    def test_success_is_a_document_on_standard_output(self, wyrd: Command) -> None:
        Path("desk.yaml").write_text(CARD, encoding="utf-8")
        said = wyrd("declare", "--check", "desk.yaml", "--format", "json")
        assert said.code == 0
        assert said.err == ""
        assert said.json["ok"] is True
        assert said.json["cards"] == [
            {"kind": "Service", "space": "default", "name": "desk", "version": "1.0.0"}
        ]
        assert said.json["diagnostics"] == []

    def test_failure_is_one_object_on_standard_error_and_64(self, wyrd: Command) -> None:
        Path("desk.yaml").write_text(CARD.replace("agent", "[1]"), encoding="utf-8")
        said = wyrd("declare", "--check", "desk.yaml", "--format", "json")
        assert said.code == 64
        assert said.out == ""
        assert said.error["code"] == "WYRD_CLI_400_CARD_LOAD"
        (one,) = said.error["details"]["diagnostics"]
        assert one["code"] == "WYRD_LOADER_400_INVALID_ENVELOPE"
        assert one["path"] == "desk.yaml"

    def test_a_warning_says_so_first_and_its_code_last(self, wyrd: Command) -> None:
        Path("desk.yaml").write_text(WARNED, encoding="utf-8")
        said = wyrd("declare", "--check", "desk.yaml")
        assert said.code == 0
        (line,) = said.err.splitlines()
        assert line.startswith("  warning: desk.yaml:10:7: requirements[0].check: not_contains ")
        assert line.endswith(" [WYRD_SPEC_400_VALIDATION]")

    def test_it_needs_neither_server_nor_credential(self, wyrd: Command) -> None:
        Path("desk.yaml").write_text(CARD, encoding="utf-8")
        assert wyrd("declare", "--check", "desk.yaml").code == 0


def _spawned(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WYRD_")}
    return subprocess.Popen(
        [sys.executable, "-m", "wyrd.cli", *arguments],
        env={**kept, "PYTHONPATH": str(SDK), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_process_ends_with_the_exit_code_and_plain_text_in_a_pipe() -> None:
    process = _spawned("get", "x", FORCE_COLOR="", WYRD_API_KEY="k")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (64, "")
    assert "\x1b" not in err


def test_ctrl_c_is_quiet(peer: Peer) -> None:
    reached, hang = threading.Event(), threading.Event()

    def slow(_: object) -> Answer:
        reached.set()
        return Answer(hang=hang)

    peer.routes["GET", "/v1/cards"] = slow
    process = _spawned("list", WYRD_SERVER_URL=peer.url, WYRD_API_KEY="k")
    assert reached.wait(60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    hang.set()
    assert (process.returncode, out, err) == (130, "", "")


def test_a_reader_that_leaves_early_is_no_stack_trace(peer: Peer) -> None:
    page = {"items": [], "next_cursor": "x" * 200_000}
    peer.routes["GET", "/v1/cards"] = lambda _: Answer(body=page)
    process = _spawned("list", "--format", "json", WYRD_SERVER_URL=peer.url, WYRD_API_KEY="k")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 1
    assert err == ""


def test_colour_is_for_terminals_only_and_never_under_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    console = output.terminal()
    assert console.no_color
    assert not console.is_terminal


def test_json_keeps_every_character(wyrd: Command, peer: Peer) -> None:
    execution_id = uuid7()
    peer.routes["GET", f"/v1/verification/executions/{execution_id}"] = lambda _: Answer(
        body={
            "execution_id": execution_id,
            "status": "errored",
            "error": {"code": "X", "message": "Grüße 🙂"},
        }
    )
    said = wyrd("executions", "show", execution_id, "--format", "json")
    assert json.loads(said.out)["error"]["message"] == "Grüße 🙂"
    assert "Grüße 🙂" in said.out
