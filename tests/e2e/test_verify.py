"""verify over the API: ordinary answers, refusals before anything runs, the record afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.verify import HungUp
from examples.scripted_provider import Reply, ScriptedProvider
from tests.e2e.stack import Stack, asserting, card, coded, judged, outcomes, requirement, sibling
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecuteRequest

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG_REFUND = "no sure refund here"


async def test_an_assertion_passes_and_fails_as_an_ordinary_answer(stack: Stack) -> None:
    bound = await stack.bind(
        {
            "inputs": {"answer": {"type": "json"}},
            "requirements": [asserting("inputs.answer", "not_contains", "guaranteed refund")],
        }
    )
    passed = await stack.verify(bound, answer=LONG_REFUND)
    failed = await stack.verify(bound, answer="you have a guaranteed refund")
    assert (passed.status_code, passed.json()["outcome"]["verdict"]) == (200, "passed")
    assert (failed.status_code, failed.json()["outcome"]["verdict"]) == (200, "failed")
    found = passed.json()
    assert found["verifier"]["uid"] == bound.verifier
    assert found["subject"]["uid"] == bound.subject
    assert found["outcome"]["evidence"] == {"answer": {"kind": "json", "value": LONG_REFUND}}
    assert list(found["outcome"]["evidence_digests"]) == ["answer"]
    assert found["outcome"]["counts"]["applicable"] == 1


async def test_a_verify_is_stored_after_it_was_answered_and_never_becomes_queued_work(stack: Stack) -> None:
    bound = await stack.bind(
        {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_truthy")]}
    )
    answer = (await stack.verify(bound, a=1)).json()
    await stack.verification.records.settled()
    status = await stack.status(answer["execution_id"])
    assert (status["status"], status["source"]) == ("completed", "verify")
    assert status["result"] == answer
    assert "workflow_id" not in status


async def test_a_missing_required_input_is_missing_evidence_and_not_refused(stack: Stack) -> None:
    bound = await stack.bind(
        {
            "inputs": {"a": {"type": "json"}, "b": {"type": "json", "required": False}},
            "requirements": [
                asserting("inputs.a", "is_not_null", id="needs-a"),
                asserting("inputs.b", "is_null", id="b-is-null"),
            ],
        }
    )
    result = (await stack.verify(bound)).json()
    assert outcomes(result) == {"needs-a": "inconclusive", "b-is-null": "passed"}
    assert requirement(result, "needs-a")["reason_kind"] == "missing_evidence"
    assert result["outcome"]["verdict"] == "inconclusive"


async def test_p12_no_requirements_is_never_a_pass(stack: Stack) -> None:
    bound = await stack.bind({"inputs": {"a": {"type": "json"}}})
    outcome = (await stack.verify(bound, a=1)).json()["outcome"]
    assert outcome["verdict"] == "inconclusive"
    assert "nothing to judge" in outcome["reason"]


async def test_code_agent_and_extract_blocks_run_in_the_request(
    stack: Stack, provider: ScriptedProvider
) -> None:
    source = "def check(text):\n    return {'outcome': 'passed', 'reason': text[:5], 'citations': []}"
    bound = await stack.bind(
        {
            "inputs": {"letter": {"type": "media", "formats": ["markdown"]}},
            "steps": [{"id": "read", "action": {"kind": "extract", "from": "inputs.letter"}}],
            "requirements": [
                coded(source, {"text": "steps.read.output.text"}, id="code"),
                judged({"letter": "steps.read.output"}, "Letter: {{letter}}", id="judge"),
            ],
        }
    )
    citation = {"slot": "letter", "locator": {"lines": {"start": 1, "end": 2}}}
    provider.script([Reply(json={"outcome": "passed", "reason": "fine", "citations": [citation]})])
    file = await stack.upload(b"hello\nworld\n", "markdown")
    result = (await stack.verify(bound, letter=file)).json()
    assert outcomes(result) == {"code": "passed", "judge": "passed"}
    assert requirement(result, "code")["reason"] == "hello"
    assert requirement(result, "judge")["citations"] == [citation]
    assert requirement(result, "judge")["provenance"]["model"] == "scripted/judge-1"
    assert "Letter: 1\thello\n2\tworld" in provider.requests[-1].text


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({"nope": 1}, "inputs.nope"),
        ({"text": {"kind": "trace", "trace_id": "ab" * 16}}, "inputs.text"),
        ({"trace": {"kind": "trace", "trace_id": "0" * 32}}, "inputs.trace"),
        ({"trace": {"kind": "trace", "trace_id": "xyz"}}, "inputs.trace"),
        ({"number": "seven"}, "inputs.number"),
        ({"file": {"kind": "file", "sha256": "a" * 64, "size_bytes": 3, "format": "pdf"}}, "inputs.file"),
        ({"file": {"kind": "file", "sha256": "a" * 64, "size_bytes": 3, "format": "text"}}, "inputs.file"),
        ({"file": {"kind": "file", "sha256": "A" * 64, "size_bytes": 3, "format": "text"}}, "inputs.file"),
    ],
)
async def test_bad_inputs_are_refused_by_slot_before_anything_runs(
    stack: Stack, inputs: dict[str, Any], path: str
) -> None:
    bound = await stack.bind(
        {
            "inputs": {
                "text": {"type": "json"},
                "trace": {"type": "trace"},
                "number": {"type": "json", "schema": {"type": "integer"}},
                "file": {"type": "media", "formats": ["text"]},
            },
            "requirements": [asserting("inputs.text", "is_not_null")],
        }
    )
    answer = await stack.verify(bound, **inputs)
    assert answer.status_code == 400, answer.text
    problem = answer.json()
    assert problem["code"] == "WYRD_VERIFICATION_400_INPUT_INVALID"
    assert (problem["details"].get("path") or problem["details"].get("field", "")).startswith(path)


async def test_a_file_over_max_bytes_is_too_large(stack: Stack) -> None:
    bound = await stack.bind(
        {"inputs": {"file": {"type": "media", "formats": ["text"], "max_bytes": 4}}, "requirements": []}
    )
    answer = await stack.verify(bound, file=await stack.upload(b"12345", "text"))
    assert (answer.status_code, answer.json()["code"]) == (413, "WYRD_VERIFICATION_413_INPUT_TOO_LARGE")


async def test_targets_that_are_unknown_of_another_kind_or_unbound_are_told_apart(stack: Stack) -> None:
    spec = {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_not_null")]}
    bound, other = await stack.bind(spec), await stack.bind(spec)
    body = stack.body(bound, a=1)
    cases = {
        "WYRD_VERIFICATION_404_TARGET_NOT_FOUND": {"verifier_card_uid": uuid7()},
        "WYRD_VERIFICATION_400_INVALID_TARGET": {"verifier_card_uid": bound.subject},
        "WYRD_VERIFICATION_404_BINDING_NOT_FOUND": {"card_uid": other.subject},
    }
    for code, change in cases.items():
        answer = await stack.http.post("/v1/verification/execute", json=body | change)
        assert answer.json()["code"] == code


async def test_windows_and_groups_are_not_verified(stack: Stack) -> None:
    service = {
        "verified_by": [
            {"verifier": sibling("Verifier", name)}
            | ({"runs_on": {"kind": "group_end", "after": "1h"}} if name == "whole-talk" else {})
            for name in ("turn-check", "whole-talk")
        ]
    }
    talk = {
        "inputs": {"turns": "verifiers.turn-check.inputs.a"},
        "requirements": [asserting("inputs.turns", "is_non_empty")],
    }
    turn = {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_not_null")]}
    uids = await stack.declare(
        card("Verifier", "turn-check", turn),
        card("Verifier", "whole-talk", talk),
        card("Service", "talk", service),
    )
    body = {"verifier_card_uid": uids["whole-talk"], "card_uid": uids["talk"], "inputs": {}}
    for answer in (
        await stack.http.post("/v1/verification/execute", json=body),
        await stack.enqueue(body),
    ):
        assert (answer.status_code, answer.json()["code"]) == (
            422,
            "WYRD_VERIFICATION_422_INPUT_UNSUPPORTED",
        )


@pytest.mark.parametrize("group_id", ["", "a b", "x" * 257, "tab\t", "é" * 129])
async def test_a_bad_group_id_is_refused(stack: Stack, group_id: str) -> None:
    bound = await stack.bind(
        {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_not_null")]}
    )
    answer = await stack.http.post(
        "/v1/verification/execute", json=stack.body(bound, a=1) | {"group_id": group_id}
    )
    assert answer.status_code == 400


async def test_p43_nan_in_a_body_is_refused_with_its_place(stack: Stack) -> None:
    for raw in ('{"answer": NaN}', '{"answer": 1e999}', '{"score": -Infinity}', '{"a": 1, "a": 2}'):
        answer = await stack.http.post(
            "/v1/verification/execute", content=raw, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400
        assert answer.json()["code"].startswith("WYRD_")


async def test_p43_code_that_returns_an_infinity_is_inconclusive(stack: Stack) -> None:
    source = (
        "def check(a):\n    return {'outcome': 'passed', 'reason': 'r', 'citations': [], 'x': float('inf')}"
    )
    bound = await stack.bind(
        {"inputs": {"a": {"type": "json"}}, "requirements": [coded(source, {"a": "inputs.a"})]}
    )
    result = (await stack.verify(bound, a=1)).json()
    assert outcomes(result) == {"rule": "inconclusive"}


async def test_context_capture_keeps_digests_but_no_values(stack: Stack) -> None:
    for mode in ("hash", "redact"):
        bound = await stack.bind(
            {
                "inputs": {"a": {"type": "json"}},
                "context_capture": mode,
                "requirements": [asserting("inputs.a", "equals", "open")],
            }
        )
        answer = await stack.verify(bound, a="secret-word")
        await stack.verification.records.settled()
        status = await stack.http.get(f"/v1/verification/executions/{answer.json()['execution_id']}")
        for text in (answer.text, status.text):
            assert "secret-word" not in text
        assert answer.json()["outcome"]["evidence_digests"]["a"]
        assert answer.json()["outcome"]["verdict"] == "failed"


async def test_the_caller_hanging_up_cancels_the_execution_and_records_it(
    stack: Stack, provider: ScriptedProvider
) -> None:
    provider.script([Reply(behaviour="hang")])
    bound = await stack.bind(
        {"inputs": {"a": {"type": "json"}}, "requirements": [judged({"a": "inputs.a"}, "Judge {{a}}")]}
    )
    key = (stack.settings.home / "dev-key").read_text("utf-8").strip()
    caller = await stack.services.tokens.caller(key)
    before = provider.abandoned
    left = asyncio.Event()

    async def gone() -> None:
        await left.wait()

    asked = ExecuteRequest.model_validate(stack.body(bound, a=1))
    running = asyncio.create_task(stack.verification.verify.run(caller, asked, gone))
    await asyncio.to_thread(provider.wait_requests, len(provider.requests) + 1)
    left.set()
    with pytest.raises(HungUp):
        await running
    assert await asyncio.to_thread(provider.wait_abandoned, before + 1)
    await stack.verification.records.settled()
    page = (await stack.http.get("/v1/verification/executions", params={"verifier": bound.verifier})).json()
    assert [item["status"] for item in page["items"]] == ["cancelled"]
