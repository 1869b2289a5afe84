"""submit on a real Temporal server: results, idempotency, retries, ends that are no verdict."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from activities.settler import Settler
from examples.scripted_provider import Reply, ScriptedProvider
from store.blocks import BlockEnd, Blocks
from store.executions import Executions
from tests.e2e.stack import (
    Bound,
    Stack,
    agent_spec,
    asserting,
    coded,
    judged,
    largest_payload,
    outcomes,
    requirement,
    step,
)
from wyrd.wire.ids import is_uuid7, uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

BUSY = Reply(status=503, error={"message": "busy", "type": "server_error"})


def simple(operator: str = "is_truthy") -> dict[str, Any]:
    return {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", operator)]}


def asking(retries: int = 0, timeout: int | None = None) -> dict[str, Any]:
    """A Verifier whose one step asks the scripted provider, and whose requirement reads what it said."""
    action = {"kind": "agent", "agent": agent_spec("Say {{a}}"), "inputs": {"a": "inputs.a"}}
    asked: dict[str, Any] = {"id": "ask", "action": action, "retries": retries}
    if timeout is not None:
        asked["timeout_seconds"] = timeout
    return {
        "inputs": {"a": {"type": "json"}},
        "steps": [asked],
        "requirements": [asserting("steps.ask.output", "equals", "fine")],
    }


async def test_submit_answers_with_ids_and_the_result_follows(stack: Stack) -> None:
    bound = await stack.bind(simple())
    answer = await stack.enqueue(stack.body(bound, a="yes"))
    found = answer.json()
    assert answer.status_code == 202
    assert is_uuid7(found["execution_id"])
    assert found["workflow_id"] == f"local/verification/{found['execution_id']}"
    assert answer.headers["location"] == f"/v1/verification/executions/{found['execution_id']}"
    ended = await stack.ended(found["execution_id"])
    assert (ended["status"], ended["workflow_id"]) == ("completed", found["workflow_id"])
    assert ended["result"]["outcome"]["verdict"] == "passed"


async def test_a_submit_and_a_verify_of_the_same_evidence_agree(
    stack: Stack, provider: ScriptedProvider
) -> None:
    code = "def check(text):\n    return {'outcome': 'failed', 'reason': str(len(text)), 'citations': []}"
    bound = await stack.bind(
        {
            "inputs": {"file": {"type": "media", "formats": ["text"]}, "flag": {"type": "json"}},
            "steps": [
                {"id": "read", "action": {"kind": "extract", "from": "inputs.file"}},
                {
                    "id": "skipped",
                    "when": {"path": "inputs.flag", "operator": "is_truthy"},
                    "action": {"kind": "extract", "from": "inputs.file"},
                    "requirements": [asserting("inputs.flag", "is_truthy", id="inside")],
                },
            ],
            "requirements": [
                asserting("steps.read.output.text", "contains", "two", id="contains"),
                asserting("steps.skipped.output.text", "contains", "two", id="of-skipped"),
                asserting("steps.skipped.status", "equals", "skipped", id="status"),
                coded(code, {"text": "steps.read.output.text"}, id="code"),
                judged({"claim": "requirement.statement"}, "{{claim}}", id="judge"),
            ],
        }
    )
    provider.script([Reply(json={"outcome": "failed", "reason": "no", "citations": []})])
    file = await stack.upload(b"one\ntwo", "text")
    verified = (await stack.verify(bound, file=file, flag=False)).json()
    submitted = (await stack.ended(await stack.submit(bound, file=file, flag=False)))["result"]

    def told(result: dict[str, Any]) -> Any:
        varying = ("duration_ms", "attempt_log", "model_ms", "response_id")
        text = json.dumps(result["outcome"])
        return json.loads(text, object_hook=lambda d: {k: v for k, v in d.items() if k not in varying})

    assert told(verified) == told(submitted)
    assert outcomes(submitted) == {
        "inside": "not_applicable",
        "contains": "passed",
        "of-skipped": "not_applicable",
        "status": "passed",
        "code": "failed",
        "judge": "failed",
    }


async def test_the_same_key_and_body_are_one_execution(stack: Stack) -> None:
    bound = await stack.bind(simple())
    body = stack.body(bound, a=1)
    key = f"verification-submit-{uuid7()}"
    answers = await asyncio.gather(*(stack.enqueue(body, key) for _ in range(8)))
    assert len({answer.json()["execution_id"] for answer in answers}) == 1
    again = await stack.enqueue({**body, "inputs": {"a": {"value": 1.0, "kind": "json"}}}, key)
    assert again.json() == answers[0].json(), "1 and 1.0 are the same number"


async def test_the_same_key_with_another_body_is_an_errored_execution_and_runs_nothing(stack: Stack) -> None:
    bound = await stack.bind(simple())
    key = f"verification-submit-{uuid7()}"
    first = await stack.enqueue(stack.body(bound, a=1), key)
    other = stack.body(bound, a=2)
    second, third = await stack.enqueue(other, key), await stack.enqueue(other, key)
    assert second.status_code == 202
    assert second.json() == third.json() != first.json()
    status = await stack.status(second.json()["execution_id"])
    assert status["status"] == "errored"
    assert status["error"]["code"] == "WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT"
    assert (await stack.ended(first.json()["execution_id"]))["status"] == "completed"


async def test_a_key_used_for_a_declaration_conflicts(stack: Stack) -> None:
    bound = await stack.bind(simple())
    key = f"shared-{uuid7()}"
    submission = {
        "apiVersion": "wyrd/v1",
        "kind": "Verifier",
        "metadata": {"name": "shared-key", "version": "1.0.0", "space": "tests"},
        "spec": {},
        "artifacts": [],
    }
    declared = await stack.http.post(
        "/v1/cards", json={"submissions": [submission]}, headers={"idempotency-key": key}
    )
    assert declared.status_code < 300
    status = await stack.status((await stack.enqueue(stack.body(bound, a=1), key)).json()["execution_id"])
    assert status["error"]["code"] == "WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT"


@pytest.mark.parametrize("key", ["short", "with space in it", "x" * 257, "schlüssel-eins"])
async def test_a_malformed_key_is_refused(stack: Stack, key: str) -> None:
    bound = await stack.bind(simple())
    answer = await stack.http.post(
        "/v1/verification/enqueue",
        json=stack.body(bound, a=1),
        headers=[(b"idempotency-key", key.encode("utf-8"))],
    )
    assert answer.json()["code"] == "WYRD_REGISTRY_400_IDEMPOTENCY_KEY_INVALID"


async def test_a_submit_without_a_key_is_refused(stack: Stack) -> None:
    bound = await stack.bind(simple())
    answer = await stack.http.post("/v1/verification/enqueue", json=stack.body(bound, a=1))
    assert answer.json()["code"] == "WYRD_REGISTRY_400_IDEMPOTENCY_KEY_REQUIRED"


async def test_p17_every_attempt_is_kept_when_the_third_works(
    stack: Stack, provider: ScriptedProvider
) -> None:
    provider.script([BUSY, BUSY, Reply(text="fine")])
    bound = await stack.bind(asking(retries=2))
    found = await stack.ended(await stack.submit(bound, a="hello"))
    asked = step(found, "ask")
    assert (asked["status"], asked["attempts"]) == ("succeeded", 3)
    assert [attempt["number"] for attempt in asked["attempt_log"]] == [1, 2, 3]
    assert ["503" in str(attempt.get("error", "")) for attempt in asked["attempt_log"]] == [True, True, False]
    assert outcomes(found) == {"rule": "passed"}


async def test_p17_the_last_error_stands_when_no_attempt_works(
    stack: Stack, provider: ScriptedProvider
) -> None:
    provider.script([BUSY])
    bound = await stack.bind(asking(retries=2))
    found = await stack.ended(await stack.submit(bound, a="hello"))
    asked = step(found, "ask")
    assert (asked["status"], asked["attempts"]) == ("failed", 3)
    assert "503" in asked["reason"]
    assert len(asked["attempt_log"]) == 3
    assert (found["status"], outcomes(found)) == ("completed", {"rule": "inconclusive"})


async def test_p15_error_text_is_never_judged_as_an_answer(stack: Stack, provider: ScriptedProvider) -> None:
    provider.script([Reply(status=400, error={"message": "error error", "type": "bad"})])
    spec = asking() | {"requirements": [asserting("steps.ask.output", "contains", "error")]}
    found = await stack.ended(await stack.submit(await stack.bind(spec), a="x"))
    assert outcomes(found) == {"rule": "inconclusive"}
    assert requirement(found)["reason_kind"] == "step_failed"


async def test_p52_a_recorded_judgement_is_never_asked_for_again(
    stack: Stack, provider: ScriptedProvider
) -> None:
    """What a crash between the judge's answer and its completion leaves: the block's end in the database."""
    provider.script([Reply(json={"outcome": "failed", "reason": "asked", "citations": []})])
    spec = {"inputs": {"a": {"type": "json"}}, "requirements": [judged({"a": "inputs.a"}, "{{a}}")]}
    bound = await stack.bind(spec)
    original = Executions.accept

    def accept_with_end(self: Executions, new: Any, **options: Any) -> Any:
        accepted = original(self, new, **options)
        document = json.dumps({"reason": "judged before the crash", "citations": []})
        Blocks(self.connection, self.tenant, new.execution_id).save(BlockEnd(0, "f", document))
        return accepted

    before = len(provider.requests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executions, "accept", accept_with_end)
        execution_id = await stack.submit(bound, a=1)
    found = await stack.ended(execution_id)
    assert requirement(found)["reason"] == "judged before the crash"
    assert len(provider.requests) == before


async def test_p65_recording_a_result_twice_changes_nothing(stack: Stack) -> None:
    bound = await stack.bind(simple())
    execution_id = await stack.submit(bound, a=1)
    first = await stack.ended(execution_id)

    def again(connection: Any) -> bool:
        executions = Executions(connection, stack.tenant)
        row = executions.find(execution_id)
        assert row is not None
        return executions.complete(execution_id, verdict="failed", result="{}", started_at=row.created_at)

    assert await stack.services.database.write(again) is False
    assert await stack.status(execution_id) == first


async def test_cancel_stops_what_runs_and_is_recorded(stack: Stack, provider: ScriptedProvider) -> None:
    provider.script([Reply(behaviour="hang")])
    bound = await stack.bind(asking())
    before = provider.abandoned
    asked = len(provider.requests)
    execution_id = await stack.submit(bound, a="x")
    assert await asyncio.to_thread(provider.wait_requests, asked + 1)
    assert (await stack.status(execution_id))["status"] == "running"
    answer = await stack.http.post(f"/v1/verification/executions/{execution_id}/cancel")
    assert answer.json()["status"] == "cancelled"
    assert "result" not in answer.json()
    assert await asyncio.to_thread(provider.wait_abandoned, before + 1), "the model call goes on"
    again = await stack.http.post(f"/v1/verification/executions/{execution_id}/cancel")
    assert again.json() == answer.json()


async def test_cancelling_what_has_ended_changes_nothing(stack: Stack) -> None:
    bound = await stack.bind(simple())
    execution_id = await stack.submit(bound, a=1)
    before = await stack.ended(execution_id)
    answer = await stack.http.post(f"/v1/verification/executions/{execution_id}/cancel")
    assert answer.json() == before


async def test_p16_a_provider_that_never_answers_is_a_timeout_of_the_step(
    stack: Stack, provider: ScriptedProvider
) -> None:
    provider.script([Reply(behaviour="hang")])
    bound = await stack.bind(asking(timeout=1))
    found = await stack.ended(await stack.submit(bound, a="x"))
    assert step(found, "ask")["reason_kind"] == "timeout"
    assert outcomes(found) == {"rule": "inconclusive"}


async def test_the_settler_ends_what_was_terminated(stack: Stack, provider: ScriptedProvider) -> None:
    provider.script([Reply(behaviour="hang")])
    execution_id = await stack.submit(await stack.bind(asking()), a="x")
    await stack.client.get_workflow_handle(f"local/verification/{execution_id}").terminate("by hand")
    row = await stack.services.database.read(
        lambda connection: Executions(connection, stack.tenant).find(execution_id)
    )
    settler = stack.verification.executions.settler
    await settler.settle(stack.tenant, row)
    found = await stack.status(execution_id)
    assert (found["status"], found["error"]["message"]) == ("cancelled", "the workflow was terminated")


async def test_the_settler_starts_again_what_was_accepted_but_never_started(stack: Stack) -> None:
    """What a crash between the row and the start leaves behind."""
    bound = await stack.bind(simple())

    async def no_start(*_: Any, **__: Any) -> None:
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("api.submit.start_verification", no_start)
        patch.setattr("api.submit.Submit._acknowledge", lambda *_: None)
        execution_id = await stack.submit(bound, a=1)
    row = await stack.services.database.read(
        lambda connection: Executions(connection, stack.tenant).find(execution_id)
    )
    settler: Settler = stack.verification.executions.settler
    await settler.settle(stack.tenant, row)
    assert (await stack.ended(execution_id))["status"] == "completed"


async def test_unreachable_temporal_refuses_and_leaves_nothing_behind(stack: Stack) -> None:
    from temporalio.service import RPCError, RPCStatusCode

    bound = await stack.bind(simple())

    async def refuse(*_: Any, **__: Any) -> None:
        raise RPCError("down", RPCStatusCode.UNAVAILABLE, b"")

    key = f"verification-submit-{uuid7()}"
    body = stack.body(bound, a=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("api.submit.start_verification", refuse)
        answer = await stack.enqueue(body, key)
    assert (answer.status_code, answer.json()["code"]) == (503, "WYRD_SERVER_503_SERVICE_UNAVAILABLE")
    page = await stack.http.get("/v1/verification/executions", params={"verifier": bound.verifier})
    assert page.json()["items"] == []
    assert (await stack.ended((await stack.enqueue(body, key)).json()["execution_id"]))[
        "status"
    ] == "completed"


async def test_the_list_filters_and_pages(stack: Stack) -> None:
    bound = await stack.bind(simple())
    run_id = uuid7()
    ids = [await stack.submit(bound, a=bool(number % 2)) for number in range(5)]
    body = stack.body(bound, a=True) | {"run_id": run_id, "group_id": "talk-1"}
    ids.append((await stack.enqueue(body)).json()["execution_id"])
    for execution_id in ids:
        await stack.ended(execution_id)

    async def listed(**params: Any) -> list[str]:
        answer = await stack.http.get(
            "/v1/verification/executions", params={"verifier": bound.verifier, **params}
        )
        assert answer.status_code == 200, answer.text
        return [item["execution_id"] for item in answer.json()["items"]]

    assert await listed() == ids[::-1]
    assert await listed(verdict="passed") == [ids[5], ids[3], ids[1]]
    assert await listed(run_id=run_id) == await listed(group_id="talk-1") == [ids[5]]
    assert await listed(status="errored") == []
    first = (
        await stack.http.get("/v1/verification/executions", params={"verifier": bound.verifier, "limit": 4})
    ).json()
    assert [item["execution_id"] for item in first["items"]] == ids[:1:-1]
    rest = await listed(limit=4, cursor=first["next_cursor"])
    assert rest == ids[1::-1]
    mismatch = await stack.http.get(
        "/v1/verification/executions", params={"limit": 4, "cursor": first["next_cursor"]}
    )
    assert mismatch.json()["code"] == "WYRD_REGISTRY_400_CURSOR_MISMATCH"


async def test_unknown_executions_are_not_found(stack: Stack) -> None:
    answer = await stack.http.get(f"/v1/verification/executions/{uuid7()}")
    assert (answer.status_code, answer.json()["code"]) == (404, "WYRD_VERIFICATION_404_EXECUTION_NOT_FOUND")


async def test_temporal_shows_people_what_runs(stack: Stack) -> None:
    bound = await stack.bind(simple())
    execution_id = await stack.submit(bound, a=1)
    await stack.ended(execution_id)
    handle = stack.client.get_workflow_handle(f"local/verification/{execution_id}")
    described = await handle.describe()
    found = {pair.key.name: pair.value for pair in described.typed_search_attributes}
    assert found["WyrdTenant"] == "local"
    assert found["WyrdVerdict"] == "passed"
    assert found["WyrdVerifier"].startswith("tests/Verifier/")
    summary = await described.static_summary()
    assert summary is not None
    assert "tests/Verifier/" in summary


class TestSizes:
    """P63: only numbers and letters cross the Temporal boundary."""

    async def _ended_small(self, stack: Stack, bound: Bound, **inputs: Any) -> dict[str, Any]:
        execution_id = await stack.submit(bound, **inputs)
        found = await stack.ended(execution_id)
        assert largest_payload(await stack.history(execution_id)) <= 64 * 1024
        assert found["status"] == "completed"
        return found

    async def test_p63_three_megabytes_of_extracted_text(self, stack: Stack) -> None:
        bound = await stack.bind(
            {
                "inputs": {"file": {"type": "media", "formats": ["text"]}},
                "steps": [{"id": "read", "action": {"kind": "extract", "from": "inputs.file"}}],
                "requirements": [asserting("steps.read.output.text", "contains", "needle")],
            }
        )
        file = await stack.upload(b"hay " * 786_432 + b"needle", "text")
        found = await self._ended_small(stack, bound, file=file)
        assert outcomes(found) == {"rule": "passed"}
        read = step(found, "read")
        assert read["output_bytes"] > 3_000_000
        assert "output" not in read
        assert len(read["output_sha256"]) == 64

    async def test_p63_forty_steps_of_a_hundred_kilobytes(self, stack: Stack) -> None:
        source = "def make(n):\n    return {'n': n, 'text': 'x' * 100_000}"
        steps = [
            {
                "id": f"s{number}",
                "action": {
                    "kind": "code",
                    "entrypoint": "make",
                    "source": {"inline": source},
                    "inputs": {"n": "inputs.n"},
                },
            }
            for number in range(40)
        ]
        requirements = [
            asserting(f"steps.s{number}.output.n", "equals", 7, id=f"r{number}") for number in range(40)
        ]
        bound = await stack.bind(
            {"inputs": {"n": {"type": "json"}}, "steps": steps, "requirements": requirements}
        )
        found = await self._ended_small(stack, bound, n=7)
        assert set(outcomes(found).values()) == {"passed"}

    async def test_p63_a_judges_reason_of_three_megabytes(
        self, stack: Stack, provider: ScriptedProvider
    ) -> None:
        provider.script([Reply(json={"outcome": "failed", "reason": "x" * 3_000_000, "citations": []})])
        spec = {"inputs": {"a": {"type": "json"}}, "requirements": [judged({"a": "inputs.a"}, "{{a}}")]}
        found = await self._ended_small(stack, await stack.bind(spec), a=1)
        assert outcomes(found) == {"rule": "inconclusive"}
        assert len(json.dumps(found)) < 100_000

    async def test_p63_a_thousand_blocks_with_long_names(self, stack: Stack) -> None:
        requirements = [
            asserting("inputs.a", "is_truthy", id=f"{'r' * 120}{number}") for number in range(1000)
        ]
        bound = await stack.bind({"inputs": {"a": {"type": "json"}}, "requirements": requirements})
        found = await self._ended_small(stack, bound, a=1)
        assert found["result"]["outcome"]["counts"]["passed"] == 1000

    async def test_p63_a_megabyte_of_inline_evidence(self, stack: Stack) -> None:
        found = await self._ended_small(stack, await stack.bind(simple()), a="x" * 1_000_000)
        assert outcomes(found) == {"rule": "passed"}
