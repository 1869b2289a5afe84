"""The rows of a baseline: the files of a Data Card, as Parquet, CSV or JSON lines."""

from __future__ import annotations

import sys
from array import array
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
MOST_VALUES = 50_000_000
"""Values of a baseline, rows times features: what this process holds in memory at once."""
_LONGEST_LINE = 1024 * 1024


def baseline_samples(
    files: Sequence[tuple[str, Path]], features: Sequence[str], categorical: Collection[str]
) -> Samples:
    """The rows of those files, (name, local copy), one after the other; a feature is a column.

    Raises `BaselineRefused` for a file that cannot be read, for a column that is missing, and for
    more rows than the limits.
    """
    readable = [(name, path) for name, path in files if name.lower().endswith(SUFFIXES)]
    if not readable:
        raise BaselineRefused(f"the Data Card has no file that ends in {', '.join(SUFFIXES)}")
    most = min(MOST_ROWS, MOST_VALUES // len(features))
    parts: list[_Part] = []
    for name, path in readable:
        parts.append(_columns(name, path, features, categorical, most))
        if (rows := sum(part.rows for part in parts)) > most:
            raise _too_many(most)
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


def _too_many(most: int) -> BaselineRefused:
    return BaselineRefused(f"the baseline has more than {most} rows")


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


def _columns(
    name: str, path: Path, features: Sequence[str], categorical: Collection[str], most: int
) -> _Part:
    """The columns of a file; more than `most` rows are refused before they are all in memory."""
    if name.lower().endswith((".jsonl", ".ndjson")):
        return _json_lines(name, path, features, categorical, most)
    read = _parquet if name.lower().endswith(".parquet") else _csv
    try:
        table = read(name, path, features, categorical, most)
    except (pa.ArrowException, OSError) as error:
        raise BaselineRefused(f"{name} cannot be read: {str(error).splitlines()[0][:200]}") from None
    columns = {feature: table[feature] for feature in features}
    return _Part(
        table.num_rows,
        {
            feature: np.full(table.num_rows, float("nan")) if feature in categorical else _numbers(column)
            for feature, column in columns.items()
        },
        {feature: _labels(columns[feature]) for feature in categorical},
    )


def _parquet(
    name: str, path: Path, features: Sequence[str], categorical: Collection[str], most: int
) -> pa.Table:
    with pyarrow.parquet.ParquetFile(path, read_dictionary=list(categorical)) as file:
        if file.metadata.num_rows > most:
            raise _too_many(most)
        _require(name, features, file.schema_arrow.names)
        return file.read(columns=list(features), use_threads=False)


def _csv(name: str, path: Path, features: Sequence[str], categorical: Collection[str], most: int) -> pa.Table:
    # Labels stay as they are written: guessed types would make one label of "1" and "1.0".
    types = {name: pa.string() if name in categorical else pa.float64() for name in features}
    options = pyarrow.csv.ConvertOptions(
        column_types=types,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    batches: list[pa.RecordBatch] = []
    rows = 0
    with pyarrow.csv.open_csv(path, convert_options=options) as reader:
        _require(name, features, reader.schema.names)
        for batch in reader:
            batches.append(batch.select(list(features)))
            rows += batch.num_rows
            if rows > most:
                raise _too_many(most)
        return pa.Table.from_batches(batches, pa.schema([(one, types[one]) for one in features]))


def _require(name: str, features: Sequence[str], names: Sequence[str]) -> None:
    for feature in features:
        if names.count(feature) != 1:
            what = "has no column" if feature not in names else "has more than one column"
            raise BaselineRefused(f"{name} {what} {feature}")


def _numbers(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pc.fill_null(column.cast(pa.float64(), safe=False), float("nan")).to_numpy()
    return np.full(len(column), float("nan"))


def _labels(column: pa.ChunkedArray) -> Any:
    """One object a label, however often it occurs; None for null."""
    if not len(column):
        return label_array([])
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    encoded = column.unify_dictionaries().combine_chunks()
    known = label_array([*(as_label(value) for value in encoded.dictionary.to_pylist()), None])
    return known[pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)]


def _json_lines(
    name: str, path: Path, features: Sequence[str], categorical: Collection[str], most: int
) -> _Part:
    numbers = {feature: array("d") for feature in features}
    labels: dict[str, list[str | None]] = {feature: [] for feature in categorical}
    rows = 0
    for number, row in _rows(name, path):
        rows += 1
        if rows > most:
            raise _too_many(most)
        for feature in features:
            if feature not in row:
                raise BaselineRefused(f"line {number} of {name} lacks {feature}")
            numbers[feature].append(as_number(row[feature]))
        for feature in categorical:
            label = as_label(row[feature])
            labels[feature].append(None if label is None else sys.intern(label))
    return _Part(
        rows,
        {feature: np.frombuffer(found, dtype=np.float64) for feature, found in numbers.items()},
        {feature: label_array(found) for feature, found in labels.items()},
    )


def _rows(name: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), b""), start=1):
            if len(line) > _LONGEST_LINE:
                raise BaselineRefused(f"line {number} of {name} is longer than {_LONGEST_LINE} bytes")
            if not line.strip():
                continue
            try:
                row = strict_loads(line)
            except JsonRefused as refused:
                raise BaselineRefused(f"line {number} of {name}: {refused.reason}") from None
            if not isinstance(row, dict):
                raise BaselineRefused(f"line {number} of {name} is no JSON object")
            yield number, row
