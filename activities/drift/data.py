"""The rows of a baseline: the files of a Data Card, as Parquet, CSV or JSON lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from engine.drift.baseline import BaselineRefused
from engine.drift.samples import Samples, Series, as_label, as_number, label_array
from wyrd.wire.canonical import JsonRefused, strict_loads

SUFFIXES = (".parquet", ".csv", ".jsonl", ".ndjson")
MOST_ROWS = 10_000_000


def baseline_samples(
    files: Sequence[tuple[str, Path]], features: Sequence[str], categorical: Collection[str]
) -> Samples:
    """The rows of those files, (name, local copy), one after the other; a feature is a column.

    Raises `BaselineRefused` for a file that cannot be read, and for a column that is missing.
    """
    readable = [(name, path) for name, path in files if name.lower().endswith(SUFFIXES)]
    if not readable:
        raise BaselineRefused(f"the Data Card has no file that ends in {', '.join(SUFFIXES)}")
    parts = [_columns(name, path, features, categorical) for name, path in readable]
    rows = sum(part.rows for part in parts)
    if rows > MOST_ROWS:
        raise BaselineRefused(f"the baseline has {rows} rows, over the limit of {MOST_ROWS}")
    every = np.arange(rows, dtype=np.intp)
    return Samples(
        _Rows(rows),
        {
            feature: Series(
                every,
                np.concatenate([part.numbers[feature] for part in parts]),
                np.concatenate([part.labels[feature] for part in parts]) if feature in categorical else None,
            )
            for feature in features
        },
    )


class _Rows(Sequence[str]):
    """Names of rows, made when one is asked for."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return f"row {index + 1}"


class _Part:
    """The columns of one file."""

    def __init__(self, rows: int, numbers: Mapping[str, Any], labels: Mapping[str, Any]) -> None:
        self.rows = rows
        self.numbers = numbers
        self.labels = labels


def _columns(name: str, path: Path, features: Sequence[str], categorical: Collection[str]) -> _Part:
    if name.lower().endswith((".jsonl", ".ndjson")):
        return _json_lines(name, path, features, categorical)
    try:
        table = _table(name, path)
    except (pa.ArrowException, OSError) as error:
        raise BaselineRefused(f"{name} cannot be read: {str(error).splitlines()[0][:200]}") from None
    missing = [feature for feature in features if feature not in table.column_names]
    if missing:
        raise BaselineRefused(f"{name} has no column {missing[0]}")
    columns = {feature: table[feature] for feature in features}
    return _Part(
        table.num_rows,
        {feature: _numbers(column) for feature, column in columns.items()},
        {
            feature: label_array([as_label(value) for value in columns[feature].to_pylist()])
            for feature in categorical
        },
    )


def _table(name: str, path: Path) -> pa.Table:
    if name.lower().endswith(".parquet"):
        return pyarrow.parquet.read_table(path)
    return pyarrow.csv.read_csv(
        path, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
    )


def _numbers(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pc.fill_null(column.cast(pa.float64(), safe=False), float("nan")).to_numpy()
    return np.full(len(column), float("nan"))


def _json_lines(name: str, path: Path, features: Sequence[str], categorical: Collection[str]) -> _Part:
    rows = list(_rows(name, path))
    for number, row in enumerate(rows, start=1):
        absent = [feature for feature in features if feature not in row]
        if absent:
            raise BaselineRefused(f"row {number} of {name} lacks {absent[0]}")
    return _Part(
        len(rows),
        {
            feature: np.array([as_number(row[feature]) for row in rows], dtype=np.float64)
            for feature in features
        },
        {feature: label_array([as_label(row[feature]) for row in rows]) for feature in categorical},
    )


def _rows(name: str, path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = strict_loads(line)
            except JsonRefused as refused:
                raise BaselineRefused(f"line {number} of {name}: {refused.reason}") from None
            if not isinstance(row, dict):
                raise BaselineRefused(f"line {number} of {name} is no JSON object")
            yield row
