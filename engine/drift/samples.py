"""Samples as drift reads them: records with one value a feature, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Labels = NDArray[np.object_]
Indexes = NDArray[np.intp]


class SamplesUnusable(Exception):
    """Some record cannot be judged, so none is: nothing is dropped or imputed. `str()` is the reason."""


@dataclass(frozen=True)
class Series:
    """The values of one feature as they were recorded: `records[i]` is the record of value i.

    `numbers` hold NaN where a value is null; `labels` hold None there, and are left out of a feature
    that no check reads as categories.
    """

    records: Indexes
    numbers: Numbers
    labels: Labels | None = None


@dataclass(frozen=True)
class Samples:
    """Every record of a window or a baseline, in observation order (created_at, then record id)."""

    record_ids: Sequence[str]
    series: Mapping[str, Series]

    def __len__(self) -> int:
        return len(self.record_ids)

    def numbers(self, feature: str) -> Numbers:
        """One finite number a record, in observation order. Raises `SamplesUnusable`."""
        values: Numbers = self._values(feature, lambda series: series.numbers)
        self._require(feature, np.isfinite(values), "holds no finite number")
        return values

    def labels(self, feature: str) -> Labels:
        """One text a record, in observation order. Raises `SamplesUnusable`."""
        values: Labels = self._values(feature, lambda series: series.labels)
        known = np.fromiter((value is not None for value in values), bool, len(values))
        self._require(feature, known, "holds null")
        return values

    def _values(self, feature: str, chosen: Any) -> Any:
        series = self.series.get(feature)
        if series is None:
            if len(self):
                raise SamplesUnusable(f"record {self.record_ids[0]} lacks the feature {feature}")
            return np.empty(0, dtype=np.float64)
        if np.array_equal(series.records, np.arange(len(self))):
            return chosen(series)
        counts = np.bincount(series.records, minlength=len(self))
        self._require(feature, counts > 0, "lacks the feature")
        self._require(feature, counts < 2, "repeats the feature")
        values = np.empty(len(self), dtype=chosen(series).dtype)
        values[series.records] = chosen(series)
        return values

    def _require(self, feature: str, good: NDArray[np.bool_], fault: str) -> None:
        bad = np.flatnonzero(~good)
        if len(bad):
            named = self.record_ids[int(bad[0])]
            more = f" ({len(bad)} records in all)" if len(bad) > 1 else ""
            what = f"{fault} {feature}" if fault.endswith("feature") else f"{fault} for {feature}"
            raise SamplesUnusable(f"record {named} {what}{more}")


def samples_of_rows(rows: Iterable[Mapping[str, Any]], features: Sequence[str]) -> Samples:
    """Samples of whole rows, one mapping a record: a baseline file's, in file order.

    A number stands under both readings of a feature; text is a label alone.
    """
    columns: dict[str, tuple[list[int], list[float], list[Any]]] = {
        feature: ([], [], []) for feature in features
    }
    ids: list[str] = []
    for index, row in enumerate(rows):
        ids.append(f"row {index + 1}")
        for feature, (records, numbers, labels) in columns.items():
            if feature in row:
                records.append(index)
                numbers.append(as_number(row[feature]))
                labels.append(as_label(row[feature]))
    return Samples(
        ids,
        {
            feature: Series(
                np.asarray(records, dtype=np.intp),
                np.asarray(numbers, dtype=np.float64),
                label_array(labels),
            )
            for feature, (records, numbers, labels) in columns.items()
            if records
        },
    )


def as_number(value: Any) -> float:
    """The number that a sample's value is; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def as_label(value: Any) -> str | None:
    """The category that a sample's value is: text as it stands, a number as JSON writes it, anything else
    that a file of data may hold as Python prints it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else str(value)


def label_array(labels: Sequence[Any]) -> Labels:
    """An array of objects; NumPy left to itself would make one of fixed-width text."""
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found
