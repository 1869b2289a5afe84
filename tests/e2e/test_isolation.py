"""Stuck work of one kind holds up nothing else, and what cannot run says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from activities.blocks import BlockRunner
from activities.sandbox import Sandbox
from activities.workshop import Workshop
from examples.scripted_provider import Reply, ScriptedProvider
from gateway import Gateway, GatewayConfig
from store.caller import Tenant
from tests.e2e.stack import Stack, agent_spec, asserting, coded, judged, outcomes, requirement, step

pytestmark = pytest.mark.asyncio(loop_scope="module")


def asking(timeout: int) -> dict[str, Any]:
    action = {"kind": "agent", "agent": agent_spec("Say {{a}}"), "inputs": {"a": "inputs.a"}}
    return {
        "inputs": {"a": {"type": "json"}},
        "steps": [{"id": "ask", "action": action, "timeout_seconds": timeout}],
        "requirements": [asserting("steps.ask.output", "is_non_empty")],
    }


async def test_p16_hung_providers_and_endless_code_do_not_delay_a_healthy_submit(
    stack: Stack, provider: ScriptedProvider
) -> None:
    """The healthy execution ends while all sixteen others are still stuck: nothing of it waited for them."""
    provider.script([Reply(behaviour="hang")])
    hung = await stack.bind(asking(timeout=60))
    action = {
        "kind": "code",
        "entrypoint": "spin",
        "source": {"inline": "def spin(a):\n    while True: pass"},
        "inputs": {"a": "inputs.a"},
    }
    endless = await stack.bind(
        {
            "inputs": {"a": {"type": "json"}},
            "steps": [{"id": "spin", "action": action, "timeout_seconds": 60}],
            "requirements": [asserting("steps.spin.status", "equals", "succeeded")],
        }
    )
    healthy = await stack.bind(
        {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_truthy")]}
    )
    asked = len(provider.requests)
    stuck = [await stack.submit(bound, a="x") for bound in (hung, endless) for _ in range(8)]
    assert await asyncio.to_thread(provider.wait_requests, asked + 8)
    found = await stack.ended(await stack.submit(healthy, a="x"))
    assert outcomes(found) == {"rule": "passed"}
    states = [(await stack.status(execution_id))["status"] for execution_id in stuck]
    assert set(states) <= {"pending", "running"}, states
    cancelled = await asyncio.gather(
        *(stack.http.post(f"/v1/verification/executions/{execution_id}/cancel") for execution_id in stuck)
    )
    assert {answer.json()["status"] for answer in cancelled} == {"cancelled"}
    # The sandboxes are free again once their calls were cancelled.
    code = "def check(a):\n    return {'outcome': 'passed', 'reason': 'r', 'citations': []}"
    after = await stack.bind(
        {"inputs": {"a": {"type": "json"}}, "requirements": [coded(code, {"a": "inputs.a"})]}
    )
    assert outcomes(await stack.ended(await stack.submit(after, a=1))) == {"rule": "passed"}


async def test_p16_endless_code_is_cut_at_its_own_limit(stack: Stack) -> None:
    action = {
        "kind": "code",
        "entrypoint": "spin",
        "source": {"inline": "def spin():\n    while True: pass"},
    }
    bound = await stack.bind(
        {
            "inputs": {"a": {"type": "json"}},
            "steps": [{"id": "spin", "action": action, "timeout_seconds": 1}],
            "requirements": [asserting("steps.spin.output", "is_not_null")],
        }
    )
    for found in ((await stack.verify(bound)).json(), await stack.ended(await stack.submit(bound))):
        assert step(found, "spin")["reason_kind"] == "timeout"
        assert outcomes(found) == {"rule": "inconclusive"}


async def test_p16_an_object_store_that_stalls_is_a_timeout_of_the_step(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled = asyncio.Event()

    async def stall(tenant: Tenant, sha256: str, into: Path) -> int:
        await stalled.wait()
        return 0

    bound = await stack.bind(
        {
            "inputs": {"file": {"type": "media", "formats": ["text"]}},
            "steps": [
                {
                    "id": "read",
                    "action": {"kind": "extract", "from": "inputs.file"},
                    "timeout_seconds": 1,
                }
            ],
            "requirements": [asserting("steps.read.output.text", "contains", "x")],
        }
    )
    file = await stack.upload(b"x", "text")
    monkeypatch.setattr(stack.services.blobs, "fetch", stall)
    found = await stack.ended(await stack.submit(bound, file=file))
    assert step(found, "read")["reason_kind"] == "timeout"


async def test_a_verify_cut_by_its_deadline_answers_an_ordinary_inconclusive_result(
    stack: Stack, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.script([Reply(behaviour="hang")])
    monkeypatch.setattr(stack.verification.verify, "_judging_seconds", 1.0)
    bound = await stack.bind(
        {
            "inputs": {"a": {"type": "json"}},
            "requirements": [
                judged({"a": "inputs.a"}, "{{a}}", id="slow"),
                asserting("inputs.a", "is_truthy"),
            ],
        }
    )
    answer = await stack.verify(bound, a=1)
    assert answer.status_code == 200
    assert outcomes(answer.json()) == {"slow": "inconclusive", "rule": "passed"}
    assert requirement(answer.json(), "slow")["reason_kind"] == "timeout"


async def test_no_verdict_at_the_answers_deadline_is_an_error_and_recorded(
    stack: Stack, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.script([Reply(behaviour="hang")])
    monkeypatch.setattr(stack.verification.verify, "_answer_seconds", 0.5)
    bound = await stack.bind(
        {"inputs": {"a": {"type": "json"}}, "requirements": [judged({"a": "inputs.a"}, "{{a}}")]}
    )
    answer = await stack.verify(bound, a=1)
    assert (answer.status_code, answer.json()["code"]) == (504, "WYRD_VERIFICATION_504_EXECUTION_TIMED_OUT")
    await stack.verification.records.settled()
    status = await stack.status(answer.json()["details"]["execution_id"])
    assert (status["status"], status["error"]["code"]) == (
        "timed_out",
        "WYRD_VERIFICATION_504_EXECUTION_TIMED_OUT",
    )


async def test_where_no_sandbox_works_code_is_inconclusive_and_never_runs(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await Sandbox.start(walls=[])
    assert sandbox.engine == "none"
    gateway = Gateway(GatewayConfig(), {})
    workshop = Workshop(sandbox, gateway, BlockRunner(stack.services.blobs, sandbox, gateway))

    async def get() -> Workshop:
        return workshop

    monkeypatch.setattr(stack.verification.workshop, "get", get)
    bound = await stack.bind(
        {
            "inputs": {"a": {"type": "json"}},
            "requirements": [
                coded(
                    "def check(a):\n    return {'outcome': 'passed', 'reason': 'r', 'citations': []}",
                    {"a": "inputs.a"},
                )
            ],
        }
    )
    result = (await stack.verify(bound, a=1)).json()
    assert outcomes(result) == {"rule": "inconclusive"}
    assert requirement(result)["reason_kind"] == "sandbox_unavailable"
    await workshop.close()


async def test_agents_with_tools_are_declared_and_inconclusive_with_the_reason(stack: Stack) -> None:
    agent = agent_spec("Look at {{a}}") | {"tool_names": ["cards.list"]}
    action = {"kind": "agent", "agent": agent, "inputs": {"a": "inputs.a"}}
    bound = await stack.bind(
        {
            "inputs": {"a": {"type": "json"}},
            "steps": [{"id": "look", "action": action}],
            "requirements": [asserting("steps.look.output", "is_non_empty")],
        }
    )
    for found in (
        (await stack.verify(bound, a="x")).json(),
        await stack.ended(await stack.submit(bound, a="x")),
    ):
        assert step(found, "look")["reason_kind"] == "not_configured"
        assert "tools" in step(found, "look")["reason"]
        assert outcomes(found) == {"rule": "inconclusive"}
