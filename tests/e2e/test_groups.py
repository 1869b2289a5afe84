"""Groups, end to end: conversations are judged once they go quiet, and again when more comes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from store.bindings import Bindings
from store.groups import Groups
from tests.e2e.stack import Stack, asserting, card, in_process, outcomes, sibling
from tests.servers import temporal_server
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURN: dict[str, Any] = {
    "inputs": {"turn": {"type": "json"}},
    "requirements": [asserting("inputs.turn.text", "not_contains", "guaranteed", id="polite")],
}
WHOLE: dict[str, Any] = {
    "inputs": {
        "turns": "verifiers.turn-check.inputs.turn",
        "verdicts": "verifiers.turn-check.requirements.polite.outcome",
    },
    "order_by": "inputs.turns.number",
    "requirements": [asserting("inputs.turns", {"kind": "length_less_than", "max": 4}, id="short")],
}


async def declared(stack: Stack, after: str = "1s", whole: dict[str, Any] | None = None) -> dict[str, str]:
    service = card(
        "Service",
        f"desk-{uuid7()[-12:]}",
        {
            "verified_by": [
                {"verifier": sibling("Verifier", "turn-check")},
                {
                    "verifier": sibling("Verifier", "whole-check"),
                    "runs_on": {"kind": "group_end", "after": after},
                },
            ]
        },
    )
    uids = await stack.declare(
        card("Verifier", "turn-check", TURN), card("Verifier", "whole-check", whole or WHOLE), service
    )
    return {**uids, "desk": uids[service["metadata"]["name"]]}


def turn(uids: dict[str, str], group_id: str, number: int, text: str = "hello") -> dict[str, Any]:
    return {
        "verifier_card_uid": uids["turn-check"],
        "card_uid": uids["desk"],
        "run_id": uuid7(),
        "group_id": group_id,
        "inputs": {"turn": {"kind": "json", "value": {"number": number, "text": text}}},
    }


async def judged(stack: Stack, group_id: str, count: int) -> list[dict[str, Any]]:
    """The ended executions of a group, the oldest first, once there are that many."""
    async with asyncio.timeout(60):
        while True:
            answer = await stack.http.get(
                "/v1/verification/executions", params={"group_id": group_id, "source": "group"}
            )
            found = [one for one in answer.json()["items"] if one["ended_at"] is not None]
            if len(found) >= count:
                return [await stack.status(one["execution_id"]) for one in reversed(found)]
            await asyncio.sleep(0.1)


async def test_a_conversation_is_judged_once_it_is_quiet_and_again_after_a_late_turn(stack: Stack) -> None:
    uids = await declared(stack)
    group = f"conversation-{uuid7()}"
    for number in (2, 1):
        assert (await stack.enqueue(turn(uids, group, number))).status_code == 202
    answer = await stack.http.post("/v1/verification/execute", json=turn(uids, group, 3))
    assert answer.status_code == 200, answer.text
    first = (await judged(stack, group, 1))[0]
    assert outcomes(first) == {"short": "passed"}
    turns = first["result"]["outcome"]["evidence"]["turns"]["value"]
    assert [one["number"] for one in turns] == [1, 2, 3]
    assert first["result"]["outcome"]["evidence"]["verdicts"]["value"] == ["passed"] * 3
    assert first["group"]["sources"]["turns"]["reference"] == WHOLE["inputs"]["turns"]
    assert first["group_id"] == group
    assert first["owner_card_uid"] == uids["desk"]

    assert (await stack.enqueue(turn(uids, group, 4))).status_code == 202
    second = (await judged(stack, group, 2))[1]
    assert outcomes(second) == {"short": "failed"}
    again = await stack.status(first["execution_id"])
    assert len(again["result"]["outcome"]["evidence"]["turns"]["value"]) == 3


async def test_a_group_whose_owner_is_not_active_is_dropped_with_a_recorded_reason(stack: Stack) -> None:
    uids = await declared(stack, after="2s")
    group = f"conversation-{uuid7()}"
    assert (await stack.enqueue(turn(uids, group, 1))).status_code == 202
    gone = await stack.http.post(f"/v1/cards/by-uid/Service/{uids['desk']}/deactivate")
    assert gone.status_code == 200, gone.text
    found = (await judged(stack, group, 1))[0]
    assert found["status"] == "errored"
    assert "deprecated" in found["error"]["message"]
    assert "result" not in found

    def left(connection: Any) -> Any:
        (binding,) = [
            one.binding_id
            for one in Bindings(connection, stack.tenant).of_owner(uids["desk"])
            if one.runs_on is not None
        ]
        return Groups(connection, stack.tenant).find(binding, group)

    state = await stack.services.database.read(left)
    assert state.due_at is None
    assert state.last_execution_id == found["execution_id"]


async def test_evidence_that_was_acknowledged_before_a_crash_is_judged_after_the_restart(
    tmp_path: Path,
) -> None:
    """The third limit of the page, which this server does not have: the due time is in the same commit
    as the evidence. Nobody was told of it when the process went."""
    with temporal_server() as address:
        async with in_process(tmp_path, address, duties=False) as before:
            uids = await declared(before)
            answer = await before.http.post("/v1/verification/execute", json=turn(uids, "early", 1))
            assert answer.status_code == 200, answer.text
        async with in_process(tmp_path, address) as after:
            (found,) = await judged(after, "early", 1)
    assert found["result"]["outcome"]["evidence"]["turns"]["value"] == [{"number": 1, "text": "hello"}]
