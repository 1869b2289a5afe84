"""What a hostile reader tried: evidence that must not stay, races of submit and cancel, odd values."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, text
from temporalio.testing import ActivityEnvironment

from activities.bundle import Bundles
from activities.known import KnownExecutions
from activities.ledger import SqlLedger
from activities.running import BlockActivities
from activities.settler import Settler
from activities.verification import VerificationActivities
from api.submit import Submit
from examples.scripted_provider import Reply, ScriptedProvider
from store.blocks import BlockEnd, Blocks
from store.executions import Executions
from tests.e2e.stack import (
    Bound,
    Stack,
    agent_spec,
    asserting,
    card,
    coded,
    outcomes,
    requirement,
    sibling,
    step,
)
from workflows.contracts import FinishExecution, LostBlock, RunBlock
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "sesame-street-4711"
PASSING = {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_truthy")]}
CODE: dict[str, Any] = {"kind": "code", "entrypoint": "f", "inputs": {"a": "inputs.a"}}


def echoing(capture: str) -> dict[str, Any]:
    """A step that puts its input out, then one that asks the provider."""
    asking = {"kind": "agent", "agent": agent_spec("Say {{a}}"), "inputs": {"a": "inputs.a"}}
    return {
        "context_capture": capture,
        "inputs": {"a": {"type": "json"}},
        "steps": [
            {"id": "echo", "action": CODE | {"source": {"inline": "def f(a):\n    return {'said': a}"}}},
            {"id": "ask", "depends_on": ["echo"], "action": asking},
        ],
    }


async def everything_stored(stack: Stack) -> str:
    def dump(connection: Connection) -> str:
        names = ("executions", "execution_blocks", "submission_keys")
        return str([connection.execute(text(f"SELECT * FROM {name}")).all() for name in names])

    return await stack.services.database.read(dump)


@contextmanager
def unstarted() -> Iterator[None]:
    """Submits are accepted, and their process dies before it starts the workflow."""

    async def dies(*_: Any) -> None:
        return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Submit, "_start", dies)
        yield


@pytest.mark.parametrize("capture", ["hash", "redact"])
@pytest.mark.parametrize("ending", ["cancel", "terminate"])
async def test_evidence_that_may_not_be_kept_goes_however_the_execution_ends(
    stack: Stack, provider: ScriptedProvider, capture: str, ending: str
) -> None:
    provider.script([Reply(behaviour="hang")])
    bound = await stack.bind(echoing(capture))
    asked = len(provider.requests)
    execution_id = await stack.submit(bound, a=SECRET)
    assert await asyncio.to_thread(provider.wait_requests, asked + 1)
    assert SECRET in await everything_stored(stack), "it runs on this evidence"
    if ending == "cancel":
        await stack.http.post(f"/v1/verification/executions/{execution_id}/cancel")
    else:
        handle = stack.client.get_workflow_handle(f"local/verification/{execution_id}")
        await handle.terminate("by hand")
        row = await stack.services.database.read(
            lambda connection: Executions(connection, stack.tenant).find(execution_id)
        )
        await settler(stack).settle(stack.tenant, row)
    assert (await stack.status(execution_id))["status"] == "cancelled"
    assert SECRET not in await everything_stored(stack)
    assert SECRET not in (await stack.history(execution_id)).to_json()


async def test_a_refused_request_leaves_no_evidence(stack: Stack) -> None:
    bound = await stack.bind(PASSING | {"context_capture": "redact"})
    key = f"verification-submit-{uuid7()}"
    await stack.ended((await stack.enqueue(stack.body(bound, a=1), key)).json()["execution_id"])
    await stack.enqueue(stack.body(bound, a=SECRET), key)
    assert SECRET not in await everything_stored(stack)


@pytest.mark.parametrize("capture", ["full", "redact"])
async def test_what_code_raised_stays_out_of_histories_and_out_of_redacted_results(
    stack: Stack, capture: str
) -> None:
    raising = CODE | {"source": {"inline": "def f(a):\n    raise ValueError('bad: ' + a)"}}
    spec = {
        "context_capture": capture,
        "inputs": {"a": {"type": "json"}},
        "steps": [{"id": "raise", "action": raising}],
        "requirements": [coded("def check(a):\n    return [][0]", {"a": "inputs.a"})],
    }
    execution_id = await stack.submit(await stack.bind(spec), a=SECRET)
    found = await stack.ended(execution_id)
    told = step(found, "raise")
    assert told["reason"].startswith("ValueError (line 2)")
    assert (SECRET in json.dumps(told)) is (capture == "full")
    assert outcomes(found) == {"rule": "inconclusive"}
    history = await stack.history(execution_id)
    failures = [
        event.activity_task_failed_event_attributes.failure.message
        for event in history.events
        if event.HasField("activity_task_failed_event_attributes")
    ]
    assert sorted(failures) == ["IndexError (line 2)", "ValueError (line 2)"]
    assert SECRET not in str(history.events)


async def test_a_cancel_that_comes_before_the_start_is_not_lost(stack: Stack) -> None:
    bound = await stack.bind(PASSING | {"steps": [slow_step()]})
    with unstarted():
        execution_id = await stack.submit(bound, a=1)
    answer = await stack.http.post(f"/v1/verification/executions/{execution_id}/cancel")
    assert answer.json()["status"] == "cancelled"
    assert (await stack.ended(execution_id))["status"] == "cancelled"


def slow_step() -> dict[str, Any]:
    source = {"inline": "def f(a):\n    while True: pass"}
    return {"id": "slow", "action": CODE | {"source": source}, "timeout_seconds": 30}


def settler(stack: Stack, kind: type[Settler] = Settler) -> Settler:
    return kind(stack.services.database, stack.client, Bundles(stack.services.database))


async def test_one_execution_that_cannot_be_settled_keeps_no_other_waiting(stack: Stack) -> None:
    bound = await stack.bind(PASSING)
    with unstarted():
        stuck, healthy = await stack.submit(bound, a=1), await stack.submit(bound, a=2)

    def age(connection: Connection) -> None:
        connection.execute(
            text(
                "UPDATE executions SET created_at = '2020-01-01 00:00:00.000000'"
                " WHERE execution_id IN (:a, :b)"
            ),
            {"a": stuck, "b": healthy},
        )

    class Tripping(Settler):
        async def settle(self, tenant: Any, row: Any) -> None:
            if row.execution_id == stuck:
                raise ValueError("made to fail")
            await super().settle(tenant, row)

    await stack.services.database.write(age)
    await settler(stack, Tripping).settle_all()
    assert (await stack.ended(healthy))["status"] == "completed"


async def test_a_repeated_submit_is_answered_as_before_whatever_has_changed_since(stack: Stack) -> None:
    bound = await stack.bind(PASSING)
    body, key = stack.body(bound, a=1), f"verification-submit-{uuid7()}"
    first = await stack.enqueue(body, key)
    gone = await stack.http.delete(f"/v1/cards/by-uid/Service/{bound.subject}")
    assert gone.status_code < 300, gone.text
    await asyncio.sleep(stack.settings.target_cache_seconds)
    fresh = await stack.enqueue(body)
    assert fresh.status_code == 404, fresh.text
    again = await stack.enqueue(body, key)
    assert (again.status_code, again.json()) == (202, first.json())


async def test_an_end_that_a_lost_worker_recorded_after_all_does_not_contradict_the_outcome(
    stack: Stack,
) -> None:
    bound = await stack.bind(
        {
            "inputs": {"a": {"type": "json"}},
            "requirements": [coded("def check(a): ...", {"a": "inputs.a"})],
        }
    )
    with unstarted():
        execution_id = await stack.submit(bound, a=1)

    def late(connection: Connection) -> None:
        end = BlockEnd(0, "p", json.dumps({"reason": "it is right"}))
        Blocks(connection, stack.tenant, execution_id).save(end)

    database = stack.services.database
    await database.write(late)
    bundles = Bundles(database)
    known = KnownExecutions(database, stack.services.blobs, bundles, stack.traces)
    activities = VerificationActivities(database, bundles, known, api_url=stack.settings.api_url)
    argument = FinishExecution(
        tenant_id=stack.tenant.id,
        tenant_slug=stack.tenant.slug,
        execution_id=execution_id,
        states="|i",
        lost=[LostBlock(block=0, kind="timeout")],
    )
    ended = await ActivityEnvironment().run(activities.finish_execution, argument)
    assert (ended.verdict, ended.inconclusive) == ("inconclusive", 1)
    found = requirement(await stack.status(execution_id))
    assert (found["outcome"], found["reason_kind"]) == ("inconclusive", "timeout")


async def test_a_database_that_is_away_costs_neither_retries_nor_workers(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def check(a):\n    return {'outcome': 'failed', 'reason': 'no', 'citations': []}"
    bound = await stack.bind(
        {"inputs": {"a": {"type": "json"}}, "requirements": [coded(code, {"a": "inputs.a"})]}
    )
    with unstarted():
        execution_id = await stack.submit(bound, a=1)
    database, blobs = stack.services.database, stack.services.blobs
    known = KnownExecutions(database, blobs, Bundles(database), stack.traces)
    activities = BlockActivities(database, known, stack.workshop.runner)
    argument = RunBlock(
        tenant_id=stack.tenant.id,
        tenant_slug=stack.tenant.slug,
        execution_id=execution_id,
        kind="code",
        states="|-",
    )

    async def away(*_: Any) -> None:
        raise WyrdError(Code.SERVER_503_SERVICE_UNAVAILABLE, "the database cannot be reached")

    told: list[Any] = []
    for attempt in range(1, 9):
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, attempt=attempt, heartbeat_details=told[-1:])
        environment.on_heartbeat = lambda *details: told.append(details[0])
        with monkeypatch.context() as patch:
            patch.setattr(SqlLedger, "find", away)
            with pytest.raises(WyrdError):
                await environment.run(activities.run_block, argument)
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=9, heartbeat_details=told[-1:])
    assert (await environment.run(activities.run_block, argument)).letter == "f"
    ends = await known.ledger(
        stack.tenant, execution_id, await Bundles(database).of(stack.tenant, bound.verifier)
    ).ends()
    log = ends[0].document["attempt_log"]
    assert [one.get("error", {}).get("kind") for one in log] == ["internal"] * 8 + [None]


@pytest.mark.parametrize("path", ["verify", "submit"])
async def test_megabytes_of_small_values_are_judged_without_holding_anything_up(
    stack: Stack, path: str
) -> None:
    check = {"kind": "assert", "each": "inputs.a", "operator": "less_than", "expected": 300_000}
    each = {"id": "each", "statement": "they are small", "check": check}
    schema = {"type": "array", "items": {"type": "integer"}}
    bound = await stack.bind(
        {
            "inputs": {"a": {"type": "json", "schema": schema}},
            "requirements": [each, asserting("inputs.a", "unique_values", id="unique")],
        }
    )
    values = list(range(300_000))
    if path == "verify":
        found = (await stack.verify(bound, a=values)).json()
    else:
        found = await stack.ended(await stack.submit(bound, a=values))
    assert outcomes(found) == {"each": "passed", "unique": "passed"}


async def test_cards_with_the_longest_names_can_be_submitted(stack: Stack) -> None:
    name, version = "v" + "x" * 63, "1.0.0-" + "a" * 100
    service = card(
        "Service",
        "s" + "x" * 63,
        {"verified_by": [{"verifier": sibling("Verifier", name, version)}]},
        version,
    )
    uids = await stack.declare(card("Verifier", name, PASSING, version), service)
    found = await stack.ended(await stack.submit(Bound(uids[name], uids["s" + "x" * 63]), a=1))
    assert outcomes(found) == {"rule": "passed"}


@pytest.mark.parametrize("given", ["2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "yesterday"])
async def test_a_time_without_a_zone_or_out_of_range_is_refused_by_name(stack: Stack, given: str) -> None:
    answer = await stack.http.get("/v1/verification/executions", params={"since": given})
    assert answer.status_code == 400, answer.text
    assert answer.json()["details"]["field"] == "since"


async def test_an_unknown_slots_name_is_not_repeated_at_length(stack: Stack) -> None:
    bound = await stack.bind(PASSING)
    answer = await stack.verify(bound, **{"x" * 100_000: 1})
    assert answer.json()["code"] == "WYRD_VERIFICATION_400_INPUT_INVALID"
    assert len(answer.content) < 2000


async def test_a_verify_whose_caller_left_during_the_answer_is_recorded(stack: Stack) -> None:
    bound = await stack.bind(PASSING)
    body = stack.body(bound, a=1)
    sent = json.dumps(body).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/verification/execute",
        "raw_path": b"/v1/verification/execute",
        "query_string": b"",
        "headers": [
            (b"content-type", b"application/json"),
            (b"authorization", stack.http.headers["authorization"].encode()),
        ],
        "client": None,
        "server": ("wyrd.test", 80),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": sent, "more_body": False}

    async def send(_message: Any) -> None:
        raise OSError("the caller is gone")

    transport: Any = stack.http._transport
    await asyncio.gather(transport.app(scope, receive, send), return_exceptions=True)
    await stack.verification.records.settled()
    listed = await stack.http.get("/v1/verification/executions", params={"run_id": body["run_id"]})
    assert [item["status"] for item in listed.json()["items"]] == ["completed"]
