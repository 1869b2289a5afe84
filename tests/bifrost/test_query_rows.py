"""JSON rows of an answer: nothing rounded, nothing turned into null."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bifrost.oracle.rows import json_rows

MOMENT = datetime(2026, 12, 1, 10, 30, 0, 123456, UTC)


@pytest.mark.parametrize(
    ("values", "kind", "json"),
    [
        ([1, None, 2**63 - 1], pa.int64(), [1, None, 9223372036854775807]),
        ([Decimal(10**30)], pa.decimal128(38, 0), [10**30]),
        ([Decimal("12.50"), Decimal("-0.01")], pa.decimal128(10, 2), ["12.50", "-0.01"]),
        ([Decimal("3.00")], pa.decimal128(10, 2), ["3.00"]),
        ([0.1, float("nan")], pa.float64(), [0.1, "NaN"]),
        ([float("inf"), float("-inf")], pa.float64(), ["Infinity", "-Infinity"]),
        ([True, None], pa.bool_(), [True, None]),
        (["x", ""], pa.string(), ["x", ""]),
        ([b"\x00\xff"], pa.binary(), ["AP8="]),
        ([MOMENT], pa.timestamp("us", "UTC"), ["2026-12-01T10:30:00.123456Z"]),
        ([MOMENT.replace(tzinfo=None)], pa.timestamp("us"), ["2026-12-01T10:30:00.123456Z"]),
        ([date(2026, 12, 1)], pa.date32(), ["2026-12-01"]),
        ([time(10, 30)], pa.time64("us"), ["10:30:00"]),
        ([timedelta(hours=1, milliseconds=500)], pa.duration("us"), ["PT3600.5S"]),
        ([(14, 3, -1_500_000_000), (0, 0, 0)], pa.month_day_nano_interval(), ["P14M3DT-1.5S", "PT0S"]),
        ([[1.5, float("nan")], None], pa.list_(pa.float64()), [[1.5, "NaN"], None]),
        ([{"a": Decimal("1.10")}], pa.struct({"a": pa.decimal128(5, 2)}), [{"a": "1.10"}]),
        ([[("k", 1)]], pa.map_(pa.string(), pa.int64()), [[["k", 1]]]),
    ],
)  # fmt: skip
def test_a_value_is_written_exactly(values: list[Any], kind: pa.DataType, json: list[Any]) -> None:
    batch = pa.record_batch({"x": pa.array(values, kind)})
    assert json_rows(batch) == [[value] for value in json]


def test_columns_of_one_name_keep_their_places() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert json_rows(batch) == [[1, 2]]
