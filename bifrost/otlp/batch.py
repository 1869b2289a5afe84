"""The rows of one export, column by column, and the batch they are stored as."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

import pyarrow as pa

from bifrost.otlp.faults import Rejections
from bifrost.otlp.values import attributes, text
from bifrost.scribe.arrow_stream import written_stream

_NAMESPACE = UUID("6b1f2f4e-3d0a-5c0b-9a52-0f3a9f6f7c11")


@dataclass(frozen=True)
class Scoped:
    """What records share: their resource and their instrumentation scope."""

    resource: dict[str, Any]
    resource_text: str
    service_name: str
    scope_name: str
    scope_version: str

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """The values of `SHARED`."""
        return self.scope_name, self.scope_version, self.service_name, self.resource_text


SHARED = ("scope_name", "scope_version", "service_name", "resource_attributes")


def scoped(groups: Iterable[Any], scopes: str) -> Iterable[tuple[Scoped, Any]]:
    """The scope messages of every resource, `scopes` being the field that holds them."""
    for group in groups:
        resource = attributes(group.resource.attributes)
        written = text(resource)
        service = resource.get("service.name")
        name = service if isinstance(service, str) else ""
        for one in getattr(group, scopes):
            yield Scoped(resource, written, name, one.scope.name, one.scope.version), one


@dataclass
class Rows:
    """Rows in the order of `columns`, once for each identity, with what was rejected."""

    columns: Sequence[str]
    rejections: Rejections = field(default_factory=Rejections)
    found: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def add(self, identity: str, row: tuple[Any, ...]) -> None:
        self.found.setdefault(identity, row)

    def add_content(self, row: tuple[Any, ...]) -> None:
        """A row that is known by all it says."""
        self.add(hashlib.sha256(repr(row).encode("utf-8")).hexdigest(), row)

    def card_uids(self) -> set[str]:
        """The Cards that the rows are attributed to."""
        position = self.columns.index("card_uid")
        return {row[position] for row in self.found.values() if row[position] is not None}

    @property
    def batch_id(self) -> str:
        """The same for the same records, in whatever order they come."""
        digest = hashlib.sha256("\n".join(sorted(self.found)).encode("ascii")).hexdigest()
        return str(uuid5(_NAMESPACE, digest))

    def arrow(self, stored: pa.Schema) -> bytes:
        """One Arrow IPC stream of the rows. `stored` has every column of them."""
        schema = pa.schema([stored.field(name) for name in self.columns])
        columns = zip(*self.found.values(), strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return written_stream(pa.RecordBatch.from_arrays(arrays, schema=schema))
