"""Two tenants with tickets, verdicts and spans, and an Oracle with real processes over them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from sqlalchemy import Connection

from bifrost.catalog import Catalogs
from bifrost.names import TRACE_SPANS, VERIFICATION_RESULTS, TableName
from bifrost.oracle import Oracle, Question
from bifrost.reading import Cuts
from bifrost.scribe.publisher import Publisher
from bifrost.tables import Tables
from store.caller import Caller, Role, Tenant
from store.database import Database, utc_now
from store.outbox import Batch, Outbox
from store.settings import Settings
from store.tenants import make_tenant
from wyrd.errors import WyrdError
from wyrd.wire.bifrost import FieldSpec, RegisterTable
from wyrd.wire.ids import uuid7

TICKETS = TableName("vala.datasets", "tickets")
FIELDS = [
    FieldSpec(name="ticket_id", data_type="Utf8"),
    FieldSpec(name="question", data_type="Utf8", nullable=True),
    FieldSpec(name="answer", data_type="Utf8", nullable=True),
    FieldSpec(name="priority", data_type="Int64", nullable=True),
    FieldSpec(name="details", data_type="Variant", nullable=True),
]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CARDS = [uuid7() for _ in range(2)]
RUNS = [uuid7() for _ in range(6)]


@dataclass
class House:
    """What a service has to answer queries with: acme's rows say `ours`, rival's say `theirs`."""

    database: Database
    settings: Settings
    catalogs: Catalogs
    cuts: Cuts
    oracle: Oracle
    acme: Tenant
    rival: Tenant

    @classmethod
    def built(cls, database: Database, home: Path, **settings: Any) -> House:
        made = Settings(home=home, **settings)
        catalogs = Catalogs(made, database)
        cuts = Cuts(database, catalogs)
        acme = database.write_now(make_tenant, "acme")
        rival = database.write_now(make_tenant, "rival")
        house = cls(database, made, catalogs, cuts, Oracle(made, database, cuts), acme, rival)
        for tenant, word in ((acme, "ours"), (rival, "theirs")):
            house.register(tenant)
            house.put(tenant, TICKETS, tickets(word))
            house.put(tenant, VERIFICATION_RESULTS, results(word))
            house.put(tenant, TRACE_SPANS, spans(word))
        return house

    async def publish(self) -> None:
        await Publisher(self.database, self.catalogs, self.settings).pass_once(everything=True)

    def register(self, tenant: Tenant) -> None:
        asked = RegisterTable(namespace="datasets", name="tickets", fields=FIELDS)
        self.database.write_now(lambda connection: Tables(connection, tenant).register(asked))

    def put(self, tenant: Tenant, table: TableName, rows: Sequence[dict[str, Any]]) -> None:
        batch = Batch(
            table=table.full,
            batch_id=uuid7(),
            encoding="json",
            payload=orjson.dumps(list(rows)),
            row_count=len(rows),
            principal_id=uuid7(),
            request_id="request-1",
            ingested_at=utc_now(),
        )

        def add(connection: Connection) -> None:
            Outbox(connection, tenant).add([batch])

        self.database.write_now(add)

    async def sql(self, sql: str, *params: Any, tenant: Tenant | None = None, **more: Any) -> pa.Table:
        """The whole answer."""
        async with self.oracle.ask(reader(tenant or self.acme), asked(sql, *params, **more)) as answer:
            return pa.Table.from_batches([batch async for batch in answer], answer.schema)

    async def rows(self, sql: str, *params: Any, **more: Any) -> list[tuple[Any, ...]]:
        found = await self.sql(sql, *params, **more)
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    async def refusal(self, sql: str, *params: Any, **more: Any) -> WyrdError | None:
        """The error that the query ends with; None for one that answers."""
        try:
            await self.sql(sql, *params, **more)
        except WyrdError as error:
            return error
        return None


async def until(found: Callable[[], Any]) -> Any:
    """What `found` answers, once that is something."""
    async with asyncio.timeout(20):
        while True:
            if value := found():
                return value
            await asyncio.sleep(0.02)


def asked(sql: str, *params: Any, request_id: str | None = None, **more: Any) -> Question:
    return Question(sql=sql, params=params, request_id=request_id or uuid7(), **more)


def reader(tenant: Tenant, card_uid: str | None = None) -> Caller:
    return Caller(tenant, uuid7(), frozenset({Role.VIEWER}), card_uid)


def tickets(word: str) -> list[dict[str, Any]]:
    return [
        {
            "ticket_id": f"{word}-{number}",
            "question": f"{word} question {number}",
            "answer": f"{word} answer {number}",
            "priority": number,
            "details": {"word": word, "tags": [f"{word}-a", "b"]},
            "run_id": RUNS[number],
            "card_uid": CARDS[number % 2] if number else None,
        }
        for number in range(6)
    ]


def results(word: str) -> list[dict[str, Any]]:
    moment = utc_now().isoformat()
    return [
        {
            "result_id": uuid7(),
            "execution_id": uuid7(),
            "verifier_uid": uuid7(),
            "verifier": f"{word}/Verifier/v@1.0.0",
            "verifier_version": "1.0.0",
            "subject": f"{word}/Agent/a@1.0.0",
            "subject_version": "1.0.0",
            "verdict": "passed" if number % 3 else "failed",
            "source": "verify",
            "started_at": moment,
            "ended_at": moment,
            "requirements": [],
            "steps": [],
            "evidence_digests": {},
            "run_id": RUNS[number],
            "card_uid": CARDS[number % 2],
        }
        for number in range(6)
    ]


def spans(word: str) -> list[dict[str, Any]]:
    return [
        {
            "trace_id": TRACE,
            "span_id": f"00f067aa0ba902b{number}",
            "parent_span_id": f"00f067aa0ba902b{number - 1}" if number else None,
            "name": f"{word} span {number}",
            "kind": "internal",
            "trace_state": "",
            "flags": 1,
            "start_time_unix_nano": 1_700_000_000_000_000_000 + number,
            "end_time_unix_nano": 1_700_000_000_000_001_000 + number,
            "duration_ms": 0.001,
            "status_code": "ok",
            "status_message": "",
            "attributes": {"word": word},
            "events": [],
            "links": [
                {
                    "trace_id": "f" * 32,
                    "span_id": "e" * 16,
                    "trace_state": "",
                    "attributes": {},
                    "dropped_attributes_count": 0,
                    "flags": 0,
                }
            ]
            if number == 2
            else [],
            "dropped_attributes_count": 0,
            "dropped_events_count": 0,
            "dropped_links_count": 0,
            "scope_name": "tests",
            "scope_version": "1",
            "service_name": word,
            "resource_attributes": {},
        }
        for number in range(4)
    ]
