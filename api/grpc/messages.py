"""The two protobuf messages of `InsertBatch`, described at run time: no generated code to keep."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from wyrd.errors import Code, WyrdError

PACKAGE = "wyrd.v1"
METHOD = f"/{PACKAGE}.BifrostIngestService/InsertBatch"

_BATCH_ID_BYTES = 16


def _described() -> DescriptorPool:
    text, data = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES
    fields = {
        "InsertBatchRequest": (("table", text), ("arrow_ipc", data), ("wyrd_batch_id", data)),
        "InsertBatchResponse": (("wyrd_batch_id", data),),
    }
    file = FileDescriptorProto(name="wyrd/v1/bifrost_ingest.proto", package=PACKAGE, syntax="proto3")
    for name, columns in fields.items():
        message = file.message_type.add(name=name)
        for number, (column, kind) in enumerate(columns, 1):
            message.field.add(
                name=column, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL
            )
    pool = DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _described()


def _message(name: str) -> type[Message]:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


InsertBatchRequest = _message("InsertBatchRequest")
InsertBatchResponse = _message("InsertBatchResponse")


@dataclass(frozen=True, slots=True)
class Insert:
    """One batch as it was sent. `arrow_ipc` is an Arrow IPC stream; `batch_id` a UUIDv7."""

    table: str
    arrow_ipc: bytes
    batch_id: UUID

    @property
    def acknowledgement(self) -> bytes:
        """The answer that it is stored: its id, byte for byte."""
        return InsertBatchResponse(wyrd_batch_id=self.batch_id.bytes).SerializeToString()


def read_insert(data: bytes) -> Insert:
    """The message in those bytes. Raises `WYRD_VALA_400_INGEST_PROTO`, naming the field."""
    request: Any = InsertBatchRequest()
    try:
        request.ParseFromString(data)
    except DecodeError:
        raise not_as_agreed("the message is not an InsertBatchRequest") from None
    if not request.table:
        raise not_as_agreed("table: is missing")
    if not request.arrow_ipc:
        raise not_as_agreed("arrow_ipc: is missing; it is one Arrow IPC stream")
    given = request.wyrd_batch_id
    if len(given) != _BATCH_ID_BYTES or (batch_id := UUID(bytes=given)).version != 7:
        raise not_as_agreed("wyrd_batch_id: must be the 16 bytes of a UUIDv7")
    return Insert(request.table, request.arrow_ipc, batch_id)


def not_as_agreed(what: str) -> WyrdError:
    """`WYRD_VALA_400_INGEST_PROTO`: the call is not what `InsertBatch` takes."""
    return WyrdError(Code.VALA_400_INGEST_PROTO, what, message=what)
