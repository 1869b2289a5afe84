"""group_end, sentence by sentence of the page that defines it, on a server whose time passes at will."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Connection, text, update
from temporalio.client import WorkflowHandle

from examples.scripted_provider import Reply, ScriptedProvider
from store.caller import Role
from store.identity import Identity
from store.tables.executions import executions
from tests.e2e.quiet import WHOLE, Conversation, Quiet, on_skipping_server, values
from tests.e2e.stack import asserting, card, outcomes, sibling, until
from tests.e2e.stack import judged as judging
from tests.receivers import Receiver, receiving
from tests.skipping import time_skipping
from workflows import contracts
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINUTE = timedelta(minutes=1)
VERDICT = {"outcome": "failed", "reason": "no", "citations": []}
SLOW_TURN: dict[str, Any] = {
    "inputs": {"turn": {"type": "json"}, "note": {"type": "json", "required": False}},
    "requirements": [judging({"turn": "inputs.turn"}, "Judge {{turn}}", id="polite")],
}
"""A turn that is judged when the provider says so."""


def telling(receiver: Receiver) -> dict[str, Any]:
    return {
        "kind": "http",
        "method": "post",
        "url": f"{receiver.url}/hook",
        "body": {"was": "{{previous_verdict}}", "is": "{{verdict}}", "of": "{{execution_id}}"},
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quiet(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Quiet]:
    home = tmp_path_factory.mktemp("home")
    deployments = {"scripted": {"adapter": "openai_compatible", "base_url": provider.url}}
    async with (
        time_skipping() as client,
        on_skipping_server(
            home, client, deployments=deployments, operator_destinations=("127.0.0.1",)
        ) as opened,
    ):
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def told() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def test_p34_each_piece_of_evidence_moves_the_judgement_and_a_late_one_brings_another(
    quiet: Quiet,
) -> None:
    talk = await quiet.conversation(after="30m")
    began = talk.now
    for number, pause in ((1, 29.0), (2, 29.0), (3, 1.5), (4, 29.0)):
        await talk.verify({"number": number, "text": "hello"})
        await quiet.let_pass(pause * MINUTE)
    assert await talk.executions() == []
    await quiet.let_pass(61 * MINUTE / 60)
    (first,) = await talk.judged(1)
    assert [one["number"] for one in values(first, "turns")] == [1, 2, 3, 4]
    await quiet.let_pass(began + 120 * MINUTE - talk.now)
    await talk.verify({"number": 5, "text": "still there?"})
    await quiet.let_pass(29 * MINUTE)
    assert len(await talk.executions()) == 1
    await quiet.let_pass(61 * MINUTE / 60)
    again, second = await talk.judged(2)
    assert [one["number"] for one in values(second, "turns")] == [1, 2, 3, 4, 5]
    assert again == first
    assert (outcomes(first), outcomes(second)) == ({"short": "failed"}, {"short": "failed"})


@pytest.mark.parametrize("after", ["366d", "8761h", "525601m", "31536001s"])
@pytest.mark.parametrize("standalone", [True, False])
async def test_longer_than_a_year_is_refused_before_anything_is_stored(
    quiet: Quiet, after: str, standalone: bool
) -> None:
    name = f"t{uuid7()[-12:]}"
    runs_on: dict[str, Any] = {"kind": "group_end", "after": after}
    if standalone:
        cards = [card("Trigger", name, runs_on)]
    else:
        entry = {"verifier": sibling("Verifier", name), "runs_on": runs_on}
        whole = {**WHOLE, "inputs": {"turns": "verifiers.turn-check.inputs.turn"}}
        cards = [
            card("Verifier", name, whole),
            card("Service", f"{name}-desk", {"verified_by": [entry]}),
        ]
    answer = await quiet.stack.http.post(
        "/v1/cards", json={"submissions": cards}, headers={"idempotency-key": f"declare-{uuid7()}"}
    )
    assert answer.status_code == 400, answer.text
    assert "a year" in answer.text
    for kind in ("Trigger", "Verifier", "Service"):
        listed = await quiet.stack.http.get("/v1/cards", params={"kind": kind, "space": "tests"})
        assert name not in listed.text, listed.text


async def test_verify_and_submit_inputs_and_results_all_make_the_group_due_anew(
    quiet: Quiet, provider: ScriptedProvider
) -> None:
    provider.script([Reply(behaviour="hold", json=VERDICT)])
    talk = await quiet.conversation(after="30m", turn=SLOW_TURN)
    asked = len(provider.requests)
    running = await talk.submit({"number": 1, "text": "hello"})
    assert await asyncio.to_thread(provider.wait_requests, asked + 1)
    of_input = (await talk.group()).due_at
    assert of_input is not None
    await quiet.let_pass(10 * MINUTE)
    provider.release()
    await talk.stack.ended(running)
    of_result = (await talk.group()).due_at
    assert of_result is not None
    assert of_result - of_input >= 10 * MINUTE
    await quiet.let_pass(31 * MINUTE)
    (judged,) = await talk.judged(1)
    assert values(judged, "verdicts") == ["failed"]


async def test_an_outcome_that_is_not_visible_yet_is_null_and_its_arrival_brings_a_new_judgement(
    quiet: Quiet, provider: ScriptedProvider
) -> None:
    provider.script([Reply(behaviour="hold", json=VERDICT)])
    talk = await quiet.conversation(after="30m", turn=SLOW_TURN)
    asked = len(provider.requests)
    running = await talk.submit({"number": 1, "text": "hello"})
    assert await asyncio.to_thread(provider.wait_requests, asked + 1)
    await quiet.let_pass(31 * MINUTE)
    (early,) = await talk.judged(1)
    assert values(early, "turns") == [{"number": 1, "text": "hello"}]
    assert values(early, "verdicts") == [None]
    provider.release()
    await talk.stack.ended(running)
    await quiet.let_pass(31 * MINUTE)
    kept, late = await talk.judged(2)
    assert kept == early
    assert values(late, "verdicts") == ["failed"]


@pytest.mark.parametrize("capture", ["hash", "redact"])
async def test_what_a_source_does_not_let_be_kept_is_null_even_while_it_runs(
    quiet: Quiet, provider: ScriptedProvider, capture: str
) -> None:
    provider.script([Reply(behaviour="hold", json=VERDICT)])
    talk = await quiet.conversation(after="30m", turn={**SLOW_TURN, "context_capture": capture})
    asked = len(provider.requests)
    running = await talk.submit({"number": 1, "text": "hello"}, note="second")
    assert await asyncio.to_thread(provider.wait_requests, asked + 1)
    await quiet.let_pass(31 * MINUTE)
    (judged,) = await talk.judged(1)
    assert values(judged, "turns") == [None]
    assert values(judged, "notes") == [None]
    provider.release()
    await talk.stack.ended(running)


async def test_an_execution_that_ends_without_a_result_keeps_a_null_outcome(
    quiet: Quiet, provider: ScriptedProvider
) -> None:
    provider.script([Reply(behaviour="hold", json=VERDICT)])
    talk = await quiet.conversation(after="30m", turn=SLOW_TURN)
    cancelled = await talk.submit({"number": 1, "text": "hello"})
    await quiet.let_pass(10 * MINUTE)
    answer = await talk.stack.http.post(f"/v1/verification/executions/{cancelled}/cancel")
    assert answer.status_code < 300, answer.text
    assert (await talk.stack.ended(cancelled))["status"] == "cancelled"
    due_in = await talk.due_in()
    assert due_in is not None
    assert due_in > 29 * MINUTE
    await quiet.let_pass(31 * MINUTE)
    (judged,) = await talk.judged(1)
    assert values(judged, "turns") == [{"number": 1, "text": "hello"}]
    assert values(judged, "verdicts") == [None]
    provider.release()


async def test_steady_activity_postpones_the_judgement_for_as_long_as_it_continues(quiet: Quiet) -> None:
    talk = await quiet.conversation(after="30m")
    for number in range(5):
        await talk.verify({"number": number, "text": "hello"})
        await quiet.let_pass(20 * MINUTE)
    assert await talk.executions() == []
    await quiet.let_pass(11 * MINUTE)
    (judged,) = await talk.judged(1)
    assert [one["number"] for one in values(judged, "turns")] == list(range(5))


async def test_what_becomes_visible_without_an_acknowledgement_schedules_nothing(quiet: Quiet) -> None:
    """The second limit of the page: here it can only come of somebody who writes to the database."""
    talk = await quiet.conversation(after="30m")
    execution_id = await talk.submitted({"number": 1, "text": "hello"})
    await quiet.let_pass(31 * MINUTE)
    (first,) = await talk.judged(1)
    await talk.stack.services.database.write(
        lambda connection: connection.execute(
            update(executions).where(executions.c.execution_id == execution_id).values(inputs=TURN_INPUT)
        )
    )
    await quiet.let_pass(timedelta(days=2))
    assert await talk.judged(1) == [first]
    await talk.verify({"number": 2, "text": "hello"})
    await quiet.let_pass(31 * MINUTE)
    _, second = await talk.judged(2)
    assert [one["number"] for one in values(second, "turns")] == [7, 2]


async def test_the_group_is_the_callers_own_and_ungrouped_evidence_is_nobodys(quiet: Quiet) -> None:
    talk = await quiet.conversation(after="30m")
    other = Conversation(
        quiet, talk.turn_check, talk.whole_check, talk.desk, talk.binding_id, group_id="an-other"
    )
    quiet.conversations.append(other)
    await talk.verify({"number": 1, "text": "hello"})
    await other.verify({"number": 2, "text": "hello"})
    alone = talk.body({"number": 3, "text": "hello"})
    del alone["group_id"]
    assert (await talk.stack.http.post("/v1/verification/execute", json=alone)).status_code == 200
    await quiet.let_pass(31 * MINUTE)
    (mine,) = await talk.judged(1)
    (theirs,) = await other.judged(1)
    assert [one["number"] for one in values(mine, "turns")] == [1]
    assert [one["number"] for one in values(theirs, "turns")] == [2]


async def test_order_by_decides_before_arrival_and_items_without_a_key_come_last(quiet: Quiet) -> None:
    talk = await quiet.conversation(after="30m", whole={**WHOLE, "order_by": "inputs.turns.number"})
    for turn in ({"text": "no key"}, {"number": 2, "text": "guaranteed"}, {"number": 1, "text": "one"}):
        await talk.verify(turn, note=turn["text"])
    await quiet.let_pass(31 * MINUTE)
    (judged,) = await talk.judged(1)
    assert values(judged, "notes") == ["one", "guaranteed", "no key"]
    assert values(judged, "verdicts") == ["passed", "failed", "passed"]
    sources = judged["group"]["sources"]
    assert sources["turns"]["execution_ids"] == sources["notes"]["execution_ids"]


async def test_p71_an_absent_value_inside_a_visible_input_is_judged_as_null(quiet: Quiet) -> None:
    talk = await quiet.conversation(after="30m")
    await talk.verify({"number": 1, "text": "hello"}, note="first")
    await talk.verify({"number": 2, "text": "hello"})
    await quiet.let_pass(31 * MINUTE)
    (judged,) = await talk.judged(1)
    assert values(judged, "notes") == ["first", None]


TURN_INPUT = json.dumps({"turn": {"kind": "json", "value": {"number": 7, "text": "hello"}}})


async def lose_input(talk: Conversation, execution_id: str, inputs: str = "") -> None:
    """A fault: the result is there and the input is not."""
    await talk.stack.services.database.write(
        lambda connection: connection.execute(
            update(executions).where(executions.c.execution_id == execution_id).values(inputs=inputs)
        )
    )


async def test_p71_an_input_that_is_missing_keeps_the_group_due_and_pins_nothing(quiet: Quiet) -> None:
    talk = await quiet.conversation(after="30m")
    lost = await talk.verify({"number": 1, "text": "hello"})
    await lose_input(talk, lost)
    await quiet.let_pass(31 * MINUTE)
    assert await talk.executions() == []
    assert (await talk.group()).due_at is not None
    await lose_input(talk, lost, TURN_INPUT)
    await quiet.let_pass(MINUTE / 2)
    (judged,) = await talk.judged(1)
    assert [one["number"] for one in values(judged, "turns")] == [7]


async def test_p71_an_input_missing_for_over_five_minutes_is_one_errored_execution(
    quiet: Quiet, told: Receiver
) -> None:
    talk = await quiet.conversation(after="30m", reacting=[telling(told)])
    lost = [await talk.verify({"number": number, "text": "hello"}) for number in range(5)]
    for one in lost[1:3]:
        await lose_input(talk, one)
    await quiet.let_pass(36 * MINUTE)
    (errored,) = await talk.judged(1)
    assert errored["status"] == "errored"
    assert errored["error"]["code"] == "WYRD_VERIFICATION_409_SNAPSHOT_INCOMPLETE"
    assert [one in errored["error"]["message"] for one in lost] == [False, True, True, False, False]
    assert "result" not in errored
    assert errored.get("verdict") is None
    assert errored["dispatches"] == []
    # It has no workflow of its own: the group's is named, and it is there.
    described = await quiet.skipper.client.get_workflow_handle(errored["workflow_id"]).describe()
    assert described.workflow_type == contracts.GROUP_WORKFLOW
    assert (await talk.status())["last_execution_id"] == errored["execution_id"]
    await quiet.let_pass(timedelta(days=1))
    assert len(await talk.executions()) == 1
    for one in lost[1:3]:
        await lose_input(talk, one, TURN_INPUT)
    await talk.verify({"number": 9, "text": "hello"})
    await quiet.let_pass(31 * MINUTE)
    _, judged = await talk.judged(2)
    assert outcomes(judged) == {"short": "failed"}
    assert (await talk.status())["last_execution_id"] == judged["execution_id"]
    await told.arrived(1)
    assert [one.json["of"] for one in told.received] == [judged["execution_id"]]


async def test_a_first_pass_is_no_change_and_a_first_failure_is_one(quiet: Quiet, told: Receiver) -> None:
    calm = await quiet.conversation(after="30m", reacting=[telling(told)])
    long = await quiet.conversation(after="30m", reacting=[telling(told)])
    await calm.verify({"number": 1, "text": "hello"})
    for number in range(4):
        await long.verify({"number": number, "text": "hello"})
    await quiet.let_pass(31 * MINUTE)
    (passed,) = await calm.judged(1)
    assert passed["dispatches"] == []
    (failed,) = await long.judged(1)
    assert len(failed["dispatches"]) == 1
    await told.arrived(1)
    assert [one.json for one in told.received] == [
        {"was": "passed", "is": "failed", "of": failed["execution_id"]}
    ]


async def test_operators_run_when_the_verdict_differs_and_an_inconclusive_one_stands_aside(
    quiet: Quiet, told: Receiver
) -> None:
    """The last turn's mood decides: a number is a verdict, and anything else cannot be judged."""
    mood = asserting("inputs.turns[0].mood", "greater_than", 0, id="mood")
    talk = await quiet.conversation(
        after="30m",
        whole={
            "inputs": {"turns": "verifiers.turn-check.inputs.turn"},
            "order_by": "inputs.turns.age",
            "requirements": [mood],
        },
        reacting=[telling(told)],
    )
    verdicts: list[dict[str, Any]] = []
    for number, mood_now in enumerate((1, -1, -1, "?", -1, 1, "?", 1, -1)):
        await talk.verify({"text": "hello", "mood": mood_now, "age": -number})
        await quiet.let_pass(31 * MINUTE)
        verdicts.append((await talk.judged(len(verdicts) + 1))[-1])
    told_of = [len(one["dispatches"]) for one in verdicts]
    assert [one["result"]["outcome"]["verdict"] for one in verdicts] == [
        *(
            "passed",
            "failed",
            "failed",
            "inconclusive",
            "failed",
            "passed",
            "inconclusive",
            "passed",
            "failed",
        )
    ]
    assert told_of == [0, 1, 0, 0, 0, 1, 0, 0, 1]
    await told.arrived(3)
    assert sorted((one.json["was"], one.json["is"]) for one in told.received) == [
        ("failed", "passed"),
        ("passed", "failed"),
        ("passed", "failed"),
    ]


async def retire(talk: Conversation, how: str) -> None:
    owner = f"/v1/cards/by-uid/Service/{talk.desk}"
    if how == "deactivated":
        answer = await talk.stack.http.post(f"{owner}/deactivate")
    else:
        answer = await talk.stack.http.delete(owner)
    assert answer.status_code < 300, answer.text


@pytest.mark.parametrize("how", ["deactivated", "deleted"])
async def test_a_group_whose_owner_is_gone_when_due_is_dropped_with_a_recorded_reason(
    quiet: Quiet, told: Receiver, how: str
) -> None:
    talk = await quiet.conversation(after="30m", reacting=[telling(told)])
    for number in range(4):
        await talk.verify({"number": number, "text": "hello"})
    await retire(talk, how)
    await quiet.let_pass(31 * MINUTE)
    (errored,) = await talk.judged(1)
    assert errored["status"] == "errored"
    assert "is de" in errored["error"]["message"]
    assert ("result" in errored, errored["dispatches"]) == (False, [])
    assert (await talk.group()).verdict is None
    assert (await talk.status())["last_execution_id"] == errored["execution_id"]
    assert told.received == []


async def test_reactivating_the_owner_does_not_bring_the_group_back_and_its_next_evidence_does(
    quiet: Quiet, provider: ScriptedProvider
) -> None:
    provider.script([Reply(behaviour="hold", json=VERDICT)])
    talk = await quiet.conversation(after="30m", turn=SLOW_TURN)
    asked = len(provider.requests)
    slow = [await talk.submit({"number": number, "text": "hello"}) for number in (1, 2)]
    assert await asyncio.to_thread(provider.wait_requests, asked + 2)
    await retire(talk, "deactivated")
    await quiet.let_pass(31 * MINUTE)
    (first,) = await talk.judged(1)
    assert first["status"] == "errored"
    # Evidence that comes while the owner is still away schedules the group, and ends the same way.
    provider.release()
    for execution_id in slow:
        await talk.stack.ended(execution_id)
    await quiet.let_pass(31 * MINUTE)
    second = (await talk.judged(2))[1]
    assert second["status"] == "errored"
    answer = await talk.stack.http.post(f"/v1/cards/by-uid/Service/{talk.desk}/reactivate")
    assert answer.status_code == 200, answer.text
    await quiet.let_pass(timedelta(days=1))
    assert len(await talk.judged(2)) == 2
    provider.script([Reply(json=VERDICT)])
    await talk.submitted({"number": 3, "text": "hello"})
    await quiet.let_pass(31 * MINUTE)
    third = (await talk.judged(3))[2]
    assert [one["number"] for one in values(third, "turns")] == [1, 2, 3]
    assert (await talk.status())["last_execution_id"] == third["execution_id"]


@pytest.mark.parametrize("how", ["suspended", "without a key"])
async def test_an_owner_whose_authority_is_refused_is_like_one_that_is_gone(quiet: Quiet, how: str) -> None:
    talk = await quiet.conversation(after="30m")
    await talk.verify({"number": 1, "text": "hello"})

    def refused(connection: Connection) -> None:
        identity = Identity(connection, talk.stack.tenant)
        principal_id = identity.create(f"the desk, {how}", [Role.SERVICE], card_uid=talk.desk)
        key = identity.issue_key(principal_id)
        if how == "suspended":
            identity.suspend(principal_id, "it misbehaved")
        else:
            identity.revoke_key(principal_id, key.id)

    await talk.stack.services.database.write(refused)
    await quiet.let_pass(31 * MINUTE)
    (errored,) = await talk.judged(1)
    assert errored["error"]["code"] == "WYRD_PERMISSION_403_DENIED_RBAC"
    assert ("suspended" if how == "suspended" else "key") in errored["error"]["message"]


async def tried_again(handle: WorkflowHandle[Any, Any]) -> bool:
    described = await handle.describe()
    return any(one.attempt > 1 for one in described.raw_description.pending_activities)


async def test_a_database_fault_keeps_the_group_due_and_it_is_judged_once_it_is_over(quiet: Quiet) -> None:
    talk = await quiet.conversation(after="30m")
    await talk.verify({"number": 1, "text": "hello"})
    await quiet.tell()
    database = talk.stack.services.database
    handle = talk.stack.client.get_workflow_handle(talk.workflow_id)
    await database.write(lambda connection: connection.execute(text("ALTER TABLE groups RENAME TO away")))
    try:
        passing = asyncio.create_task(quiet.pass_untold(31 * MINUTE))
        await until(lambda: tried_again(handle))
    finally:
        await database.write(lambda connection: connection.execute(text("ALTER TABLE away RENAME TO groups")))
    await passing
    (judged,) = await talk.judged(1)
    assert [one["number"] for one in values(judged, "turns")] == [1]


# The last one: every workflow that is started after it has to catch up with a year.
async def test_a_year_of_quiet_is_a_wait_like_any_other(quiet: Quiet) -> None:
    talk = await quiet.conversation(after="365d")
    await talk.submitted({"number": 1, "text": "see you"})
    await quiet.let_pass(timedelta(days=364, hours=23))
    assert await talk.executions() == []
    await quiet.let_pass(timedelta(hours=2))
    (judged,) = await talk.judged(1)
    assert judged["result"]["outcome"]["verdict"] == "passed"
