"""The tables that every tenant has: their columns and event times. Wyrd alone writes them, but for
`vala.drift.observations`, whose six columns are how clients send samples.

Times that OTLP gives in nanoseconds stay 64-bit integers: nothing is rounded away. JSON columns are
Variants. Identifiers of traces and spans are lower-case hexadecimal text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import pyarrow as pa

from bifrost.columns import SYSTEM
from bifrost.names import (
    DRIFT_OBSERVATIONS,
    EXECUTION_INPUTS,
    LOG_RECORDS,
    METRIC_POINTS,
    TRACE_SPANS,
    VERIFICATION_RESULTS,
    TableName,
)
from wyrd.wire.arrow_fields import arrow_schema
from wyrd.wire.bifrost import DataType, FieldSpec, NestedType, PhysicalLayout
from wyrd.wire.table_schema import TIMESTAMP_UTC


def _columns(data_type: DataType, *names: str) -> list[FieldSpec]:
    """Columns of one type; a name that ends in `?` may be null."""
    return [
        FieldSpec(name=name.removesuffix("?"), data_type=data_type, nullable=name.endswith("?"))
        for name in names
    ]


def _list_of(data_type: DataType) -> NestedType:
    return NestedType(List=FieldSpec(name="item", data_type=data_type))


def _structs(*members: Sequence[FieldSpec]) -> NestedType:
    return _list_of(NestedType(Struct=[field for group in members for field in group]))


_RESULTS = [
    *_columns("Utf8", "result_id", "execution_id", "verifier_uid", "verifier", "verifier_version"),
    *_columns("Utf8", "subject", "subject_version", "owner?", "owner_card_uid?"),
    *_columns("Utf8", "binding_id?", "group_id?", "session_id?", "verdict", "source"),
    *_columns(TIMESTAMP_UTC, "started_at", "ended_at", "window_start?", "window_end?"),
    *_columns("Variant", "requirements", "steps", "evidence_digests"),
    *_columns("Utf8", "workflow_id?"),
]

_INPUTS = [
    *_columns("Utf8", "execution_id", "slot", "kind"),
    *_columns("Variant", "declaration"),
    *_columns("Utf8", "sha256?"),
    *_columns("Int64", "size_bytes?"),
    *_columns("Utf8", "format?", "group_id?"),
]

_OBSERVATIONS = [
    *_columns("Utf8", "record_id", "series"),
    *_columns("Float64", "num_value?"),
    *_columns("Utf8", "str_value?", "session_id?"),
    *_columns(TIMESTAMP_UTC, "created_at"),
]

_SCOPE = [
    *_columns("Utf8", "scope_name", "scope_version", "service_name"),
    *_columns("Variant", "resource_attributes"),
]

_SPANS = [
    *_columns("Utf8", "trace_id", "span_id", "parent_span_id?", "name", "kind", "trace_state"),
    *_columns("Int64", "flags", "start_time_unix_nano", "end_time_unix_nano"),
    *_columns("Float64", "duration_ms"),
    *_columns("Utf8", "status_code", "status_message"),
    *_columns("Variant", "attributes"),
    *_columns(
        _structs(
            _columns("Int64", "time_unix_nano"),
            _columns("Utf8", "name"),
            _columns("Variant", "attributes"),
            _columns("Int64", "dropped_attributes_count"),
        ),
        "events",
    ),
    *_columns(
        _structs(
            _columns("Utf8", "trace_id", "span_id", "trace_state"),
            _columns("Variant", "attributes"),
            _columns("Int64", "dropped_attributes_count", "flags"),
        ),
        "links",
    ),
    *_columns("Int64", "dropped_attributes_count", "dropped_events_count", "dropped_links_count"),
    *_SCOPE,
]

# A body that is text stands as it is; one that is anything else, as JSON text.
_RECORDS = [
    *_columns("Int64", "time_unix_nano", "observed_time_unix_nano", "severity_number"),
    *_columns("Utf8", "severity_text", "body?", "event_name?", "trace_id?", "span_id?"),
    *_columns("Variant", "attributes"),
    *_SCOPE,
]

_POINTS = [
    *_columns("Utf8", "metric_name", "description", "unit", "metric_type"),
    *_columns("Int64", "time_unix_nano", "start_time_unix_nano?"),
    *_columns("Variant", "attributes", "exemplars?"),
    *_columns("Int64", "int_value?"),
    *_columns("Float64", "double_value?"),
    *_columns("Utf8", "aggregation_temporality?"),
    *_columns("Bool", "is_monotonic?"),
    *_columns("Int64", "count?"),
    *_columns("Float64", "sum?", "min?", "max?"),
    *_columns(_list_of("Int64"), "bucket_counts?"),
    *_columns(_list_of("Float64"), "explicit_bounds?"),
    *_columns("Int64", "scale?", "zero_count?"),
    *_columns("Float64", "zero_threshold?"),
    *_columns("Int64", "positive_offset?"),
    *_columns(_list_of("Int64"), "positive_bucket_counts?"),
    *_columns("Int64", "negative_offset?"),
    *_columns(_list_of("Int64"), "negative_bucket_counts?"),
    *_columns(_structs(_columns("Float64", "quantile", "value")), "quantiles?"),
    *_SCOPE,
]

BUILTIN: Final[Mapping[TableName, tuple[FieldSpec, ...]]] = {
    VERIFICATION_RESULTS: tuple(_RESULTS),
    EXECUTION_INPUTS: tuple(_INPUTS),
    DRIFT_OBSERVATIONS: tuple(_OBSERVATIONS),
    TRACE_SPANS: tuple(_SPANS),
    LOG_RECORDS: tuple(_RECORDS),
    METRIC_POINTS: tuple(_POINTS),
}
"""The columns of every built-in table, in order, without the system columns."""

LAYOUTS: Final[Mapping[TableName, PhysicalLayout]] = {
    VERIFICATION_RESULTS: PhysicalLayout(time_column="ended_at"),
    EXECUTION_INPUTS: PhysicalLayout(),
    DRIFT_OBSERVATIONS: PhysicalLayout(time_column="created_at"),
    TRACE_SPANS: PhysicalLayout(time_column="start_time_unix_nano"),
    LOG_RECORDS: PhysicalLayout(time_column="time_unix_nano"),
    METRIC_POINTS: PhysicalLayout(time_column="time_unix_nano"),
}

MIN_DAYS: Final[Mapping[TableName, int]] = {VERIFICATION_RESULTS: 365, EXECUTION_INPUTS: 365}
"""Days that rows of a table are kept at least, whatever an administrator asks for."""


@cache
def schema_of(name: TableName) -> pa.Schema:
    """The full Arrow schema of a built-in table, system columns included."""
    return arrow_schema([*BUILTIN[name], *SYSTEM])
