"""The names of tables: `vala.<namespace>.<name>`, checked here because the catalog checks nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wyrd.errors import Code, WyrdError

CATALOG = "vala"
DATASETS = "vala.datasets"
"""The one namespace that takes tables of the tenant's own."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True, order=True, slots=True)
class TableName:
    """One table. `namespace` holds the catalog: `vala.datasets`."""

    namespace: str
    name: str

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def is_dataset(self) -> bool:
        return self.namespace == DATASETS

    def __str__(self) -> str:
        return self.full

    @classmethod
    def of(cls, namespace: str, name: str) -> TableName:
        """The table of that namespace, with or without its catalog.

        Raises `WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND` for what cannot be the name of a table.
        """
        parts = namespace.split(".")
        if parts[0] != CATALOG:
            parts = [CATALOG, *parts]
        if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in (parts[1], name)):
            raise no_such_table(f"{namespace}.{name}")
        return cls(".".join(parts), name)

    @classmethod
    def parse(cls, text: str) -> TableName:
        """The table of a dotted name: `datasets.tickets` or `vala.datasets.tickets`."""
        namespace, _, name = text.rpartition(".")
        return cls.of(namespace, name)


VERIFICATION_RESULTS = TableName("vala.verification", "results")
EXECUTION_INPUTS = TableName("vala.verification", "execution_inputs")
DRIFT_OBSERVATIONS = TableName("vala.drift", "observations")
TRACE_SPANS = TableName("vala.traces", "spans")
LOG_RECORDS = TableName("vala.logs", "records")
METRIC_POINTS = TableName("vala.metrics", "points")


def no_such_table(asked: str) -> WyrdError:
    """`WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND`, naming the table as it was asked for."""
    return WyrdError(
        Code.VALA_404_BIFROST_TABLE_NOT_FOUND, f"there is no table {asked[:200]}", table=asked[:200]
    )
