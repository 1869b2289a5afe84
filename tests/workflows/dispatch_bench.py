"""A bench for dispatches: workers, a database and three receivers on a server whose clock skips."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection
from temporalio.client import Client, WorkflowFailureError
from temporalio.worker import Worker

from activities.dispatch.delivery import DispatchEnds
from activities.dispatch.reactions import Judged, react
from activities.dispatch.starting import DispatchStarter
from activities.temporal import notify_worker, quick_worker
from api.dispatches import dispatch_documents
from store.bindings import Binding, BoundOperator
from store.caller import Tenant
from store.connections import Connections, NewConnection
from store.database import Database
from store.sealing import Sealer
from store.settings import Settings
from store.tables.operators import dispatches
from tests.conftest import opened
from tests.receivers import (
    Answer,
    PagerDuty,
    Receiver,
    plain,
    receiving,
    slack,
)
from tests.skipping import time_skipping
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

    async def age(self, dispatch_id: str, seconds: float) -> None:
        """Make a dispatch as old as that."""
        created = datetime.now(UTC) - timedelta(seconds=seconds)
        await self.set(dispatch_id, created_at=created, deadline_at=created + timedelta(seconds=300))

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


@contextlib.asynccontextmanager
async def dispatching(tmp_path: Path) -> AsyncIterator[Bench]:
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
