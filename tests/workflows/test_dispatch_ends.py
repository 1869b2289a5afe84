"""How dispatches start and end: once, whoever dies; what cannot be delivered; no secret anywhere (P65)."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection
from temporalio.client import WorkflowFailureError

from store.connections import DISABLED, Connections
from store.dispatches import Dispatches
from store.sealing import Sealer
from tests.receivers import (
    HANG,
    Answer,
)
from tests.workflows.dispatch_bench import (
    FAILING,
    PAGER,
    SECRETS,
    SLACK,
    TENANT,
    TOKEN,
    Bench,
)
from workflows import contracts
from wyrd.wire.ids import uuid7


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
    await bench.age(dispatch_id, 400)
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
