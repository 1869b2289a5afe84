"""Execution: its id, its status, and waiting for its result."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.sdk.peer import KEY, Answer, Peer, full_result, problem, result
from wyrd import WyrdClient, WyrdError, aio
from wyrd.verify import Execution
from wyrd.wire.ids import uuid7

ID = uuid7()
PATH = f"/v1/verification/executions/{ID}"


class Clock:
    """Pauses that cost no time but are counted as if they did."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.real = time.monotonic

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def monotonic(self) -> float:
        return self.real() + sum(self.pauses)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("wyrd._client.transport.time.sleep", found.sleep)
    monkeypatch.setattr("wyrd._client.executions.time.monotonic", found.monotonic)
    return found


def status(word: str, **more: Any) -> Answer:
    return Answer(body={"execution_id": ID, "status": word, "workflow_id": "local/verification/1", **more})


def finished(word: str = "completed") -> Answer:
    body = {"verifier_card_uid": uuid7(), "card_uid": uuid7(), "inputs": {}}
    return status(word, result=result(body))


@pytest.mark.parametrize("text", ["", "x", "not-a-uuid", "6f1c1d5e-9a55-4b8f-9b0a-0f6a3d0c1b2a", None, 7])
def test_an_id_that_is_no_uuid7_is_refused_before_any_request(
    peer: Peer, client: WyrdClient, text: Any
) -> None:
    with pytest.raises(WyrdError) as error:
        Execution(text, client)
    assert error.value.code == "WYRD_SPEC_400_VALIDATION"
    assert peer.seen == []


def test_status_is_the_document_of_the_server(peer: Peer, client: WyrdClient) -> None:
    peer.queue("GET", PATH, status("running", extra=[1]))
    execution = Execution(ID, client)
    assert execution.workflow_id is None
    assert execution.status() == {
        "execution_id": ID,
        "status": "running",
        "workflow_id": "local/verification/1",
        "extra": [1],
    }
    assert execution.workflow_id == "local/verification/1"


def test_a_status_that_is_none_is_an_upstream_failure(peer: Peer, client: WyrdClient) -> None:
    peer.queue("GET", PATH, status("thinking"))
    with pytest.raises(WyrdError) as error:
        Execution(ID, client).status()
    assert error.value.code == "WYRD_SPEC_502_UPSTREAM_FAILURE"


def test_wait_polls_with_growing_pauses_through_absence_and_503(
    peer: Peer, client: WyrdClient, clock: Clock
) -> None:
    peer.queue(
        "GET",
        PATH,
        problem(404, "WYRD_VERIFICATION_404_EXECUTION_NOT_FOUND"),
        problem(404, "WYRD_SPEC_404_NOT_FOUND"),
        status("pending"),
        status("running"),
        status("retrying"),
        status("completed"),
        *[problem(503, "WYRD_SERVER_503_NOT_READY")] * 3,
        finished("running"),
    )
    assert Execution(ID, client).wait(60).verdict == "passed"
    inside_one_call = [0.1, 1.0]
    assert clock.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, *inside_one_call, 2.0]


@pytest.mark.parametrize("word", ["errored", "cancelled", "timed_out"])
def test_an_execution_that_ended_raises_its_own_error(peer: Peer, client: WyrdClient, word: str) -> None:
    error_document = {"code": "WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT", "message": "used before"}
    peer.queue("GET", PATH, status(word, error=error_document))
    with pytest.raises(WyrdError) as error:
        Execution(ID, client).wait(5)
    assert error.value.code == "WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT"
    assert error.value.details == {"execution_id": ID, "status": word}


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (None, "WYRD_SPEC_500_INTERNAL"),
        ({"code": "WYRD_NEW_409_THING", "message": "x"}, "WYRD_SPEC_502_UPSTREAM_FAILURE"),
    ],
)
def test_an_end_without_a_known_reason_is_still_an_error(
    peer: Peer, client: WyrdClient, told: Any, code: str
) -> None:
    peer.queue("GET", PATH, status("errored", error=told))
    with pytest.raises(WyrdError) as error:
        Execution(ID, client).wait(5)
    assert error.value.code == code
    assert error.value.details["status"] == "errored"


def test_running_out_of_time_invents_no_result(peer: Peer, client: WyrdClient, clock: Clock) -> None:
    peer.routes["GET", PATH] = lambda _: status("running")
    with pytest.raises(WyrdError) as error:
        Execution(ID, client).wait(5)
    assert error.value.code == "WYRD_SDK_504_VERIFICATION_WAIT_TIMEOUT"
    assert error.value.details == {"execution_id": ID, "last_seen": "running"}
    assert sum(clock.pauses) == pytest.approx(5, abs=0.5)


def test_the_deadline_cuts_a_hanging_status_read(peer: Peer, client: WyrdClient) -> None:
    hang = threading.Event()
    peer.routes["GET", PATH] = lambda _: Answer(hang=hang)
    with pytest.raises(WyrdError) as error:
        Execution(ID, client).wait(0.3)
    hang.set()
    assert error.value.code == "WYRD_SDK_504_VERIFICATION_WAIT_TIMEOUT"


def test_a_wait_of_no_time_looks_once(peer: Peer, client: WyrdClient) -> None:
    peer.queue("GET", PATH, finished(), finished())
    assert Execution(ID, client).wait(0).verdict == "passed"
    peer.routes["GET", PATH] = lambda _: status("running")
    peer.queued.clear()
    with pytest.raises(WyrdError) as error:
        Execution(ID, client).wait(0)
    assert error.value.code == "WYRD_SDK_504_VERIFICATION_WAIT_TIMEOUT"


@pytest.mark.parametrize("timeout", [-1, float("nan"), "5", None, True])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(client: WyrdClient, timeout: Any) -> None:
    with pytest.raises(WyrdError) as error:
        Execution(ID, client).wait(timeout)
    assert error.value.details["field"] == "timeout"


def test_a_refusal_ends_the_wait(peer: Peer, client: WyrdClient) -> None:
    peer.queue("GET", PATH, problem(403, "WYRD_PERMISSION_403_DENIED_RBAC"))
    with pytest.raises(WyrdError) as error:
        Execution(ID, client).wait(5)
    assert error.value.code == "WYRD_PERMISSION_403_DENIED_RBAC"


def test_cancel_answers_the_status(peer: Peer, client: WyrdClient) -> None:
    peer.queue("POST", f"{PATH}/cancel", status("cancelled"))
    assert Execution(ID, client).cancel()["status"] == "cancelled"


async def test_the_async_execution_waits_by_the_same_rules(peer: Peer) -> None:
    peer.queue("GET", PATH, problem(404, "WYRD_SPEC_404_NOT_FOUND"), status("running"), finished())
    async with aio.WyrdClient(peer.url, KEY) as client:
        execution = aio.verify.Execution(ID, client)
        assert (await execution.wait(30)).verdict == "passed"
    assert len(peer.requests("GET", PATH)) == 3


def test_a_result_has_all_that_the_server_said_and_nothing_that_it_did_not(peer: Peer) -> None:
    said = full_result()
    peer.routes["GET", PATH] = lambda _: status("completed", result=said)
    found = Execution(ID, WyrdClient(peer.url, KEY)).wait(1)
    outcome = said.pop("outcome")
    assert found.document() == said | outcome
    assert (found.reason, found.pass_rate, found.source) == (outcome["reason"], 0.0, "submit")
    assert found.counts is not None
    assert found.counts.applicable == 1
    assert str(found.owner).startswith("default/Service/some-card@1.0.0#")
    error = found.requirements[0].attempt_log[0].error
    assert error is not None
    assert (found.requirements[0].reason_kind, error.kind) == ("judge_truncated", "timeout")
    assert (found.steps[0].output_bytes, found.steps[1].reason_kind) == (40_000, "timeout")


def test_a_link_to_the_workflow_is_kept_once_it_is_known(peer: Peer) -> None:
    execution = Execution(ID, WyrdClient(peer.url, KEY))
    peer.routes["GET", PATH] = lambda _: status("running", workflow_url="http://ui/1")
    execution.status()
    assert execution.workflow_url == "http://ui/1"
    peer.routes["GET", PATH] = lambda _: status("running")
    execution.status()
    assert execution.workflow_url == "http://ui/1"
