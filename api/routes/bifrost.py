"""`/v1/bifrost/tables`: register, list and describe tables, and record batches into them."""

from __future__ import annotations

from fastapi import Request

from api.dependencies import Calling, Router, Serving, asked_by, body_of, caller, services
from api.edge import request_id_of
from api.problems import Document
from bifrost.columns import CORRELATION
from bifrost.names import TableName
from bifrost.tables import StoredTable, Tables
from store.caller import Permission
from wyrd.errors import Code, WyrdError
from wyrd.wire.arrow_rows import MAX_DEPTH
from wyrd.wire.bifrost import (
    BatchAccepted,
    RegisterTable,
    Retention,
    TableDescription,
    TableEntry,
    TableRegistered,
    WriteBatch,
)
from wyrd.wire.table_schema import bad_schema

ARROW_STREAM = "application/vnd.apache.arrow.stream"
BATCH_ID_HEADER = "wyrd-batch-id"

router = Router(prefix="/v1/bifrost/tables", tags=["bifrost"])

_BATCH = body_of(WriteBatch)
_BATCH["requestBody"]["content"][ARROW_STREAM] = {"schema": {"type": "string", "format": "binary"}}
_BATCH["parameters"] = [
    {
        "name": where,
        "in": place,
        "required": False,
        "schema": {"type": "string", "format": "uuid"},
        "description": "The batch id of an Arrow stream: one of the two is needed.",
    }
    for where, place in (("batch_id", "query"), (BATCH_ID_HEADER, "header"))
]


def described(table: StoredTable) -> TableDescription:
    """What a table is, as every door tells it."""
    return TableDescription(
        entry=table.entry,
        user_fields=list(table.fields),
        correlation_fields=list(CORRELATION),
        physical_layout=table.layout,
        compaction_target_file_size_bytes=table.compaction_target_bytes,
        compaction_type=table.compaction_type,
        retention_days=table.retention_days,
    )


def _description(table: StoredTable) -> Document:
    return Document(described(table).model_dump(mode="json", exclude_none=True))


@router.get("", response_model=list[TableEntry])
async def list_tables(services: Serving, caller: Calling) -> Document:
    """Every table of the tenant, the built-in ones too, by name."""
    caller.require(Permission.BIFROST_READ)
    tables = await services.database.read(lambda connection: Tables(connection, caller.tenant).all())
    return Document([table.entry.model_dump(mode="json") for table in tables])


@router.post("", response_model=TableRegistered, openapi_extra=body_of(RegisterTable))
async def register(request: Request, services: Serving) -> Document:
    """Make a table of `vala.datasets`, or let one grow by columns that may be null."""
    try:
        who, asked = await asked_by(request, RegisterTable, Code.SPEC_400_VALIDATION)
    except WyrdError as refused:
        if str(refused.details.get("field", "")).startswith("fields"):
            raise bad_schema(refused.detail) from None
        raise
    who.require(Permission.BIFROST_TABLES_WRITE)
    done = await services.database.write(lambda connection: Tables(connection, who.tenant).register(asked))
    return Document(done.model_dump(mode="json"), 201 if done.outcome == "Created" else 200)


@router.get("/{namespace}/{name}", response_model=TableDescription)
async def describe(namespace: str, name: str, services: Serving, caller: Calling) -> Document:
    """The columns and the layout of one table."""
    caller.require(Permission.BIFROST_READ)
    table = TableName.of(namespace, name)
    return _description(
        await services.database.read(lambda connection: Tables(connection, caller.tenant).find(table))
    )


@router.patch("/{namespace}/{name}", response_model=TableDescription)
async def keep(namespace: str, name: str, body: Retention, services: Serving, caller: Calling) -> Document:
    """Keep a table's rows for some days, or for ever. For administrators."""
    caller.require(Permission.BIFROST_ADMINISTER)
    table = TableName.of(namespace, name)
    return _description(
        await services.database.write(
            lambda connection: Tables(connection, caller.tenant).keep_days(table, body.retention_days)
        )
    )


@router.post("/{namespace}/{name}/batches", response_model=BatchAccepted, openapi_extra=_BATCH)
async def record(namespace: str, name: str, request: Request) -> Document:
    """Store a batch: JSON rows, or one Arrow IPC stream. Answered once it is durable."""
    scribe = services(request).bifrost.scribe
    request_id = request_id_of(request.scope)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == ARROW_STREAM:
        who = await caller(request)
        batch_id = request.query_params.get("batch_id") or request.headers.get(BATCH_ID_HEADER)
        if batch_id is None:
            raise WyrdError(
                Code.SPEC_400_VALIDATION,
                f"batch_id: send it in the query or in {BATCH_ID_HEADER}",
                field="batch_id",
            )
        table = TableName.of(namespace, name)
        done = await scribe.write_arrow(who, table, batch_id, await request.body(), request_id)
    else:
        who, batch = await asked_by(request, WriteBatch, Code.SPEC_400_VALIDATION, MAX_DEPTH)
        size = len(await request.body())
        table = TableName.of(namespace, name)
        done = await scribe.write_rows(who, table, batch.batch_id, batch.rows, request_id, size=size)
    return Document(done.model_dump(mode="json"))
