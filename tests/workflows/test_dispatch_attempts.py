"""Attempts of dispatches on a real Temporal server whose clock skips: repeats, waits, deadline (P20, P21)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from activities.dispatch.delivery import wait_before_next
from store.dispatches import DispatchFault
from tests.receivers import (
    CLOSE,
    HANG,
    Answer,
    Received,
    Receiver,
    slack_error,
)
from tests.workflows.dispatch_bench import (
    BEARER,
    FAILING,
    PAGER,
    ROUTING_KEY,
    SLACK,
    Bench,
)


def same_bytes(received: list[Received]) -> bool:
    return len({(one.method, one.target, one.body) for one in received}) == 1


@pytest.mark.parametrize("provider", ["http", "slack", "pager_duty"])
async def test_p20_a_repeat_cannot_be_told_from_a_first_delivery(bench: Bench, provider: str) -> None:
    """Accepted, and the answer lost: the second attempt has the same id and the same bytes."""
    spec, receiver = {
        "http": (bench.operator(), bench.http),
        "slack": (SLACK, bench.workspace),
        "pager_duty": (PAGER, bench.pager),
    }[provider]
    receiver.next(CLOSE)
    document = await bench.delivered(spec)
    assert (document["status"], document["error"]) == ("delivered", None)
    assert [one["number"] for one in document["attempts"]] == [1, 2]
    assert [one["error"] and one["error"]["code"] for one in document["attempts"]] == [
        "destination_unreachable",
        None,
    ]
    received = bench_received(receiver, document)
    assert len(received) == 2
    assert same_bytes(received)
    assert [one.headers["wyrd-attempt"] for one in received] == ["1", "2"]
    if provider == "pager_duty":
        assert received[0].json["dedup_key"] == document["dispatch_id"]
        assert bench.incidents.incidents == {document["dispatch_id"]: 1}


def bench_received(receiver: Receiver, document: Mapping[str, Any]) -> list[Received]:
    assert len(receiver.received) == len(receiver.about(document["dispatch_id"]))
    return receiver.about(document["dispatch_id"])


async def test_p20_what_is_sent_tells_of_the_execution(bench: Bench) -> None:
    await bench.delivered(SLACK)
    assert bench.workspace.received[0].json == {
        "channel": "C0SUPPORT",
        "text": "tests/Verifier/polite@1.0.0 failed for tests/Service/desk@1.0.0",
    }
    document = await bench.delivered(PAGER)
    event = bench.pager.received[0].json
    assert event["routing_key"] == ROUTING_KEY
    assert event["payload"]["source"] == "tests/Service/desk@1.0.0"
    assert event["payload"]["custom_details"]["route"] == "support"
    assert event["payload"]["custom_details"]["failed_requirements"] == "polite"
    document = await bench.delivered(bench.operator())
    (got,) = bench.http.received
    assert got.headers["authorization"] == f"Bearer {BEARER}"
    assert got.headers["idempotency-key"] == document["dispatch_id"]
    assert got.json["text"] == "tests/Verifier/polite@1.0.0: 1 of 2 requirements failed"
    assert got.json["see"].startswith("https://wyrd.test/v1/verification/executions/")


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (FAILING, "provider_transient"),
        (Answer(408), "provider_transient"),
        (Answer(429, b"", {"retry-after": "0"}), "provider_transient"),
        (HANG, "attempt_timed_out"),
        (CLOSE, "destination_unreachable"),
    ],
    ids=["500", "408", "429", "hang", "close"],
)
async def test_p21_what_may_pass_is_tried_three_times_with_half_a_minute_and_two_between(
    bench: Bench, behaviour: Answer | str, code: str
) -> None:
    bench.http.always(behaviour)
    document = await bench.delivered(bench.operator(timeout_seconds=1))
    assert (document["status"], document["error"]["code"]) == ("failed", "attempts_exhausted")
    assert code in document["error"]["message"]
    assert [one["error"]["code"] for one in document["attempts"]] == [code] * 3
    received = bench_received(bench.http, document)
    assert len(received) == 3
    assert same_bytes(received)
    assert 150 <= await bench.lasted(document["dispatch_id"]) < 300


TERMINAL: list[tuple[str, Answer, str]] = [
    ("http", Answer(400), "provider_rejected"),
    ("http", Answer(401), "credential_invalid"),
    ("http", Answer(404), "provider_rejected"),
    ("http", Answer(302, b"", {"location": "http://127.0.0.1:9/"}), "destination_rejected"),
    ("slack", slack_error("channel_not_found"), "provider_rejected"),
    ("slack", slack_error("invalid_auth"), "credential_invalid"),
    ("pager", Answer(400), "provider_rejected"),
]


@pytest.mark.parametrize(("provider", "answer", "code"), TERMINAL)
async def test_p21_what_will_not_pass_ends_after_one_attempt(
    bench: Bench, provider: str, answer: Answer, code: str
) -> None:
    spec, receiver = {
        "http": (bench.operator(), bench.http),
        "slack": (SLACK, bench.workspace),
        "pager": (PAGER, bench.pager),
    }[provider]
    receiver.always(answer)
    document = await bench.delivered(spec)
    assert (document["status"], document["error"]["code"]) == ("failed", code)
    assert len(receiver.received) == len(document["attempts"]) == 1


async def test_p21_slack_that_limits_its_rate_is_tried_again(bench: Bench) -> None:
    bench.workspace.next(slack_error("ratelimited"))
    document = await bench.delivered(SLACK)
    assert (document["status"], len(document["attempts"])) == ("delivered", 2)


async def test_p21_a_longer_retry_after_is_waited_for(bench: Bench) -> None:
    bench.http.next(Answer(429, b"", {"retry-after": "200"}))
    document = await bench.delivered(bench.operator())
    assert (document["status"], len(document["attempts"])) == ("delivered", 2)
    assert 200 <= await bench.lasted(document["dispatch_id"]) < 230


async def test_p21_a_retry_after_beyond_the_deadline_ends_the_dispatch(bench: Bench) -> None:
    bench.http.always(Answer(429, b"", {"retry-after": "3600"}))
    document = await bench.delivered(bench.operator())
    assert (document["status"], document["error"]["code"]) == ("failed", "deadline_exceeded")
    assert "provider_transient" in document["error"]["message"]
    assert len(bench.http.received) == 1


async def test_p21_a_destination_that_is_not_public_is_refused_before_anything_is_sent(bench: Bench) -> None:
    """The settings of the bench allow 127.0.0.1 alone."""
    for host in ("169.254.169.254", "127.0.0.2", "[::ffff:127.0.0.3]"):
        url = f"http://{host}:{bench.http.port}/latest/meta-data/"
        document = await bench.delivered({"kind": "http", "method": "get", "url": url})
        assert (document["status"], document["error"]["code"]) == ("failed", "destination_rejected")
        assert len(document["attempts"]) == 1
    assert bench.http.connections == 0


async def test_p21_ten_seconds_before_the_deadline_there_is_one_attempt(bench: Bench) -> None:
    bench.http.always(FAILING)
    execution_id, (dispatch_id,) = await bench.stored(bench.operator())
    await bench.age(dispatch_id, 290)
    await bench.starter.look()
    assert await bench.run(dispatch_id) == "deadline_exceeded"
    (document,) = await bench.told(execution_id)
    assert [one["status_code"] for one in document["attempts"]] == [500]
    assert document["error"]["code"] == "deadline_exceeded"


async def test_p21_a_dispatch_found_after_its_deadline_is_given_up_without_an_attempt(bench: Bench) -> None:
    execution_id, (dispatch_id,) = await bench.stored(bench.operator())
    await bench.age(dispatch_id, 301)
    await bench.starter.look()
    assert await bench.run(dispatch_id) == "deadline_exceeded"
    (document,) = await bench.told(execution_id)
    assert (document["status"], document["attempts"]) == ("failed", [])
    assert bench.http.received == []


async def test_a_budget_makes_the_deadline_nearer(bench: Bench) -> None:
    bench.http.always(FAILING)
    document = await bench.delivered(bench.operator(budget={"max_wall_seconds": 20}))
    assert (document["error"]["code"], len(document["attempts"])) == ("deadline_exceeded", 1)


async def test_one_operator_that_fails_does_not_stop_the_others(bench: Bench) -> None:
    bench.http.always(Answer(400))
    execution_id, ids = await bench.stored(bench.operator(), SLACK, PAGER)
    await bench.starter.look(age=timedelta(0))
    assert [await bench.run(one) for one in ids] == ["provider_rejected", None, None]
    statuses = {one["dispatch_id"]: one["status"] for one in await bench.told(execution_id)}
    assert [statuses[one] for one in ids] == ["failed", "delivered", "delivered"]


@pytest.mark.parametrize(
    ("number", "retry_after", "left", "wait"),
    [
        (1, None, 300.0, 30.0),
        (2, None, 300.0, 120.0),
        (1, 10.0, 300.0, 30.0),
        (1, 45.0, 300.0, 45.0),
        (2, 130.0, 300.0, 130.0),
        (3, None, 300.0, DispatchFault.ATTEMPTS_EXHAUSTED),
        (1, None, 30.0, DispatchFault.DEADLINE_EXCEEDED),
        (2, None, 119.0, DispatchFault.DEADLINE_EXCEEDED),
        (1, 3600.0, 300.0, DispatchFault.DEADLINE_EXCEEDED),
        (3, 3600.0, 0.0, DispatchFault.ATTEMPTS_EXHAUSTED),
    ],
)
def test_p21_how_long_the_next_attempt_waits(
    number: int, retry_after: float | None, left: float, wait: float | DispatchFault
) -> None:
    assert wait_before_next(number, retry_after, left) == wait
