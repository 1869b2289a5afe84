"""What each command asks the server and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.sdk.desk import CARD, Desk, receipt, stored_desk
from tests.sdk.peer import NOW, Answer, Peer, result
from wyrd.wire.ids import uuid7

EXECUTE = "/v1/verification/execute"
SERVICE = "default/Service/desk@1.0.0"
AGENT = "default/Agent/desk-agent@1.0.0"


@pytest.fixture
def desk(peer: Peer) -> Desk:
    return stored_desk(peer)


def sent(peer: Peer) -> dict[str, Any]:
    (one,) = peer.requests("POST", EXECUTE)
    found: dict[str, Any] = one.json
    return found


def test_verify_finds_the_subjects_own_binding(wyrd: Command, peer: Peer, desk: Desk) -> None:
    said = wyrd("verify", "polite", "--card", SERVICE, "--input", 'answer={"text": "please"}')
    assert said.code == 0
    assert sent(peer)["verifier_card_uid"] == desk.verifiers["polite"]["uid"]
    assert sent(peer)["card_uid"] == desk.service["uid"]
    assert "run_id" not in sent(peer)


def test_verify_quotes_what_the_citations_point_at(wyrd: Command, peer: Peer, desk: Desk) -> None:
    Path("letter.md").write_text("# Dear customer\nno refund\nbye\n", encoding="utf-8")
    said = wyrd("verify", "letter", "--card", AGENT, "--file", "letter=letter.md")
    assert "letter, lines 2 to 2\n    | no refund" in said.out
    said = wyrd("verify", "polite", "--card", SERVICE, "--input", 'answer={"text": "please"}')
    assert 'answer, at /text\n    | "please"' in said.out


def test_verify_takes_inputs_from_files_traces_groups_and_runs(wyrd: Command, peer: Peer, desk: Desk) -> None:
    Path("note.json").write_text('{"a": 1}', encoding="utf-8")
    run, trace = uuid7(), "0af7651916cd43dd8448eb211c80319c"
    said = wyrd(
        *("verify", "mixed", "--card", SERVICE, "--input", "note=@note.json"),
        *("--trace", f"spans={trace}", "--group", "talk-1", "--run", run, "--format", "json"),
    )
    assert said.json["verdict"] == "passed"
    assert (sent(peer)["run_id"], sent(peer)["group_id"]) == (run, "talk-1")
    assert sent(peer)["inputs"] == {
        "note": {"kind": "json", "value": {"a": 1}},
        "spans": {"kind": "trace", "trace_id": trace},
    }


def test_a_verifier_may_be_named_in_full_for_a_component(wyrd: Command, peer: Peer, desk: Desk) -> None:
    said = wyrd(
        "verify", "default/Verifier/polite@1.0.0", "--card", AGENT, "--input", "answer=1", "--format", "json"
    )
    assert said.code == 0
    assert sent(peer)["verifier_card_uid"] == desk.verifiers["polite"]["uid"]


def test_a_name_that_the_subject_does_not_bind_is_looked_up(wyrd: Command, peer: Peer, desk: Desk) -> None:
    assert wyrd("verify", "mixed", "--card", AGENT, "--input", "note=1").code == 0
    assert sent(peer)["verifier_card_uid"] == desk.verifiers["mixed"]["uid"]


def test_an_ambiguous_or_unknown_verifier_is_refused(wyrd: Command, peer: Peer, desk: Desk) -> None:
    ambiguous = wyrd(
        *("verify", "polite", "--card", "default/Prompt/desk-prompt@1.0.0"),
        *("--input", "answer=1", "--format", "json"),
    )
    assert ambiguous.code == 64
    assert len(ambiguous.error["details"]["choices"]) == 2
    unknown = wyrd("verify", "nobody", "--card", AGENT, "--format", "json")
    assert (unknown.code, unknown.error["code"]) == (66, "WYRD_SDK_404_UNKNOWN_VERIFIER")
    assert peer.requests("POST", EXECUTE) == []


@pytest.mark.parametrize(
    ("verdict", "plain", "checked"), [("passed", 0, 0), ("failed", 0, 1), ("inconclusive", 0, 1)]
)
def test_the_verdict_decides_the_exit_code_only_when_asked(
    wyrd: Command, peer: Peer, desk: Desk, verdict: str, plain: int, checked: int
) -> None:
    peer.routes["POST", EXECUTE] = lambda one: Answer(body=result(one.json, verdict))
    command = ("verify", "polite", "--card", SERVICE, "--input", "answer=1")
    assert wyrd(*command).code == plain
    assert wyrd(*command, "--check-verdict").code == checked


def test_submit_prints_the_execution_and_waits_when_asked(wyrd: Command, peer: Peer, desk: Desk) -> None:
    execution_id = uuid7()
    peer.routes["POST", "/v1/verification/enqueue"] = lambda _: Answer(
        202, {"execution_id": execution_id, "workflow_id": "local/verification/1"}
    )
    command = ("submit", "polite", "--card", SERVICE, "--input", "answer=1", "--format", "json")
    assert wyrd(*command).json == {"execution_id": execution_id, "workflow_id": "local/verification/1"}
    body = {"verifier_card_uid": uuid7(), "card_uid": uuid7(), "inputs": {}}
    peer.routes["GET", f"/v1/verification/executions/{execution_id}"] = lambda _: Answer(
        body={"execution_id": execution_id, "status": "completed", "result": result(body, "failed")}
    )
    said = wyrd(*command, "--wait", "5", "--check-verdict")
    assert (said.code, said.json["verdict"]) == (1, "failed")


def test_declare_prints_what_became_of_each_card(wyrd: Command, peer: Peer, desk: Desk) -> None:
    Path("desk.yaml").write_text(CARD, encoding="utf-8")
    peer.routes["POST", "/v1/cards"] = lambda _: Answer(body=receipt(desk, "idempotent_noop"))
    said = wyrd("declare", "desk.yaml", "--format", "json")
    assert said.json["outcomes"][0]["outcome"] == "idempotent_noop"
    assert SERVICE in wyrd("declare", "desk.yaml").out


def test_get_prints_the_envelope_and_takes_the_latest_without_a_version(
    wyrd: Command, peer: Peer, desk: Desk
) -> None:
    card = peer.cards[desk.service["uid"]]
    peer.routes["GET", "/v1/cards/Service/default/desk/latest"] = lambda _: Answer(
        body={"card": card, "created_at": NOW, "updated_at": NOW}
    )
    assert wyrd("get", SERVICE, "--format", "json").json == card
    assert wyrd("get", "default/Service/desk", "--format", "json").json == card
    assert wyrd("latest", "default/Service/desk", "--format", "json").json == card
    assert "kind: Service" in wyrd("get", SERVICE).out


def test_list_and_delete_and_turns(wyrd: Command, peer: Peer, desk: Desk) -> None:
    assert len(wyrd("list", "--kind", "Verifier", "--format", "json").json["items"]) == 6
    uid = desk.service["uid"]
    path = f"/v1/cards/by-uid/Service/{uid}"
    peer.routes["DELETE", path] = lambda _: Answer(body={"card_uid": uid, "deleted": True})
    assert wyrd("delete", f"{SERVICE}#{uid}", "--format", "json").json["deleted"] is True
    card = {**peer.cards[uid], "status": {"phase": "deprecated"}}
    peer.routes["POST", f"{path}/deactivate"] = lambda _: Answer(
        body={"card": card, "created_at": NOW, "updated_at": NOW}
    )
    assert wyrd("cards", "deactivate", SERVICE).out == f"{SERVICE} is deprecated\n"


def test_executions_list_sends_its_filters(wyrd: Command, peer: Peer) -> None:
    peer.routes["GET", "/v1/verification/executions"] = lambda _: Answer(body={"items": []})
    said = wyrd(
        *("executions", "list", "--verdict", "failed", "--run", "r", "--group", "g", "--binding", "b"),
        *("--since", NOW, "--limit", "5", "--format", "json"),
    )
    assert said.json == {"items": [], "next_cursor": None}
    (one,) = peer.requests("GET", "/v1/verification/executions")
    assert one.query == {
        "verdict": "failed",
        "run_id": "r",
        "group_id": "g",
        "binding_id": "b",
        "since": NOW,
        "limit": "5",
    }


def test_keys_are_issued_listed_and_revoked(wyrd: Command, peer: Peer) -> None:
    principal, key = uuid7(), uuid7()
    ref = {"kind": "Service", "name": "desk", "version": "1.0.0", "space": "default"}
    peer.routes["POST", "/auth/issue-key"] = lambda one: Answer(
        body={
            "key_id": key,
            "principal_id": principal,
            "key": "wyrd_sk_new",
            "prefix": "wyrd_sk_n",
            "card_ref": one.json["card_ref"],
            "created_at": NOW,
            "expires_at": NOW,
        }
    )
    issued = wyrd("keys", "issue", SERVICE, "--label", "prod", "--days", "2", "--format", "json")
    assert issued.json["key"] == "wyrd_sk_new"
    (asked,) = peer.requests("POST", "/auth/issue-key")
    assert asked.json == {"card_ref": ref, "label": "prod", "expires_in_seconds": 172_800}
    peer.routes["GET", "/v1/principals"] = lambda one: Answer(
        body={
            "principals": [{"principal_id": principal, "kind": "card", "status": "active", "card_ref": ref}],
            **({} if "after" in one.query else {"next": principal}),
        }
    )
    peer.routes["GET", f"/v1/principals/{principal}/credentials"] = lambda _: Answer(
        body={"credentials": [{"id": key, "prefix": "wyrd_sk_n", "created_at": NOW}]}
    )
    listed = wyrd("keys", "list", "--format", "json").json["keys"]
    assert [one["id"] for one in listed] == [key]
    assert listed[0]["of"] == SERVICE
    peer.routes["DELETE", f"/v1/principals/{principal}/credentials/{key}"] = lambda _: Answer(raw=b"")
    assert wyrd("keys", "revoke", principal, key, "--format", "json").json["revoked"] is True
