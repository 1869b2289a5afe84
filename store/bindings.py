"""The repository of bindings: which Verifier checks which subject, for which owner, and how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, insert, select, update

from store.caller import Tenant
from store.cards import read_json, stored_json
from store.tables.cards import bindings


@dataclass(frozen=True, slots=True)
class BoundOperator:
    """One reaction of a binding. `on` is `failure` or `verdict_change`.

    An Operator Card has its `uid`; an inline one the `digest` of its spec. The other is None.
    """

    on: str
    uid: str | None
    digest: str | None
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """One `verified_by` entry of one owner version.

    `occurrence` is its place in the owner's spec, `ordinal` its number there, `alias` the
    component it sits under. `runs_on` is the Trigger's spec, from a Card when `trigger_uid` is set.
    """

    binding_id: str
    owner_uid: str
    subject_uid: str
    verifier_uid: str
    occurrence: str
    ordinal: int
    verifier_space: str
    verifier_name: str
    verifier_version: str
    alias: str | None
    runs_on: dict[str, Any] | None
    trigger_uid: str | None
    operators: tuple[BoundOperator, ...]
    active: bool
    created_at: datetime


_COLUMNS = tuple(column for column in bindings.c if column.name != "tenant_id")


class Bindings:
    """Bindings of one tenant over one connection."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant
        self._mine = bindings.c.tenant_id == tenant.id

    def add(self, made: Iterable[Binding]) -> None:
        rows = [
            {
                "tenant_id": self.tenant.id,
                **{column.name: getattr(binding, column.name) for column in _COLUMNS},
                "runs_on": None if binding.runs_on is None else stored_json(binding.runs_on),
                "operators": stored_json(
                    [
                        {"on": one.on, "uid": one.uid, "digest": one.digest, "spec": one.spec}
                        for one in binding.operators
                    ]
                ),
            }
            for binding in made
        ]
        if rows:
            self.connection.execute(insert(bindings), rows)

    def by_id(self, binding_id: str) -> Binding | None:
        found = self.connection.execute(self._select(bindings.c.binding_id == binding_id)).first()
        return None if found is None else _binding(found)

    def of_owner(self, owner_uid: str) -> list[Binding]:
        """Every binding of one owner version, in the order of its spec."""
        return self._all(bindings.c.owner_uid == owner_uid)

    def between(self, verifier_uid: str, subject_uid: str) -> list[Binding]:
        """The active bindings of exactly that Verifier to that subject, whoever owns them."""
        return self._all(
            bindings.c.subject_uid == subject_uid,
            bindings.c.verifier_uid == verifier_uid,
            bindings.c.active.is_(True),
        )

    def page(
        self, after: str | None, limit: int, *, active: bool | None = None, **equal: str | None
    ) -> list[Binding]:
        """Bindings by id (so by age), from just after one. `equal` holds column values, None for any."""
        conditions = [bindings.c[column] == value for column, value in equal.items() if value is not None]
        if active is not None:
            conditions.append(bindings.c.active.is_(active))
        if after is not None:
            conditions.append(bindings.c.binding_id > after)
        statement = self._unordered(*conditions).order_by(bindings.c.binding_id).limit(limit)
        return [_binding(row) for row in self.connection.execute(statement)]

    def set_active(self, owner_uid: str, active: bool) -> None:
        self.connection.execute(
            update(bindings).where(self._mine, bindings.c.owner_uid == owner_uid).values(active=active)
        )

    def _all(self, *conditions: ColumnElement[bool]) -> list[Binding]:
        return [_binding(row) for row in self.connection.execute(self._select(*conditions))]

    def _select(self, *conditions: ColumnElement[bool]) -> Select[Any]:
        return self._unordered(*conditions).order_by(bindings.c.owner_uid, bindings.c.ordinal)

    def _unordered(self, *conditions: ColumnElement[bool]) -> Select[Any]:
        return select(*_COLUMNS).where(self._mine, *conditions)


def _binding(row: Row[Any]) -> Binding:
    values = row._mapping
    fields = {column.name: values[column.name] for column in _COLUMNS}
    fields["runs_on"] = None if row.runs_on is None else read_json(row.runs_on)
    fields["operators"] = tuple(BoundOperator(**one) for one in read_json(row.operators))
    return Binding(**fields)
