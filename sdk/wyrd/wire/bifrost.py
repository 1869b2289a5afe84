"""What the table, ingest and query routes of Bifrost send and answer (`/v1/bifrost/…`, `/v1/query`)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from wyrd.wire.verification import Uuid7

PlainType: TypeAlias = Literal[
    "Bool",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Float32",
    "Float64",
    "Utf8",
    "LargeUtf8",
    "Binary",
    "LargeBinary",
    "Date32",
    "Date64",
    "Variant",
]
TimeUnit: TypeAlias = Literal["Second", "Millisecond", "Microsecond", "Nanosecond"]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TimestampType(_Closed):
    unit: TimeUnit
    tz: str | None = None


class TimeType(_Closed):
    unit: TimeUnit


class FixedSizeBinaryType(_Closed):
    len: int


class DecimalType(_Closed):
    precision: int
    scale: int


class MapType(_Closed):
    key: FieldSpec
    value: FieldSpec


class NestedType(_Closed):
    """A type with parameters: an object of exactly one key."""

    Timestamp: TimestampType | None = None
    Time32: TimeType | None = None
    Time64: TimeType | None = None
    FixedSizeBinary: FixedSizeBinaryType | None = None
    Decimal128: DecimalType | None = None
    List: FieldSpec | None = None
    Struct: list[FieldSpec] | None = None
    Map: MapType | None = None

    def document(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


DataType: TypeAlias = PlainType | NestedType


class FieldSpec(_Closed):
    """One column. `Variant` is any JSON value, stored as JSON text."""

    name: str
    data_type: DataType
    nullable: bool = False
    metadata: dict[str, str] | None = None


for _model in (MapType, NestedType):
    _model.model_rebuild()


class SortKey(_Closed):
    column: str
    direction: Literal["asc", "desc"] = "asc"
    null_order: Literal["first", "last"] = "last"


class PhysicalLayout(_Closed):
    """How a table's files are laid out; `time_column` names its event time."""

    partition_granularity: Literal["hour", "day"] = "day"
    time_column: str | None = None
    sort_keys: list[SortKey] = []
    bloom_columns: list[str] = []


CompactionType: TypeAlias = Literal["auto", "full", "small-files", "files-with-delete"]


class RegisterTable(BaseModel):
    """The body of `POST /v1/bifrost/tables`. `namespace` is `datasets` or `vala.datasets`."""

    namespace: str
    name: str
    fields: list[FieldSpec]
    physical_layout: PhysicalLayout | None = None
    compaction_target_file_size_bytes: int | None = None
    compaction_type: CompactionType | None = None


class TableRegistered(BaseModel):
    outcome: Literal["Created", "AlreadyExists"]
    table_uid: str
    fingerprint: str


class TableEntry(BaseModel):
    namespace: str
    name: str
    table_uid: str
    status: Literal["Active", "Deprecated", "Quarantined"]
    fingerprint: str
    registered_at: datetime
    updated_at: datetime


class TableDescription(BaseModel):
    entry: TableEntry
    user_fields: list[FieldSpec]
    correlation_fields: list[FieldSpec]
    physical_layout: PhysicalLayout
    compaction_target_file_size_bytes: int | None = None
    compaction_type: CompactionType | None = None
    retention_days: int | None = None
    """Days that rows are kept; None keeps everything."""


class Retention(_Closed):
    """The body of `PATCH /v1/bifrost/tables/{namespace}/{name}`: days to keep rows, null for ever."""

    retention_days: StrictInt | None


class WriteBatch(BaseModel):
    """The JSON body of `POST /v1/bifrost/tables/{namespace}/{name}/batches`.

    A row holds the table's own columns and, where it belongs to a run, `run_id` and `card_uid`.
    `batch_id` is reused on every retry: the same batch is stored once.
    """

    batch_id: Uuid7
    rows: Annotated[list[dict[str, Any]], Field(min_length=1)]


class BatchAccepted(BaseModel):
    batch_id: str
    rows: int
    duplicate: bool
    """The batch had been acknowledged before; nothing was stored now."""


QueryParameter: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr | None


class QueryRequest(BaseModel):
    """The body of `POST /v1/query`. `params` are `$1` to `$n`."""

    sql: str
    params: list[QueryParameter] | None = None
    deadline_ms: Annotated[int, Field(ge=1)] | None = None
    max_rows: Annotated[int, Field(ge=1)] | None = None
    max_bytes: Annotated[int, Field(ge=1)] | None = None


class QueryRows(BaseModel):
    """The JSON answer of `POST /v1/query`."""

    columns: list[str]
    rows: list[list[Any]]
    row_count: int


class QueryProgress(BaseModel):
    completed_participants: int
    total_participants: int


class RunningQuery(BaseModel):
    request_id: str
    query_class: Literal["interactive", "analytical"]
    started_at: datetime
    deadline: datetime
    state: Literal["admitted", "running", "cancelling"]
    progress: QueryProgress
    cancellation_requested: bool


class RunningQueries(BaseModel):
    queries: list[RunningQuery]


class QueryCancelled(BaseModel):
    request_id: str
    cancellation_started: bool
