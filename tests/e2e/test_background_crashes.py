"""kill −9 of worker, API and Temporal while conversations are judged and Operators react: nothing is
judged or dispatched twice, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.kept_running import Kept, Pace, Service, eventually, kept_running
from tests.e2e.stack import asserting, card, sibling
from tests.e2e.submitting import Clients, Submit
from tests.receivers import CLOSE, HANG, Answer, Behaviour, Received, Receiver, receiving
from wyrd.wire.ids import uuid7

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

SEED = int(os.environ.get("WYRD_TEST_SEED", "20261201"))
CONVERSATIONS, FAILING = 500, 200
MOST_TURNS = 3
"""A conversation that has so many turns fails, so its verdict changes once."""
VICTIMS = {"worker": 8, "api": 7, "temporal": 12}
"""Kills among the requests. One more of each, all at once, follows the last of them."""
UNFINISHED = """
    SELECT (SELECT count(*) FROM executions WHERE ended_at IS NULL),
           (SELECT count(*) FROM groups WHERE due_at IS NOT NULL),
           (SELECT count(*) FROM dispatches WHERE ended_at IS NULL)
"""


class Moody:
    """What the receiver plays: of the first dispatches it hears of, every third has a bad start."""

    MOODS: tuple[Behaviour, ...] = (Answer(503), HANG, CLOSE)

    def __init__(self) -> None:
        self.heard: set[str] = set()
        self.bad = 0

    def __call__(self, got: Received) -> Behaviour:
        self.heard.add(got.headers["idempotency-key"])
        # A second refusal would be followed by two minutes of waiting.
        if got.headers["wyrd-attempt"] != "1" or len(self.heard) > 60 or len(self.heard) % 3:
            return Answer()
        self.bad += 1
        return self.MOODS[self.bad % 3]


def declared(service: Service, hook: Receiver) -> dict[str, str]:
    """The uids of a desk whose turns and conversations are judged, and whose failures are told of."""

    def operator(path: str, **told: str) -> dict[str, Any]:
        url, body = f"{hook.url}{path}", {"of": "{{execution_id}}", "verdict": "{{verdict}}", **told}
        return {"kind": "http", "method": "post", "url": url, "body": body, "timeout_seconds": 2}

    turn = {"inputs": {"turn": {"type": "json"}}, "requirements": [asserting("inputs.turn", "is_number")]}
    whole = {
        "inputs": {
            "turns": "verifiers.turn-check.inputs.turn",
            "verdicts": "verifiers.turn-check.requirements.rule.outcome",
        },
        "requirements": [asserting("inputs.turns", {"kind": "length_less_than", "max": MOST_TURNS})],
    }
    right = {"inputs": {"n": {"type": "json"}}, "requirements": [asserting("inputs.n", "equals", "right")]}
    entries = [
        {"verifier": sibling("Verifier", "turn-check")},
        {
            "verifier": sibling("Verifier", "whole-check"),
            "runs_on": {"kind": "group_end", "after": "2s"},
            "on_verdict_change": [operator("/changed", group="{{group_id}}", before="{{previous_verdict}}")],
        },
        {"verifier": sibling("Verifier", "right-check"), "on_failure": [operator("/failed")]},
    ]
    cards = [
        card("Verifier", "turn-check", turn),
        card("Verifier", "whole-check", whole),
        card("Verifier", "right-check", right),
        card("Service", "desk", {"verified_by": entries}),
    ]
    with service.client() as http:
        headers = {"idempotency-key": f"declare-{uuid7()}"}
        answer = http.post("/v1/cards", json={"submissions": cards}, headers=headers)
    assert answer.status_code < 300, answer.text
    return {one["card_ref"]["name"]: one["card_ref"]["uid"] for one in answer.json()["outcomes"]}


def planned(chance: random.Random, uids: dict[str, str]) -> list[Submit]:
    """All submits, mixed: the turns of a conversation near one another or far apart, in their order."""
    placed: list[tuple[float, str, int]] = [(chance.random(), "", number) for number in range(FAILING)]
    for conversation in range(CONVERSATIONS):
        place = chance.random()
        for number in range(chance.choice((1, 1, 1, 2, MOST_TURNS))):
            placed.append((place, f"conversation-{conversation}", number))
            place += chance.choice((0.002, 0.01, 0.2))
    work = []
    for _, group, number in sorted(placed):
        name, slot = ("turn-check", "turn") if group else ("right-check", "n")
        body = {
            "verifier_card_uid": uids[name],
            "card_uid": uids["desk"],
            "run_id": uuid7(),
            "inputs": {slot: {"kind": "json", "value": number}},
            **({"group_id": group} if group else {}),
        }
        work.append(Submit(group, number, body, f"verification-submit-{uuid7()}", chance.random() < 0.1))
    return work


STARTED = {
    "worker": "ready: code runs in",
    "api": "Application startup complete",
    "temporal": "Temporal Server:",
}
"""What each kind of process writes when it has begun to work."""


def slain(kept: Kept) -> bool:
    """SIGKILL, once it has begun to work."""
    return kept.said(STARTED[kept.name]) and kept.kill()


def crashed(service: Service, hook: Receiver) -> Clients:
    """Send everything among thirty kills, and wait until nothing is under way any more."""
    chance = random.Random(SEED)
    work = planned(chance, declared(service, hook))
    places = sorted(chance.sample(range(20, len(work)), sum(VICTIMS.values())))
    victims = [kind for kind, times in VICTIMS.items() for _ in range(times)]
    chance.shuffle(victims)
    kinds = {"worker": service.worker, "api": service.api, "temporal": service.temporal}
    clients = Clients(service, Pace(places), work)
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(clients.run)
        for victim in victims:
            clients.pace.await_place()
            eventually(partial(slain, kinds[victim]), f"a process to kill: {victim}", 120)
            clients.pace.killed()
        sending.result()
    for kind, kept in kinds.items():
        eventually(partial(slain, kept), f"a process to kill: {kind}", 120)
    eventually(lambda: service.ask_sql(UNFINISHED) == [(0, 0, 0)], "the end of everything", 240)
    eventually(service.ready, "the API")
    return clients


@dataclass
class Found:
    """What the service and the receiver know of it afterwards."""

    clients: Clients
    hook: Receiver
    failures: list[dict[str, Any]]
    judgements: dict[str, list[dict[str, Any]]]
    """By conversation, the oldest first."""
    rows: dict[str, Counter[str]]
    dispatches: Counter[str]
    results: list[int]


def looked(service: Service, hook: Receiver, clients: Clients) -> Found:
    sources: dict[str, Counter[str]] = defaultdict(Counter)
    for execution_id, source in service.ask_sql("SELECT execution_id, source FROM executions"):
        sources[str(source)][str(execution_id)] += 1
    dispatches = Counter(str(one) for [one] in service.ask_sql("SELECT dispatch_id FROM dispatches"))
    with service.client(60) as http:

        def documents(execution_ids: Any) -> Iterator[dict[str, Any]]:
            for execution_id in execution_ids:
                yield http.get(f"/v1/verification/executions/{execution_id}").json()

        judgements: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for one in documents(sorted(sources["group"])):
            judgements[one["group_id"]].append(one)
        sql = "SELECT count(*), count(DISTINCT execution_id) FROM vala.verification.results"
        answer = http.post("/v1/query", json={"sql": sql}, headers={"accept": "application/json"})
        assert answer.status_code == 200, answer.text
        [counts] = answer.json()["rows"]
        failures = list(documents(clients.failing))
    return Found(clients, hook, failures, judgements, sources, dispatches, counts)


@pytest.fixture(autouse=True)
def seed() -> None:
    sys.stdout.write(f"seed {SEED}\n")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    async with receiving(Moody()) as hook:
        return await asyncio.to_thread(crash_and_look, tmp_path_factory.mktemp("crashes"), hook)


def crash_and_look(folder: Path, hook: Receiver) -> Found:
    with kept_running(folder, WYRD_OPERATOR_DESTINATIONS="127.0.0.1") as service:
        try:
            return looked(service, hook, crashed(service, hook))
        except BaseException as failure:
            failure.add_note(f"seed {SEED}, unfinished {service.ask_sql(UNFINISHED)}\n{service.told()}")
            raise


async def test_every_conversation_is_judged_over_exactly_its_acknowledged_turns(found: Found) -> None:
    assert len(found.clients.turns) == CONVERSATIONS
    assert set(found.judgements) == set(found.clients.turns)
    for conversation, turns in found.clients.turns.items():
        last = found.judgements[conversation][-1]
        assert last["status"] == "completed", last
        evidence = last["result"]["outcome"]["evidence"]
        assert last["group"]["sources"]["turns"]["execution_ids"] == turns, conversation
        assert evidence["turns"]["value"] == list(range(len(turns)))
        assert evidence["verdicts"]["value"] == ["passed"] * len(turns)


async def test_no_conversation_is_judged_again_without_new_evidence(found: Found) -> None:
    for conversation, judgements in found.judgements.items():
        if conversation in found.clients.refused:
            # What was evidence until its start was refused is none any more: that may be judged once more.
            continue
        seen = []
        for one in judgements:
            assert one["status"] == "completed", one
            turns = one["group"]["sources"]["turns"]["execution_ids"]
            assert turns == found.clients.turns[conversation][: len(turns)]
            # A result that became visible is new evidence, as a turn is.
            seen.append((turns, one["result"]["outcome"]["evidence"]["verdicts"]["value"]))
        assert all(before != after for before, after in pairwise(seen)), (conversation, seen)


async def test_every_submit_has_one_execution_and_one_result(found: Found) -> None:
    acknowledged = [*found.clients.failing, *chain.from_iterable(found.clients.turns.values())]
    assert len(found.clients.failing) == FAILING
    assert found.rows["submit"] == Counter(acknowledged)
    assert {one["status"] for one in found.failures} == {"completed"}
    assert {one["result"]["outcome"]["verdict"] for one in found.failures} == {"failed"}
    every = sum(rows.total() for rows in found.rows.values())
    assert found.results == [every, every]


async def test_every_failure_and_every_change_of_a_verdict_is_one_logical_dispatch(found: Found) -> None:
    expected = []
    for one in found.failures:
        [dispatch] = one["dispatches"]
        expected.append(dispatch["dispatch_id"])
    for judgements in found.judgements.values():
        before = "passed"
        for one in judgements:
            verdict = one["result"]["outcome"]["verdict"]
            dispatches = one.get("dispatches", [])
            assert len(dispatches) == (verdict != before), one
            expected += [dispatch["dispatch_id"] for dispatch in dispatches]
            before = verdict
    assert found.dispatches == Counter(expected)
    assert len(expected) > FAILING


async def test_every_dispatch_was_heard_and_its_repeats_are_the_same(found: Found) -> None:
    heard: dict[str, list[Received]] = defaultdict(list)
    for one in found.hook.received:
        heard[one.headers["idempotency-key"]].append(one)
    assert set(heard) == set(found.dispatches)
    assert max(len(requests) for requests in heard.values()) > 1
    for dispatch_id, requests in heard.items():
        told, attempts = set(), []
        for one in requests:
            headers = dict(one.headers)
            attempts.append(headers.pop("wyrd-attempt"))
            told.add((one.method, one.target, one.body, tuple(headers.items())))
        assert len(told) == 1, (dispatch_id, told)
        assert len(set(attempts)) == len(attempts)
