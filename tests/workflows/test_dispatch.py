"""Dispatches on a real Temporal server whose clock skips: attempts, waits, deadline, ends (P20, P21)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection
from temporalio.client import Client, WorkflowFailureError
from temporalio.worker import Worker

from activities.dispatch.delivery import DispatchEnds, wait_before_next
from activities.dispatch.reactions import Judged, react
from activities.dispatch.starting import DispatchStarter
from activities.temporal import notify_worker, quick_worker
from api.dispatches import dispatch_documents
from store.bindings import Binding, BoundOperator
from store.caller import Tenant
from store.connections import DISABLED, Connections, NewConnection
from store.database import Database
from store.dispatches import Dispatches, DispatchFault
from store.sealing import Sealer
from store.settings import Settings
from store.tables.operators import dispatches
from tests.conftest import opened
from tests.receivers import (
    CLOSE,
    HANG,
    Answer,
    PagerDuty,
    Received,
    Receiver,
    plain,
    receiving,
    slack,
    slack_error,
)
from tests.skipping import time_skipping
from workflows import contracts
from wyrd.wire.canonical import digest
from wyrd.wire.ids import uuid7

T = TypeVar("T")

TENANT = Tenant("01890000-0000-7000-8000-00000000000a", "acme")
TOKEN = "xoxb-secret-of-slack"
ROUTING_KEY = "secret-of-pager-duty"
BEARER = "secret-of-http"
SECRETS = (TOKEN, ROUTING_KEY, BEARER)
FAILING = Answer(500, b"no")


@dataclass
class Bench:
    """Workers, a database and three receivers; dispatches are stored and started as the product does."""

    client: Client
    database: Database
    settings: Settings
    http: Receiver
    workspace: Receiver
    pager: Receiver
    incidents: PagerDuty
    binding_id: str

    @property
    def starter(self) -> DispatchStarter:
        return DispatchStarter(self.database, self.client)

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self.database.write(work)

    async def set(self, dispatch_id: str, **values: Any) -> None:
        mine = dispatches.c.dispatch_id == dispatch_id
        await self.write(
            lambda connection: connection.execute(dispatches.update().where(mine).values(values))
        )

    async def stored(self, *specs: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Store a dispatch for each Operator; the execution and the ids, in that order."""
        execution_id = uuid7()
        judged = Judged(
            execution_id=execution_id,
            run_id=None,
            group_id=None,
            verifier_ref="tests/Verifier/polite@1.0.0",
            subject_ref="tests/Service/desk@1.0.0",
            verdict="failed",
            summary="1 of 2 requirements failed",
            failed=("polite",),
            requirement_count=2,
            completed_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
        )
        binding = a_binding(self.binding_id, specs)

        def work(connection: Connection) -> None:
            for _ in range(2):
                # A retried activity comes here twice, and makes nothing twice.
                react(connection, TENANT, judged, [binding], "failure", api_url="https://wyrd.test")

        await self.write(work)
        documents = await self.told(execution_id)
        order = [digest(dict(spec)) for spec in specs]
        documents.sort(key=lambda one: order.index(one["operator"]["digest"]))
        return execution_id, [one["dispatch_id"] for one in documents]

    async def told(self, execution_id: str) -> list[dict[str, Any]]:
        return await self.database.read(dispatch_documents, TENANT, execution_id)

    async def run(self, dispatch_id: str) -> str | None:
        """Wait for the end of its workflow; the code it failed with."""
        handle = self.client.get_workflow_handle(f"acme/dispatch/{dispatch_id}")
        try:
            await asyncio.wait_for(handle.result(), 60)
        except WorkflowFailureError as failure:
            cause = failure.cause
            return getattr(cause, "type", None)
        return None

    async def delivered(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Store, start and end the dispatch of one Operator; its document."""
        execution_id, (dispatch_id,) = await self.stored(spec)
        await self.starter.look(age=timedelta(0))
        failed = await self.run(dispatch_id)
        (document,) = await self.told(execution_id)
        assert failed == (document["error"]["code"] if document["error"] else None)
        return document

    async def lasted(self, dispatch_id: str) -> float:
        """Seconds of the workflow's own clock."""
        described = await self.client.get_workflow_handle(f"acme/dispatch/{dispatch_id}").describe()
        assert described.close_time is not None
        return (described.close_time - described.start_time).total_seconds()

    async def history(self, dispatch_id: str) -> str:
        handle = self.client.get_workflow_handle(f"acme/dispatch/{dispatch_id}")
        return (await handle.fetch_history()).to_json()

    def operator(self, **more: Any) -> dict[str, Any]:
        auth = {"scheme": "bearer", "connection": "desk-http"}
        body = {"text": "{{verifier_ref}}: {{summary}}", "see": "{{result_url}}"}
        return {
            "kind": "http",
            "method": "post",
            "url": f"{self.http.url}/hook",
            "auth": auth,
            "body": body,
            **more,
        }


def a_binding(binding_id: str, specs: tuple[Mapping[str, Any], ...]) -> Binding:
    return Binding(
        binding_id=binding_id,
        owner_uid=uuid7(),
        subject_uid=uuid7(),
        verifier_uid=uuid7(),
        occurrence="spec.verified_by[0]",
        ordinal=0,
        verifier_space="tests",
        verifier_name="polite",
        verifier_version="1.0.0",
        alias=None,
        runs_on=None,
        trigger_uid=None,
        operators=tuple(BoundOperator("failure", None, digest(dict(spec)), dict(spec)) for spec in specs),
        active=True,
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
    )


SLACK = {
    "kind": "notify",
    "channel": {
        "kind": "slack",
        "connection": "desk-slack",
        "channel_id": "C0SUPPORT",
        "text": "{{verifier_ref}} failed for {{subject_ref}}",
    },
}
PAGER = {
    "kind": "notify",
    "channel": {
        "kind": "pager_duty",
        "connection": "desk-pager",
        "route": "support",
        "severity": "error",
        "summary": "{{verifier_ref}} failed for {{subject_ref}}",
    },
}


@contextlib.asynccontextmanager
async def working(workers: list[Worker]) -> AsyncIterator[None]:
    running = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield
    finally:
        await asyncio.gather(*(worker.shutdown() for worker in workers))
        await asyncio.gather(*running)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    database = opened(f"sqlite:///{tmp_path / 'wyrd.db'}")
    incidents = PagerDuty(ROUTING_KEY)
    async with (
        time_skipping() as client,
        receiving(plain) as http,
        receiving(slack(TOKEN)) as workspace,
        receiving(incidents) as pager,
    ):
        settings = Settings(
            home=tmp_path,
            slack_url=workspace.url,
            pager_duty_url=pager.url,
            operator_destinations=("127.0.0.1",),
        )
        connect_all(database, Sealer.of(settings), http.url)
        workers = [
            quick_worker(client, DispatchEnds(database).quick),
            notify_worker(client, database, settings),
        ]
        async with working(workers):
            yield Bench(client, database, settings, http, workspace, pager, incidents, uuid7())
    database.close()


def connect_all(database: Database, sealer: Sealer, origin: str) -> None:
    def work(connection: Connection) -> None:
        repository = Connections(connection, TENANT)
        repository.create(sealer, NewConnection("slack", "desk-slack", {"bot_token": TOKEN}, "T0123"))
        repository.create(sealer, NewConnection("pager_duty", "desk-pager", {"integration_key": ROUTING_KEY}))
        repository.create(
            sealer,
            NewConnection("http", "desk-http", {"token": BEARER}, origin=origin, auth_scheme="bearer"),
        )

    database.write_now(work)


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


async def aged(bench: Bench, dispatch_id: str, seconds: float) -> None:
    """Make a dispatch as old as that."""
    created = datetime.now(UTC) - timedelta(seconds=seconds)
    await bench.set(dispatch_id, created_at=created, deadline_at=created + timedelta(seconds=300))


async def test_p21_ten_seconds_before_the_deadline_there_is_one_attempt(bench: Bench) -> None:
    bench.http.always(FAILING)
    execution_id, (dispatch_id,) = await bench.stored(bench.operator())
    await aged(bench, dispatch_id, 290)
    await bench.starter.look()
    assert await bench.run(dispatch_id) == "deadline_exceeded"
    (document,) = await bench.told(execution_id)
    assert [one["status_code"] for one in document["attempts"]] == [500]
    assert document["error"]["code"] == "deadline_exceeded"


async def test_p21_a_dispatch_found_after_its_deadline_is_given_up_without_an_attempt(bench: Bench) -> None:
    execution_id, (dispatch_id,) = await bench.stored(bench.operator())
    await aged(bench, dispatch_id, 301)
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


async def test_p65_a_dispatch_is_started_once_however_often_it_is_looked_for(bench: Bench) -> None:
    execution_id, (dispatch_id,) = await bench.stored(bench.operator())
    await asyncio.gather(*(bench.starter.look(age=timedelta(0)) for _ in range(3)))
    assert await bench.run(dispatch_id) is None
    await bench.set(dispatch_id, acknowledged=False)
    await bench.starter.look(age=timedelta(0))
    assert len(bench.http.received) == 1
    (document,) = await bench.told(execution_id)
    assert len(document["attempts"]) == 1


async def test_p65_a_delivery_that_runs_again_after_its_record_sends_nothing(bench: Bench) -> None:
    """As when a worker dies between the record of the attempt and its answer to Temporal."""
    bench.http.next(Answer(200), Answer(400))
    for spec, failed in ((bench.operator(), None), (bench.operator(method="put"), "provider_rejected")):
        document = await bench.delivered(spec)
        received = len(bench.http.received)
        again = await bench.client.start_workflow(
            contracts.DISPATCH_WORKFLOW,
            contracts.DispatchStart(
                tenant_id=TENANT.id, tenant_slug=TENANT.slug, dispatch_id=document["dispatch_id"]
            ),
            id=f"again-{uuid7()}",
            task_queue=contracts.QUEUE,
        )
        if failed is None:
            assert (await again.result())["status"] == "delivered"
        else:
            with pytest.raises(WorkflowFailureError) as caught:
                await again.result()
            assert getattr(caught.value.cause, "type", None) == failed
        assert len(bench.http.received) == received


async def test_p65_an_attempt_of_a_lost_worker_counts_and_the_next_one_is_made(bench: Bench) -> None:
    execution_id, (dispatch_id,) = await bench.stored(bench.operator())

    def lost(connection: Connection) -> None:
        repository = Dispatches(connection, TENANT)
        for _ in range(2):
            repository.begin(dispatch_id, datetime.now(UTC))

    await bench.write(lost)
    bench.http.always(FAILING)
    await bench.set(dispatch_id, acknowledged=False)
    await bench.starter.look(age=timedelta(0))
    assert await bench.run(dispatch_id) == "attempts_exhausted"
    (document,) = await bench.told(execution_id)
    assert [(one["number"], one["status_code"]) for one in document["attempts"]] == [
        (1, None),
        (2, None),
        (3, 500),
    ]


async def test_a_terminated_delivery_gets_its_end(bench: Bench) -> None:
    bench.http.always(HANG)
    execution_id, (dispatch_id,) = await bench.stored(bench.operator())
    await bench.starter.look(age=timedelta(0))
    await bench.http.arrived(1)
    await bench.client.get_workflow_handle(f"acme/dispatch/{dispatch_id}").terminate()
    await bench.starter.look()
    assert (await bench.told(execution_id))[0]["status"] == "running"
    await aged(bench, dispatch_id, 400)
    await bench.starter.look()
    (document,) = await bench.told(execution_id)
    assert (document["status"], document["error"]["code"]) == ("failed", "deadline_exceeded")


async def test_a_connection_that_is_not_usable_ends_the_dispatch(bench: Bench) -> None:
    origin = f"http://127.0.0.1:{bench.http.port}"
    wrong: list[dict[str, Any]] = [
        {"auth": {"scheme": "bearer", "connection": "nowhere"}},
        {"auth": {"scheme": "bearer", "connection": "desk-slack"}},
        {"auth": {"scheme": "basic", "connection": "desk-http"}},
        {"url": f"{origin.replace('127.0.0.1', 'localhost')}/hook"},
    ]
    for more in wrong:
        document = await bench.delivered(bench.operator(**more))
        assert (document["status"], document["error"]["code"]) == ("failed", "connection_unavailable")
    sealer = Sealer.of(bench.settings)

    def disabled(connection: Connection) -> None:
        repository = Connections(connection, TENANT)
        found = repository.named(["desk-http"])["desk-http"]
        repository.change(sealer, found.connection_id, {"status": DISABLED})

    await bench.write(disabled)
    document = await bench.delivered(bench.operator())
    assert document["error"]["code"] == "connection_unavailable"
    assert "disabled" in document["error"]["message"]
    assert bench.http.received == []


async def test_a_secret_that_cannot_be_opened_ends_the_dispatch(bench: Bench) -> None:
    def other(connection: Connection) -> None:
        repository = Connections(connection, TENANT)
        found = repository.named(["desk-slack"])["desk-slack"]
        another = Sealer(b"another key of thirty-two bytes.")
        repository.change(another, found.connection_id, {}, {"bot_token": TOKEN})

    await bench.write(other)
    document = await bench.delivered(SLACK)
    assert document["error"]["code"] == "credential_invalid"
    assert bench.workspace.received == []


UNRENDERED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "http", "method": "post", "url": "https://desk.example/{{summary}}/.."}, "invalid_request"),
    ({"kind": "carrier_pigeon"}, "operator_unavailable"),
]


@pytest.mark.parametrize(("spec", "code"), UNRENDERED)
async def test_what_cannot_be_rendered_has_failed_when_it_is_stored(
    bench: Bench, spec: dict[str, Any], code: str
) -> None:
    execution_id, _ = await bench.stored(spec)
    await bench.starter.look(age=timedelta(0))
    (document,) = await bench.told(execution_id)
    assert (document["status"], document["error"]["code"]) == ("failed", code)
    assert document["attempts"] == []


async def test_no_secret_leaves_the_sealed_column(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Neither log, error, history nor a dump of the database holds one, whatever the receiver says."""
    caplog.set_level(logging.DEBUG)
    for receiver in (bench.http, bench.workspace, bench.pager):
        receiver.next(Answer(500, " ".join(SECRETS).encode()))
        receiver.next(Answer(400, " ".join(SECRETS).encode()))
    kept = []
    for spec in (bench.operator(), SLACK, PAGER):
        document = await bench.delivered(spec)
        assert len(document["attempts"]) == 2
        kept += [str(document), await bench.history(document["dispatch_id"])]
    kept += [record.getMessage() for record in caplog.records]
    stored = b"".join(path.read_bytes() for path in bench.settings.home.glob("wyrd.db*"))
    assert b"desk-pager" in stored
    sent = (*bench.http.received, *bench.workspace.received, *bench.pager.received)
    for secret in SECRETS:
        assert [one for one in sent if secret in str(one)]
        assert not [text for text in kept if secret in text]
        assert secret.encode() not in stored


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
