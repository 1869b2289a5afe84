"""The gRPC door, over a real connection with a real client, as the published clients call it."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa
import pytest
from sqlalchemy import select

from api.grpc import door as doors
from api.grpc.door import InsertDoor, check_port
from api.grpc.messages import METHOD, InsertBatchRequest, InsertBatchResponse
from api.grpc.statuses import TRAILER, document
from api.services import Services
from bifrost.names import TableName
from bifrost.scribe.intake import Scribe
from bifrost.tables import Tables
from store.caller import Caller, Role
from store.tables.bifrost import bifrost_outbox
from tests.api.conftest import Person, person
from tests.servers import free_ports
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import BatchAccepted, FieldSpec, RegisterTable
from wyrd.wire.ids import uuid7

Channel = Any
"""A `grpc.aio.Channel`, whose stubs know the types of generated code alone."""


@dataclass
class Taken:
    """Stands where Scribe stands, and says what reached it."""

    batches: list[tuple[Caller, TableName, str, bytes, str]] = field(default_factory=list)
    failing: Exception | None = None

    async def write_arrow(
        self, caller: Caller, table: TableName, batch_id: str, ipc_stream: bytes, request_id: str
    ) -> BatchAccepted:
        if self.failing is not None:
            raise self.failing
        duplicate = any(batch_id == known[2] for known in self.batches)
        self.batches.append((caller, table, batch_id, ipc_stream, request_id))
        return BatchAccepted(batch_id=batch_id, rows=1, duplicate=duplicate)


@pytest.fixture
def scribe() -> Taken:
    return Taken()


@pytest.fixture
async def door(services: Services, scribe: Taken) -> AsyncIterator[InsertDoor]:
    settings = services.settings.model_copy(update={"grpc_port": 0})
    parts: Any = SimpleNamespace(
        settings=settings, tokens=services.tokens, bifrost=SimpleNamespace(scribe=scribe)
    )
    door = InsertDoor(parts)
    await door.open()
    yield door
    await door.close()


@pytest.fixture
async def channel(door: InsertDoor) -> AsyncIterator[Channel]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        yield channel


def stream(values: list[int]) -> bytes:
    return written({"n": pa.array(values, pa.int64())})


def written(columns: dict[str, Any]) -> bytes:
    """An Arrow IPC stream of one batch."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(columns)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def request(table: str = "datasets.tickets", data: bytes = b"", batch_id: bytes = b"") -> bytes:
    return InsertBatchRequest(
        table=table, arrow_ipc=data or stream([1]), wyrd_batch_id=batch_id or uuid.UUID(uuid7()).bytes
    ).SerializeToString()


async def insert(
    channel: Channel, data: bytes, person: Person | None, *more: tuple[str, str], **options: Any
) -> bytes:
    metadata = [*more]
    if person is not None:
        metadata.append(("x-wyrd-access-token", f"Bearer {person.key}"))
    answer: bytes = await channel.unary_unary(METHOD)(data, metadata=metadata, timeout=30, **options)
    return answer


@dataclass(frozen=True)
class Refusal:
    status: grpc.StatusCode
    message: str
    problem: dict[str, Any]


async def refusal(call: Any) -> Refusal:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    trailer = dict(caught.value.trailing_metadata() or ())
    sent = trailer.get(TRAILER)
    return Refusal(
        caught.value.code(), caught.value.details() or "", {} if sent is None else json.loads(sent)
    )


async def test_a_batch_reaches_scribe_as_it_was_sent_and_its_id_comes_back(
    channel: Channel, scribe: Taken, admin: Person
) -> None:
    batch_id, request_id, rows = uuid7(), uuid7(), stream([1, 2, 3])
    data = request("vala.datasets.tickets", rows, uuid.UUID(batch_id).bytes)
    answer = await insert(channel, data, admin, ("wyrd-request-id", request_id))
    told: Any = InsertBatchResponse.FromString(answer)
    assert told.wyrd_batch_id == uuid.UUID(batch_id).bytes
    [(caller, table, stored_id, stored, asked)] = scribe.batches
    assert (caller.principal_id, caller.tenant) == (admin.principal_id, admin.tenant)
    assert (table.full, stored_id, stored, asked) == ("vala.datasets.tickets", batch_id, rows, request_id)


async def test_a_batch_sent_again_is_acknowledged_again(
    channel: Channel, scribe: Taken, admin: Person
) -> None:
    data = request()
    assert await insert(channel, data, admin) == await insert(channel, data, admin)
    assert len({one[2] for one in scribe.batches}) == 1


async def test_many_batches_at_once_are_all_acknowledged(
    channel: Channel, scribe: Taken, admin: Person
) -> None:
    await asyncio.gather(*(insert(channel, request(), admin) for _ in range(100)))
    assert len(scribe.batches) == 100


@pytest.mark.parametrize(
    "headers", [("authorization", "Bearer {key}"), ("x-wyrd-access-token", "bearer {token}")]
)
async def test_keys_and_tokens_open_the_door_under_either_name(
    channel: Channel, services: Services, admin: Person, headers: tuple[str, str]
) -> None:
    token = (await services.tokens.exchange(admin.key)).token
    name, value = headers
    assert await insert(channel, request(), None, (name, value.format(key=admin.key, token=token)))


async def test_without_a_credential_nothing_is_read(channel: Channel, scribe: Taken) -> None:
    for metadata, code in (
        ((), Code.AUTH_401_UNAUTHENTICATED),
        ((("authorization", "Basic abc"),), Code.AUTH_401_UNAUTHENTICATED),
        ((("x-wyrd-access-token", "Bearer nothing"),), Code.AUTH_401_INVALID_TOKEN),
        ((("x-wyrd-access-token", "Bearer wyrd_sk_nothing"),), Code.AUTH_401_API_KEY_INVALID),
    ):
        call = channel.stream_unary(METHOD)(metadata=metadata, timeout=30)
        # Not one message was written: the refusal does not wait for it.
        refused = await refusal(call)
        assert refused.status is grpc.StatusCode.UNAUTHENTICATED
        assert refused.problem["code"] == code.value
    assert scribe.batches == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WyrdError(Code.VALA_403_BIFROST_CARD_SCOPE, "not its Card"), "PERMISSION_DENIED"),
        (WyrdError(Code.VALA_429_INGEST_BUSY, "busy", table="vala.datasets.t"), "RESOURCE_EXHAUSTED"),
        (WyrdError(Code.VALA_507_WAL_DISK_FULL, "full"), "RESOURCE_EXHAUSTED"),
        (WyrdError(Code.SERVER_503_SERVICE_UNAVAILABLE, "away"), "UNAVAILABLE"),
        (WyrdError(Code.VALA_400_BIFROST_UNDECLARED_FIELD, "no", field="x", row=2), "INVALID_ARGUMENT"),
        (WyrdError(Code.VALA_413_PAYLOAD_TOO_LARGE, "big", bytes=9, limit=8), "INVALID_ARGUMENT"),
        (WyrdError(Code.VALA_404_BIFROST_TABLE_NOT_FOUND, "no table", table="t"), "NOT_FOUND"),
    ],
    ids=lambda value: str(getattr(value, "code", value)),
)
async def test_an_error_is_a_status_of_its_sense_and_its_problem_document(
    channel: Channel, scribe: Taken, admin: Person, error: WyrdError, status: str
) -> None:
    scribe.failing = error
    request_id = uuid7()
    refused = await refusal(insert(channel, request(), admin, ("wyrd-request-id", request_id)))
    assert refused.status.name == status
    assert refused.problem["code"] == error.code
    assert refused.problem["status"] == error.status
    assert refused.problem["request_id"] == request_id
    assert refused.problem["details"].get("data", refused.problem["details"]) == error.details
    assert {"type", "title", "detail", "remediation"} < set(refused.problem)


async def test_a_fault_of_ours_shows_nothing_of_itself(
    channel: Channel, scribe: Taken, admin: Person, caplog: pytest.LogCaptureFixture
) -> None:
    scribe.failing = ZeroDivisionError("a secret of the inside")
    refused = await refusal(insert(channel, request(), admin))
    assert refused.status is grpc.StatusCode.INTERNAL
    assert refused.problem["code"] == Code.SPEC_500_INTERNAL.value
    assert "secret" not in refused.message + json.dumps(refused.problem)
    assert "a secret of the inside" in caplog.text


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"\xff\xff\xff", "InsertBatchRequest"),
        (b"\n\x02\xff\xfe", "InsertBatchRequest"),
        (b"", "table"),
        (request(table="\0"), "table"),
        (InsertBatchRequest(table="datasets.t", wyrd_batch_id=b"x" * 16).SerializeToString(), "arrow_ipc"),
        (request(batch_id=b"short"), "wyrd_batch_id"),
        (request(batch_id=uuid.uuid4().bytes), "wyrd_batch_id"),
    ],
    ids=["garbage", "not text", "empty", "no name", "no rows", "short id", "id of version 4"],
)
async def test_what_is_not_a_batch_is_refused_by_field(
    channel: Channel, scribe: Taken, admin: Person, data: bytes, names: str
) -> None:
    refused = await refusal(insert(channel, data, admin))
    assert refused.status in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
    assert names in refused.problem["detail"]
    assert scribe.batches == []


async def test_unknown_fields_of_a_later_client_are_let_pass(
    channel: Channel, scribe: Taken, admin: Person
) -> None:
    assert await insert(channel, request() + b"\x22\x03new", admin)
    assert len(scribe.batches) == 1


async def test_a_call_without_a_message_is_refused(channel: Channel, admin: Person) -> None:
    call = channel.stream_unary(METHOD)(metadata=[("authorization", f"Bearer {admin.key}")], timeout=30)
    await call.done_writing()
    refused = await refusal(call)
    assert refused.problem["code"] == Code.VALA_400_INGEST_PROTO.value


async def test_a_batch_that_does_not_arrive_gives_up_its_turn(
    channel: Channel, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "_ARRIVING_SECONDS", 0.05)
    silent = [
        channel.stream_unary(METHOD)(metadata=[("authorization", f"Bearer {admin.key}")], timeout=60)
        for _ in range(40)
    ]
    assert await insert(channel, request(), admin)
    for call in silent:
        refused = await refusal(call)
        assert refused.status is grpc.StatusCode.DEADLINE_EXCEEDED
        assert refused.problem["code"] == Code.SERVER_504_REQUEST_TIMEOUT.value


async def test_a_message_over_the_limit_is_refused_and_the_next_one_taken(
    door: InsertDoor, scribe: Taken, admin: Person
) -> None:
    options = (("grpc.max_send_message_length", -1),)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}", options=options) as channel:
        refused = await refusal(insert(channel, request(data=b"x" * doors.MOST_BYTES), admin))
        assert refused.status is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert scribe.batches == []
        assert await insert(channel, request(data=b"x" * (doors.MOST_BYTES - 1000)), admin)


async def test_a_small_message_cannot_be_inflated_to_a_huge_one(
    channel: Channel, scribe: Taken, admin: Person
) -> None:
    data = request(data=b"\0" * 1_000_000)
    refused = await refusal(insert(channel, data, admin, compression=grpc.Compression.Gzip))
    assert refused.status in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT)
    assert scribe.batches == []


async def test_other_methods_are_not_there(channel: Channel, admin: Person) -> None:
    call = channel.unary_unary("/wyrd.v1.BifrostIngestService/DropTable")(request(), timeout=30)
    assert (await refusal(call)).status is grpc.StatusCode.UNIMPLEMENTED


async def test_a_busy_port_is_told_by_the_name_of_its_setting(
    door: InsertDoor, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = services.settings.model_copy(update={"grpc_port": door.port})
    second = InsertDoor(SimpleNamespace(settings=settings, tokens=services.tokens))  # type: ignore[arg-type]

    async def opened() -> None:
        await second.open()

    def probed() -> None:
        check_port("127.0.0.1", door.port)

    with pytest.raises(WyrdError, match="WYRD_GRPC_PORT") as caught:
        await opened()
    assert caught.value.code == Code.CLIENT_400_CONFIG_INVALID.value
    with pytest.raises(WyrdError, match="WYRD_GRPC_PORT"):
        probed()
    check_port("127.0.0.1", free_ports(1)[0])
    check_port("127.0.0.1", 0)


@pytest.mark.parametrize(
    "made",
    [
        WyrdError(Code.SPEC_400_VALIDATION, "é" * 100_000),
        WyrdError(Code.SPEC_400_VALIDATION, "many", errors=[{"field": "f" * 100}] * 500),
        WyrdError(Code.VALA_404_BIFROST_TABLE_NOT_FOUND, "no", table="t" * 50_000),
    ],
    ids=["a long sentence", "many details", "a long name"],
)
def test_a_document_fits_into_a_trailer_and_keeps_its_names(made: WyrdError) -> None:
    data = document(made, uuid7())
    assert len(data) <= 4096
    told = json.loads(data)
    assert told["code"] == made.code
    if made.code == Code.VALA_404_BIFROST_TABLE_NOT_FOUND.value:
        assert told["details"]["variant"] == "table_not_found"
        assert set(told["details"]["data"]) == {"table"}


@pytest.fixture
async def recording(services: Services) -> AsyncIterator[Channel]:
    """A channel to a door with the real Scribe behind it."""
    settings = services.settings.model_copy(update={"grpc_port": 0})
    scribe = Scribe(services.database, settings)
    parts: Any = SimpleNamespace(
        settings=settings, tokens=services.tokens, bifrost=SimpleNamespace(scribe=scribe)
    )
    door = InsertDoor(parts)
    await door.open()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        yield channel
    await door.close()


async def test_rows_of_a_published_client_are_durable_when_they_are_acknowledged(
    recording: Channel, services: Services, admin: Person
) -> None:
    fields = [
        FieldSpec(name="note_id", data_type="Utf8"),
        FieldSpec(name="length", data_type="Int64", nullable=True),
    ]
    await services.database.write(
        lambda connection: Tables(connection, admin.tenant).register(
            RegisterTable(namespace="vala.datasets", name="notes", fields=fields)
        )
    )
    # As the published client sends it: the columns of the table, then both of the correlation.
    run_id = uuid7()
    rows = written(
        {
            "note_id": pa.array(["a", "b"], pa.string()),
            "length": pa.array([1, None], pa.int64()),
            "card_uid": pa.array([None, None], pa.string()),
            "run_id": pa.array([run_id, None], pa.string()),
        }
    )
    batch_id = uuid.UUID(uuid7())
    for _ in range(2):
        answer: Any = InsertBatchResponse.FromString(
            await insert(recording, request("datasets.notes", rows, batch_id.bytes), admin)
        )
        assert answer.wyrd_batch_id == batch_id.bytes
    stored = await services.database.read(lambda connection: connection.execute(select(bifrost_outbox)).all())
    assert [(row.table_name, row.batch_id, row.row_count) for row in stored] == [
        ("vala.datasets.notes", str(batch_id), 2)
    ]

    unknown = written({"note_id": pa.array(["a"]), "colour": pa.array(["red"])})
    refused = await refusal(insert(recording, request("datasets.notes", unknown), admin))
    assert refused.problem["code"] == Code.VALA_400_BIFROST_UNDECLARED_FIELD.value
    assert refused.problem["details"]["data"]["field"] == "colour"
    refused = await refusal(insert(recording, request("datasets.notes", b"no stream"), admin))
    assert refused.problem["code"] == Code.VALA_400_INGEST_PROTO.value
    refused = await refusal(insert(recording, request("vala.traces.spans", rows), admin))
    assert refused.problem["code"] == Code.VALA_403_BIFROST_RESERVED_BUILTIN_WRITE.value
    refused = await refusal(insert(recording, request("vala.datasets.other", rows), admin))
    assert refused.problem["details"] == {
        "variant": "table_not_found",
        "data": {"table": "vala.datasets.other"},
    }


async def test_a_viewer_records_nothing(recording: Channel, services: Services, admin: Person) -> None:
    viewer = await person(services, "acme", "vic", Role.VIEWER)
    refused = await refusal(insert(recording, request("vala.drift.observations"), viewer))
    assert refused.status is grpc.StatusCode.PERMISSION_DENIED
    assert refused.problem["code"] == Code.PERMISSION_403_DENIED_RBAC.value
