"""What each command asks the server and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.sdk.desk import CARD, Desk, receipt, stored_desk
from tests.sdk.peer import NOW, Answer, Peer, full_result, result
from wyrd.wire.ids import uuid7

EXECUTE = "/v1/verification/execute"
SERVICE = "default/Service/desk@1.0.0"
RUN = "01890a5d-ac96-774b-bcce-b302099a8057"
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
    assert "default/Verifier/polite@1.0.0" in unknown.error["details"]["verifiers"]
    assert "verifiers: default/Verifier/" in wyrd("verify", "nobody", "--card", AGENT).err
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


def test_a_link_to_the_workflow_is_printed_where_the_server_gives_one(
    wyrd: Command, peer: Peer, desk: Desk
) -> None:
    answer = {"execution_id": uuid7(), "workflow_id": "w", "workflow_url": "http://ui/1"}
    peer.routes["POST", "/v1/verification/enqueue"] = lambda _: Answer(202, answer)
    command = ("submit", "polite", "--card", SERVICE, "--input", "answer=1")
    assert wyrd(*command, "--format", "json").json == answer
    assert "Temporal UI  http://ui/1\n" in wyrd(*command).out
    document = {"status": "running", **answer}
    path = f"/v1/verification/executions/{answer['execution_id']}"
    peer.routes["GET", path] = lambda _: Answer(body=document)
    assert "Temporal UI  http://ui/1\n" in wyrd("executions", "show", answer["execution_id"]).out


def test_a_result_is_printed_whole(wyrd: Command, peer: Peer) -> None:
    said = full_result()
    document = {"execution_id": said["execution_id"], "status": "completed", "result": said}
    path = f"/v1/verification/executions/{said['execution_id']}"
    peer.routes["GET", path] = lambda _: Answer(body=document)
    assert wyrd("executions", "show", said["execution_id"], "--format", "json").json == document
    flat = {**said, **said["outcome"]}
    del flat["outcome"]
    assert wyrd("executions", "wait", said["execution_id"], "--format", "json").json == flat
    told = wyrd("executions", "show", said["execution_id"]).out
    assert "verdict: inconclusive (1 of 1 requirement inconclusive)\n" in told
    assert "the judge was cut off [judge_truncated]\n  attempt 1 failed: slow [timeout]\n" in told
    assert "it took too long [timeout]\n" in told


def test_latest_stands_for_the_newest_execution(wyrd: Command, peer: Peer) -> None:
    path = "/v1/verification/executions"
    peer.routes["GET", path] = lambda _: Answer(body={"items": []})
    assert wyrd("executions", "show", "latest").code == 66
    ref, execution_id = f"default/Verifier/polite@1.0.0#{RUN}", uuid7()
    item = {"execution_id": execution_id, "status": "running", "source": "submit", "created_at": NOW}
    peer.routes["GET", path] = lambda _: Answer(body={"items": [{**item, "verifier": ref, "subject": ref}]})
    document = {"execution_id": execution_id, "status": "running"}
    peer.routes["GET", f"{path}/{execution_id}"] = lambda _: Answer(body=document)
    assert wyrd("executions", "show", "latest", "--format", "json").json == document


def test_a_file_is_taken_as_the_only_format_unless_its_name_says_another_kind(
    wyrd: Command, peer: Peer, desk: Desk
) -> None:
    for name in ("letter.draft", "letter.py", "letter.EXE", "letter.pdf", "letter"):
        Path(name).write_text("no refund\n", encoding="utf-8")
    command = ("verify", "letter", "--card", AGENT, "--file")
    assert "letter.draft, taken as markdown" in wyrd(*command, "letter=letter.draft").out
    assert wyrd(*command, "letter=letter").code == 0
    for name in ("letter.py", "letter.EXE", "letter.pdf"):
        said = wyrd(*command, f"letter={name}")
        assert said.code == 64
        assert "inputs.letter: the slot takes markdown" in said.err
        assert "  path: inputs.letter\n" in said.err


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
    pinned = wyrd("latest", SERVICE)
    assert pinned.code == 64
    assert "without a version" in pinned.err


def test_list_and_delete_and_turns(wyrd: Command, peer: Peer, desk: Desk) -> None:
    assert len(wyrd("list", "--kind", "Verifier", "--format", "json").json["items"]) == 6
    listed = wyrd("list", "--kind", "Verifier").out.splitlines()
    assert len(listed) == 7
    assert [line for line in listed if line != line.rstrip()] == []
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
        *("executions", "list", "--verdict", "failed", "--run", RUN, "--group", "g", "--binding", "b"),
        *("--since", NOW, "--limit", "5", "--format", "json"),
    )
    assert said.json == {"items": [], "next_cursor": None}
    (one,) = peer.requests("GET", "/v1/verification/executions")
    assert one.query == {
        "verdict": "failed",
        "run_id": RUN,
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
