"""Operators from declaration to delivery: who hears of which verdict, once, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from temporalio.testing import ActivityEnvironment

from activities.bundle import Bundles
from activities.known import KnownExecutions
from activities.verification import VerificationActivities
from examples.scripted_provider import Reply, ScriptedProvider
from tests.e2e.stack import Bound, Stack, agent_spec, asserting, card, in_process, sibling
from tests.receivers import HANG, Answer, PagerDuty, Receiver, plain, receiving, slack
from workflows.contracts import FinishExecution
from wyrd.cards import load
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEED = Path(__file__).parents[1] / "cards_language" / "seed"
TOKEN, ROUTING_KEY, BEARER = "xoxb-of-the-desk", "routing-key-of-the-desk", "bearer-of-the-desk"
SPEC = {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "equals", "right")]}


@dataclass
class Desk:
    """A stack whose Operators reach three receivers."""

    stack: Stack
    hook: Receiver
    workspace: Receiver
    pager: Receiver

    def operator(self, path: str = "/hook", **more: Any) -> dict[str, Any]:
        return {
            "kind": "http",
            "method": "post",
            "url": f"{self.hook.url}{path}",
            "auth": {"scheme": "bearer", "connection": "desk-http"},
            "body": {"verdict": "{{verdict}}", "of": "{{verifier_ref}}", "failed": "{{failed_requirements}}"},
            **more,
        }

    async def bind(self, *operators: Any, more: tuple[dict[str, Any], ...] = ()) -> Bound:
        """A Verifier of its own, whose failures those Operators hear of."""
        name = f"v{uuid7().replace('-', '')[-20:]}"
        entry = {"verifier": sibling("Verifier", name), "on_failure": list(operators)}
        service = card("Service", f"{name}-desk", {"verified_by": [entry]})
        uids = await self.stack.declare(*more, card("Verifier", name, SPEC), service)
        return Bound(uids[name], uids[f"{name}-desk"])

    async def dispatched(self, execution_id: str) -> list[dict[str, Any]]:
        """The dispatches of an ended execution, once they have ended too."""
        found = (await self.stack.ended(execution_id))["dispatches"]
        for one in found:
            handle = self.stack.client.get_workflow_handle(one["workflow_id"])
            await asyncio.wait_for(asyncio.gather(handle.result(), return_exceptions=True), 60)
        dispatches: list[dict[str, Any]] = (await self.stack.status(execution_id))["dispatches"]
        return dispatches

    def heard(self, path: str) -> list[Any]:
        return [one for one in self.hook.received if one.target == path]


CONNECTIONS: list[dict[str, Any]] = [
    {"provider": "slack", "name": "desk-slack", "workspace_id": "T0123", "bot_token": TOKEN},
    {"provider": "pager_duty", "name": "support-pagerduty", "integration_key": ROUTING_KEY},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(
    temporal: str, provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Desk]:
    deployments = {
        name: {"adapter": "openai_compatible", "base_url": provider.url} for name in ("openai", "scripted")
    }
    async with (
        receiving(plain) as hook,
        receiving(slack(TOKEN)) as workspace,
        receiving(PagerDuty(ROUTING_KEY)) as pager,
        in_process(
            tmp_path_factory.mktemp("operators"),
            temporal,
            deployments=deployments,
            slack_url=workspace.url,
            pager_duty_url=pager.url,
            operator_destinations=("127.0.0.1",),
            public_url="https://wyrd.example",
        ) as stack,
    ):
        http = {"provider": "http", "name": "desk-http", "origin": hook.url}
        for body in (*CONNECTIONS, {**http, "auth": {"scheme": "bearer", "token": BEARER}}):
            answer = await stack.http.post("/v1/operator-connections", json=body)
            assert answer.status_code == 201, answer.text
        yield Desk(stack, hook, workspace, pager)


async def test_the_operator_of_the_pages_pages_once_for_a_failed_submit(desk: Desk) -> None:
    (operator,) = load(SEED / "page-support-oncall.yaml").submissions()
    named = {"kind": "Operator", "name": "page-support-oncall", "version": "1.0.0", "space": "default"}
    bound = await desk.bind({"sibling": named}, more=(operator,))
    execution_id = await desk.stack.submit(bound, a="wrong")
    (dispatch,) = await desk.dispatched(execution_id)
    status = await desk.stack.status(execution_id)
    assert status["result"]["outcome"]["verdict"] == "failed"
    assert set(dispatch["operator"]) == {"uid"}
    assert (dispatch["status"], dispatch["error"]) == ("delivered", None)
    assert [(one["number"], one["status_code"]) for one in dispatch["attempts"]] == [(1, 202)]
    (event,) = [one.json for one in desk.pager.about(dispatch["dispatch_id"])]
    verifier = status["result"]["verifier"]
    assert event["payload"]["summary"].startswith(
        f"tests/Verifier/{verifier['name']}@1.0.0 failed for tests/"
    )
    assert event["payload"]["custom_details"]["failed_requirements"] == "rule"
    assert event["payload"]["custom_details"]["result_url"] == (
        f"https://wyrd.example/v1/verification/executions/{execution_id}"
    )


async def test_every_operator_of_a_binding_is_delivered_and_an_inline_one_is_told_by_its_digest(
    desk: Desk,
) -> None:
    channel = {"kind": "slack", "connection": "desk-slack", "channel_id": "C0SUPPORT", "text": "{{summary}}"}
    posted = {"kind": "notify", "channel": channel}
    bound = await desk.bind(desk.operator("/every"), posted, desk.operator("/gone", expect_status=201))
    dispatches = await desk.dispatched(await desk.stack.submit(bound, a="wrong"))
    assert sorted(one["status"] for one in dispatches) == ["delivered", "delivered", "failed"]
    assert all(set(one["operator"]) == {"digest"} for one in dispatches)
    (failed,) = [one for one in dispatches if one["status"] == "failed"]
    assert failed["error"]["code"] == "provider_rejected"
    assert len(desk.heard("/every")) == len(desk.heard("/gone")) == 1
    (told,) = desk.heard("/every")
    assert told.json["verdict"] == "failed"
    assert told.json["failed"] == "rule"
    assert told.headers["authorization"] == f"Bearer {BEARER}"
    sent = [one.json["text"] for one in desk.workspace.received]
    assert "1 of 1 requirement failed" in sent


async def test_nobody_hears_of_a_verify_nor_of_what_is_not_failed(
    desk: Desk, provider: ScriptedProvider
) -> None:
    operator = desk.operator("/silent")
    bound = await desk.bind(operator)
    verified = await desk.stack.verify(bound, a="wrong")
    assert verified.json()["outcome"]["verdict"] == "failed"
    passed = await desk.stack.submit(bound, a="right")
    assert await desk.dispatched(passed) == []
    status = await desk.stack.status(passed)
    assert status["result"]["outcome"]["verdict"] == "passed"
    inconclusive = await desk.stack.submit(bound)
    assert await desk.dispatched(inconclusive) == []
    assert (await desk.stack.status(inconclusive))["result"]["outcome"]["verdict"] == "inconclusive"
    action = {"kind": "agent", "agent": agent_spec("Say {{a}}"), "inputs": {"a": "inputs.a"}}
    asking = {
        "inputs": {"a": {"type": "json"}},
        "steps": [{"id": "ask", "action": action}],
        "requirements": [asserting("steps.ask.output", "equals", "fine")],
    }
    entry = {"verifier": sibling("Verifier", "asks-for-ever"), "on_failure": [operator]}
    uids = await desk.stack.declare(
        card("Verifier", "asks-for-ever", asking), card("Service", "waiting-desk", {"verified_by": [entry]})
    )
    waiting = Bound(uids["asks-for-ever"], uids["waiting-desk"])
    provider.script([Reply(behaviour="hang")])
    asked = len(provider.requests)
    cancelled = await desk.stack.submit(waiting, a="x")
    await asyncio.to_thread(provider.wait_requests, asked + 1)
    await desk.stack.http.post(f"/v1/verification/executions/{cancelled}/cancel")
    assert (await desk.stack.ended(cancelled))["status"] == "cancelled"
    assert (await desk.stack.status(cancelled))["dispatches"] == []
    assert desk.heard("/silent") == []


def answering(name: str, *operators: Any) -> dict[str, Any]:
    """A Service with the Agent `shared-agent` as its component, checked there by `shared-check`."""
    entry = {"verifier": sibling("Verifier", "shared-check"), "on_failure": list(operators)}
    component = {"alias": "agent", "ref": sibling("Agent", "shared-agent"), "verified_by": [entry]}
    return card("Service", name, {"components": [component]})


async def shared(desk: Desk, path: str) -> dict[str, str]:
    """Two Services that bind one Verifier to one Agent, each with an Operator; and the Agent itself."""
    operator = desk.operator(path)
    prompt = {"provider": "openai", "model": "judge-1", "messages": [{"role": "user", "content": "{{q}}"}]}
    own = {"verifier": sibling("Verifier", "shared-check"), "on_failure": [operator]}
    agent = {
        "execution_route": {"kind": "wyrd_gateway", "deployment": "openai"},
        "prompt": prompt,
        "verified_by": [own],
    }
    cards = (card("Verifier", "shared-check", SPEC), card("Agent", "shared-agent", agent))
    first = await desk.stack.declare(*cards, answering("first-desk", operator))
    second = await desk.stack.declare(*cards, answering("second-desk", operator))
    return {**first, **second}


async def test_each_matching_binding_dispatches_and_a_bound_caller_reaches_its_own_alone(desk: Desk) -> None:
    uids = await shared(desk, "/shared")
    bound = Bound(uids["shared-check"], uids["shared-agent"])
    dispatches = await desk.dispatched(await desk.stack.submit(bound, a="wrong"))
    assert len({one["binding_id"] for one in dispatches}) == 3
    assert len({one["operator"]["digest"] for one in dispatches}) == 1
    assert len({one["dispatch_id"] for one in dispatches}) == len(desk.heard("/shared")) == 3
    ref = {"kind": "Service", "name": "first-desk", "version": "1.0.0", "space": "tests"}
    ref["uid"] = uids["first-desk"]
    issued = await desk.stack.http.post("/auth/issue-key", json={"card_ref": ref})
    assert issued.status_code == 200, issued.text
    headers = {"authorization": f"Bearer {issued.json()['key']}", "idempotency-key": f"submit-{uuid7()}"}
    answer = await desk.stack.http.post(
        "/v1/verification/enqueue", json=desk.stack.body(bound, a="wrong"), headers=headers
    )
    assert answer.status_code == 202, answer.text
    dispatches = await desk.dispatched(answer.json()["execution_id"])
    # Of the Service it is bound to, and of the Agent in that Service's graph; not of the second Service.
    assert len(dispatches) == 2
    await desk.stack.http.post(f"/v1/cards/by-uid/Service/{uids['second-desk']}/deactivate")
    dispatches = await desk.dispatched(await desk.stack.submit(bound, a="wrong"))
    assert len(dispatches) == 2


async def test_p65_recording_a_result_again_makes_no_second_dispatch(desk: Desk) -> None:
    """As when the answer of the activity is lost: it names the same dispatch, until that has ended."""
    desk.hook.next(HANG)
    bound = await desk.bind(desk.operator("/again", budget={"max_wall_seconds": 3}))
    heard = len(desk.hook.received)
    execution_id = await desk.stack.submit(bound, a="wrong")
    await desk.hook.arrived(heard + 1)
    stack = desk.stack
    database, blobs = stack.services.database, stack.services.blobs
    bundles = Bundles(database)
    known = KnownExecutions(database, blobs, bundles, stack.traces)
    activities = VerificationActivities(database, bundles, known, api_url=stack.settings.api_url)
    argument = FinishExecution(
        tenant_id=stack.tenant.id,
        tenant_slug=stack.tenant.slug,
        execution_id=execution_id,
        blocks=[0],
        states="|-",
    )
    again = await ActivityEnvironment().run(activities.finish_execution, argument)
    (dispatch,) = await desk.dispatched(execution_id)
    assert [one.dispatch_id for one in again.dispatches] == [dispatch["dispatch_id"]]
    assert 0 < again.dispatches[0].seconds <= 3
    last = await ActivityEnvironment().run(activities.finish_execution, argument)
    assert (last.verdict, last.dispatches) == ("failed", [])
    assert len(desk.heard("/again")) == 1


async def test_the_deliveries_are_children_that_outlive_the_verification(desk: Desk) -> None:
    desk.hook.next(Answer(400))
    bound = await desk.bind(desk.operator("/child"))
    execution_id = await desk.stack.submit(bound, a="wrong")
    status = await desk.stack.ended(execution_id)
    assert status["status"] == "completed"
    (dispatch,) = await desk.dispatched(execution_id)
    described = await desk.stack.client.get_workflow_handle(dispatch["workflow_id"]).describe()
    assert described.parent_id == f"local/verification/{execution_id}"
    assert described.status is not None
    assert (described.status.name, dispatch["error"]["code"]) == ("FAILED", "provider_rejected")


async def test_no_secret_is_in_a_status_a_history_or_the_files_of_the_server(desk: Desk) -> None:
    desk.hook.next(Answer(500, BEARER.encode()))
    bound = await desk.bind(desk.operator("/secret", timeout_seconds=2, budget={"max_wall_seconds": 2}))
    execution_id = await desk.stack.submit(bound, a="wrong")
    (dispatch,) = await desk.dispatched(execution_id)
    assert dispatch["error"]["code"] == "deadline_exceeded"
    told = [str(await desk.stack.status(execution_id)), (await desk.stack.history(execution_id)).to_json()]
    handle = desk.stack.client.get_workflow_handle(dispatch["workflow_id"])
    told.append((await handle.fetch_history()).to_json())
    told.append((await desk.stack.http.get("/v1/operator-connections")).text)
    files = [path.read_bytes() for path in desk.stack.settings.home.rglob("*") if path.is_file()]
    for secret in (TOKEN, ROUTING_KEY, BEARER):
        assert not [text for text in told if secret in text]
        assert not [data for data in files if secret.encode() in data]


async def test_a_disabled_connection_stops_what_was_declared_with_it(desk: Desk) -> None:
    stack: httpx.AsyncClient = desk.stack.http
    made = {"provider": "http", "name": "short-lived", "origin": desk.hook.url}
    auth = {"scheme": "header", "name": "X-Key", "value": "a-key"}
    connection = (await stack.post("/v1/operator-connections", json={**made, "auth": auth})).json()
    operator = desk.operator(
        "/disabled", auth={"scheme": "header", "name": "X-Key", "connection": "short-lived"}
    )
    bound = await desk.bind(operator)
    await stack.delete(f"/v1/operator-connections/{connection['connection_id']}")
    (dispatch,) = await desk.dispatched(await desk.stack.submit(bound, a="wrong"))
    assert dispatch["error"]["code"] == "connection_unavailable"
    enabled = {"provider": "http", "status": "active"}
    await stack.patch(f"/v1/operator-connections/{connection['connection_id']}", json=enabled)
    (dispatch,) = await desk.dispatched(await desk.stack.submit(bound, a="wrong"))
    assert dispatch["status"] == "delivered"
    assert [one.headers["x-key"] for one in desk.heard("/disabled")] == ["a-key"]
