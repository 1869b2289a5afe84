"""verify and submit: which Verifier, which inputs, what is refused locally, what is sent."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.desk import Desk, stored_desk
from tests.sdk.peer import Answer, Peer, problem, result
from wyrd import Run, WyrdClient, WyrdError, WyrdState
from wyrd._client.graph import load
from wyrd.verify import ArtifactRef, Execution, File
from wyrd.wire.ids import uuid7
from wyrd.wire.refs import CardRef

EXECUTE, ENQUEUE = "/v1/verification/execute", "/v1/verification/enqueue"
EVIDENCE = "/v1/verification/evidence"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def desk(peer: Peer) -> Desk:
    return stored_desk(peer)


@pytest.fixture
def state(peer: Peer, desk: Desk, client: WyrdClient) -> WyrdState:
    graph = client._run(load(client.server_url, CardRef.model_validate(desk.service)))
    peer.seen.clear()
    return WyrdState(client, graph)


@pytest.fixture
def run(state: WyrdState) -> Run:
    return state.run("agent")


def refused(peer: Peer, call: Callable[[], Any]) -> WyrdError:
    """The error of a call that made no request."""
    with pytest.raises(WyrdError) as error:
        call()
    assert peer.seen == []
    return error.value


def test_verify_sends_the_exact_cards_the_run_and_the_values(
    peer: Peer, desk: Desk, state: WyrdState
) -> None:
    run = state.run()
    answer = run.observe.verify("polite", answer={"text": "bitte", "n": [1, 2.5, None]})
    (sent,) = peer.requests("POST", EXECUTE)
    assert sent.json == {
        "verifier_card_uid": desk.verifiers["polite"]["uid"],
        "card_uid": desk.service["uid"],
        "run_id": run.run_id,
        "inputs": {"answer": {"kind": "json", "value": {"text": "bitte", "n": [1, 2.5, None]}}},
    }
    assert "idempotency-key" not in sent.headers
    assert (answer.run_id, answer.verdict) == (run.run_id, "passed")
    assert answer.requirements[0].citations[0].locator.json_pointer == "/text"
    assert answer.evidence["answer"]["kind"] == "json"


def test_one_positional_value_fills_the_only_slot(peer: Peer, state: WyrdState) -> None:
    state.run().observe.verify("polite", "hello")
    (sent,) = peer.requests("POST", EXECUTE)
    assert sent.json["inputs"] == {"answer": {"kind": "json", "value": "hello"}}


def test_none_is_a_json_value_and_not_an_absent_one(peer: Peer, state: WyrdState) -> None:
    state.run().observe.verify("polite", None)
    (sent,) = peer.requests("POST", EXECUTE)
    assert sent.json["inputs"] == {"answer": {"kind": "json", "value": None}}


def test_a_missing_slot_is_left_for_the_server_to_judge(peer: Peer, state: WyrdState) -> None:
    state.run().observe.verify("polite")
    (sent,) = peer.requests("POST", EXECUTE)
    assert sent.json["inputs"] == {}


def test_a_failed_verdict_is_a_value(peer: Peer, state: WyrdState) -> None:
    peer.routes["POST", EXECUTE] = lambda one: Answer(body=result(one.json, "failed"))
    assert state.run().observe.verify("polite", "no").verdict == "failed"


def test_verify_is_attempted_once(peer: Peer, state: WyrdState) -> None:
    peer.queue("POST", EXECUTE, problem(503, "WYRD_SERVER_503_SERVICE_UNAVAILABLE"))
    with pytest.raises(WyrdError) as error:
        state.run().observe.verify("polite", "x")
    assert error.value.code == "WYRD_SERVER_503_SERVICE_UNAVAILABLE"
    assert len(peer.requests("POST", EXECUTE)) == 1


def test_submit_repeats_under_one_idempotency_key(
    peer: Peer, state: WyrdState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wyrd._client.transport.time.sleep", lambda _: None)
    full = problem(429, "WYRD_VERIFICATION_429_STAGING_FULL")
    execution_id = uuid7()
    peer.queue("POST", ENQUEUE, full, full, Answer(202, {"execution_id": execution_id}))
    execution = state.run().observe.submit("polite", "x", group_id="talk-1")
    assert isinstance(execution, Execution)
    assert execution.id == execution_id
    sent = peer.requests("POST", ENQUEUE)
    (key,) = {one.headers["idempotency-key"] for one in sent}
    assert len(sent) == 3
    assert key.startswith("verification-submit-")
    assert sent[0].json["group_id"] == "talk-1"


def test_every_call_of_a_run_names_its_session(peer: Peer, state: WyrdState) -> None:
    session = "01890A5D-AC96-774B-BCCE-B302099A8057"
    peer.queue("POST", ENQUEUE, Answer(202, {"execution_id": uuid7()}))
    with state.run(session_id=session) as run:
        run.observe.verify("polite", "x")
        run.for_card("agent").observe.submit("mixed", note="x")
    bodies = [one.json for path in (ENQUEUE, EXECUTE) for one in peer.requests("POST", path)]
    assert [body["session_id"] for body in bodies] == [session.lower()] * 2


class TestWhichVerifier:
    def test_an_unbound_name_is_refused(self, peer: Peer, state: WyrdState) -> None:
        error = refused(peer, lambda: state.run().observe.verify("letter", File(b"x")))
        assert error.code == "WYRD_SDK_404_UNKNOWN_VERIFIER"

    def test_a_component_without_bindings_has_none(self, peer: Peer, state: WyrdState) -> None:
        error = refused(peer, lambda: state.run("prompt").observe.submit("polite", "x"))
        assert error.code == "WYRD_SDK_404_UNKNOWN_VERIFIER"

    def test_two_of_one_name_are_ambiguous(self, peer: Peer, run: Run) -> None:
        error = refused(peer, lambda: run.observe.verify("polite", "x"))
        assert error.code == "WYRD_SPEC_400_VALIDATION"
        assert len(error.details["choices"]) == 2

    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("polite@1.0.0", "polite"),
            ("polite@2.0.0", "polite-2"),
            ("default/polite@2.0.0", "polite-2"),
        ],
    )
    def test_a_version_selects(self, peer: Peer, desk: Desk, run: Run, name: str, key: str) -> None:
        run.observe.verify(name, "x")
        (sent,) = peer.requests("POST", EXECUTE)
        assert sent.json["verifier_card_uid"] == desk.verifiers[key]["uid"]
        assert sent.json["card_uid"] == desk.agent["uid"]

    def test_one_bound_on_both_component_and_agent_is_one(self, peer: Peer, run: Run) -> None:
        run.observe.verify("letter", File(b"dear customer"))
        assert len(peer.requests("POST", EXECUTE)) == 1


class TestLocalRefusals:
    @pytest.mark.parametrize(
        "inputs",
        [
            {"answer": float("nan")},
            {"answer": float("inf")},
            {"answer": {1: "x"}},
            {"answer": object()},
            {"answer": b"bytes"},
            {"answer": File(b"x")},
            {"answer": "\ud800"},
            {"anwser": "x"},
        ],
    )
    def test_values_a_json_slot_cannot_take(
        self, peer: Peer, state: WyrdState, inputs: dict[str, Any]
    ) -> None:
        error = refused(peer, lambda: state.run().observe.verify("polite", **inputs))
        assert error.code == "WYRD_VERIFICATION_400_INPUT_INVALID"
        assert error.details["path"] == f"inputs.{next(iter(inputs))}"

    def test_values_nested_too_deep_or_without_end(self, peer: Peer, state: WyrdState) -> None:
        deep: list[Any] = []
        for _ in range(70):
            deep = [deep]
        endless: list[Any] = []
        endless.append(endless)
        for value in (deep, endless):
            error = refused(peer, partial(state.run().observe.verify, "polite", value))
            assert error.code == "WYRD_VERIFICATION_400_INPUT_INVALID"

    @pytest.mark.parametrize("trace", ["", "0" * 32, "xyz", TRACE[:-1], TRACE + "a", 7, File(b"x")])
    def test_what_is_no_trace_id(self, peer: Peer, state: WyrdState, trace: Any) -> None:
        error = refused(peer, lambda: state.run().observe.verify("mixed", spans=trace))
        assert error.details["path"] == "inputs.spans"

    @pytest.mark.parametrize("value", ["letter.md", b"x", {"a": 1}, TRACE, None])
    def test_what_a_media_slot_does_not_take(self, peer: Peer, run: Run, value: Any) -> None:
        error = refused(peer, lambda: run.observe.submit("letter", letter=value))
        assert error.code == "WYRD_VERIFICATION_400_INPUT_INVALID"

    @pytest.mark.parametrize(
        "file",
        [
            File("there-is-none.md"),
            File("."),
            File(b"x", filename="letter.pdf"),
            File(b"x", format="pdf"),
            File(b"x", format="papyrus"),
            File("nul\0byte.md"),
        ],
    )
    def test_unreadable_and_unaccepted_files(self, peer: Peer, run: Run, file: File) -> None:
        error = refused(peer, lambda: run.observe.verify("letter", file))
        assert error.code == "WYRD_VERIFICATION_400_INPUT_INVALID"
        assert error.details["path"] == "inputs.letter"

    def test_a_pipe_is_refused_and_not_waited_for(self, peer: Peer, run: Run, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.md")
        error = refused(peer, lambda: run.observe.verify("letter", File(tmp_path / "pipe.md")))
        assert error.code == "WYRD_VERIFICATION_400_INPUT_INVALID"

    def test_files_over_the_slots_limit(self, peer: Peer, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "long.md"
        path.write_bytes(b"x" * 65)
        for file in (File(path), File(b"x" * 65)):
            error = refused(peer, partial(run.observe.verify, "letter", file))
            assert error.code == "WYRD_VERIFICATION_413_INPUT_TOO_LARGE"
            assert error.details["max_bytes"] == 64

    def test_a_format_that_is_not_clear(self, peer: Peer, state: WyrdState) -> None:
        error = refused(peer, lambda: state.run().observe.verify("mixed", doc=File(b"x")))
        assert "format" in error.details["reason"]

    def test_window_and_group_verifiers_take_no_call(self, peer: Peer, state: WyrdState) -> None:
        observe = state.run().observe
        for call, name in (
            (observe.verify, "drift"),
            (observe.verify, "group"),
            (observe.submit, "group"),
        ):
            error = refused(peer, partial(call, name))
            assert error.code == "WYRD_VERIFICATION_422_INPUT_UNSUPPORTED"

    def test_samples_wait_for_a_queue_that_was_started(self, peer: Peer, state: WyrdState) -> None:
        error = refused(peer, partial(state.run().observe.submit, "drift", {"score": 0.4}))
        assert error.code == "WYRD_SDK_400_BIFROST_NOT_STARTED"

    def test_positional_and_named_values_do_not_mix(self, peer: Peer, state: WyrdState) -> None:
        observe = state.run().observe
        for call in (
            lambda: observe.verify("polite", "x", answer="y"),
            lambda: observe.verify("polite", "x", "y"),
            lambda: observe.verify("mixed", "x"),
        ):
            assert refused(peer, call).code == "WYRD_SPEC_400_VALIDATION"

    @pytest.mark.parametrize("group", ["", "two words", "tab\t", "x" * 257, 7])
    def test_group_ids_that_are_none(self, peer: Peer, state: WyrdState, group: Any) -> None:
        error = refused(peer, lambda: state.run().observe.verify("polite", "x", group_id=group))
        assert error.details["field"] == "group_id"


class TestFiles:
    def test_a_missing_file_is_uploaded_to_the_server_with_the_token(
        self, peer: Peer, run: Run, tmp_path: Path
    ) -> None:
        path = tmp_path / "letter.md"
        path.write_bytes(b"dear customer")
        digest = hashlib.sha256(b"dear customer").hexdigest()
        run.observe.verify("letter", letter=File(path))
        assert [one.path for one in peer.seen] == [EVIDENCE, f"/blobs/{digest}", EXECUTE]
        asked, put, sent = peer.seen
        assert asked.json == {"files": [{"sha256": digest, "size_bytes": 13}]}
        assert put.headers["x-wyrd-access-token"] == "Bearer token-1"
        assert put.headers["content-length"] == "13"
        assert sent.json["inputs"]["letter"] == {
            "kind": "file",
            "sha256": digest,
            "size_bytes": 13,
            "format": "markdown",
            "filename": "letter.md",
        }

    def test_a_known_digest_is_not_uploaded_again(self, peer: Peer, run: Run) -> None:
        for _ in range(2):
            run.observe.verify("letter", File(b"dear customer"))
        assert len([one for one in peer.seen if one.method == "PUT"]) == 1

    def test_an_object_store_gets_its_headers_and_never_the_token(self, peer: Peer, run: Run) -> None:
        digest = hashlib.sha256(b"dear customer").hexdigest()
        data = {
            "put_url": f"{peer.url}/blobs/{digest}",
            "ttl_secs": 60,
            "required_headers": [{"name": "x-amz-checksum-sha256", "value": "abc="}],
        }
        plan = {"protocol": "single_put", "data": data}
        peer.queue("POST", EVIDENCE, Answer(body={"uploads": [{"sha256": digest, "plan": plan}]}))
        run.observe.verify("letter", File(b"dear customer"))
        (put,) = [one for one in peer.seen if one.method == "PUT"]
        assert put.headers["x-amz-checksum-sha256"] == "abc="
        assert put.headers["idempotency-key"] == f"verification-evidence-{digest}"
        assert put.headers["content-length"] == "13"
        assert "x-wyrd-access-token" not in put.headers
        assert "authorization" not in put.headers

    @pytest.mark.parametrize(
        ("protocol", "url"),
        [
            ("local_fs", "http://localhost:1/blobs/x"),
            ("local_fs", "//evil.example.com/x"),
            ("single_put", "http://bucket.example.com/x"),
            ("single_put", "ftp://bucket.example.com/x"),
        ],
    )
    def test_a_plan_that_would_leak_is_refused(self, peer: Peer, run: Run, protocol: str, url: str) -> None:
        digest = hashlib.sha256(b"x").hexdigest()
        plan = {"protocol": protocol, "data": {"put_url": url, "ttl_secs": 60}}
        peer.queue("POST", EVIDENCE, Answer(body={"uploads": [{"sha256": digest, "plan": plan}]}))
        with pytest.raises(WyrdError) as error:
            run.observe.verify("letter", File(b"x"))
        assert error.value.code == "WYRD_SPEC_502_UPSTREAM_FAILURE"
        assert not peer.requests("POST", EXECUTE)

    def test_a_file_that_changes_after_it_was_hashed_is_not_sent(
        self, peer: Peer, run: Run, tmp_path: Path
    ) -> None:
        path = tmp_path / "letter.md"
        path.write_bytes(b"first")

        def changed(one: Any) -> Answer:
            path.write_bytes(b"other")
            return peer._usual(one)

        peer.routes["POST", EVIDENCE] = changed
        with pytest.raises(WyrdError) as error:
            run.observe.verify("letter", File(path))
        assert error.value.code == "WYRD_VERIFICATION_400_INPUT_INVALID"
        assert peer.blobs == {}

    def test_constructing_a_file_reads_nothing(self, tmp_path: Path) -> None:
        assert File(tmp_path / "not-yet.md").name == "not-yet.md"

    def test_the_slots_only_format_is_used_when_the_name_tells_none(self, peer: Peer, run: Run) -> None:
        run.observe.verify("letter", File(b"x", filename="notes.unknown"))
        (sent,) = peer.requests("POST", EXECUTE)
        assert sent.json["inputs"]["letter"]["format"] == "markdown"

    def test_trace_ids_go_in_lower_case_and_artifacts_as_references(
        self, peer: Peer, state: WyrdState
    ) -> None:
        ref = ArtifactRef("default/Artifact/golden@1.0.0", "a.pdf")
        state.run().observe.verify("mixed", spans=TRACE.upper(), doc=ref)
        (sent,) = peer.requests("POST", EXECUTE)
        assert sent.json["inputs"]["spans"] == {"kind": "trace", "trace_id": TRACE}
        assert sent.json["inputs"]["doc"]["path"] == "a.pdf"
        assert sent.json["inputs"]["doc"]["artifact"]["name"] == "golden"
