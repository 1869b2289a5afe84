"""Which Cards a caller may record about, and whose rows it may read.

A caller bound to a Card records about that Card and the observation targets its graph leads to;
an unbound one about any observation target of its tenant. Rows without a Card are nobody's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection

from store.caller import Caller, Tenant
from store.cards import Cards
from store.database import Database
from wyrd.errors import Code, WyrdError
from wyrd.wire.names import KINDS

OBSERVED: Final = frozenset(KINDS) - {"Verifier", "Operator", "Trigger", "Policy", "Audit"}
"""Kinds of Cards that observations are about: not what judges or governs them."""

_TRUSTED_SECONDS = 1.0
"""A version's graph never changes, but any Card of it may be deleted: looked up anew after this."""
_MOST_KNOWN = 20_000


@dataclass(frozen=True, slots=True)
class _Graph:
    readable: frozenset[str]
    recorded: frozenset[str]
    read_at: float


@dataclass(slots=True)
class _Known:
    """What one process has read of the Cards of one database."""

    graphs: dict[tuple[str, str], _Graph] = field(default_factory=dict)
    targets: dict[tuple[str, str], float] = field(default_factory=dict)


_KNOWN: WeakKeyDictionary[Database, _Known] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Scope:
    """`readable`: a Card-bound caller reads rows whose `card_uid` is null or in it; None: all rows."""

    readable: frozenset[str] | None
    _recorded: frozenset[str] | None
    _database: Database
    _tenant: Tenant

    async def check(self, card_uids: Iterable[str | None]) -> None:
        """Raises `WYRD_VALA_403_BIFROST_CARD_SCOPE` unless the caller may record about all of them.

        An unknown Card, another tenant's and a deleted one are refused alike.
        """
        wanted = {uid for uid in card_uids if uid is not None}
        if not wanted:
            return
        if self._recorded is not None:
            if not wanted <= self._recorded:
                raise _out_of_scope()
            return
        known = _known(self._database).targets
        fresh = time.monotonic() - _TRUSTED_SECONDS
        unknown = {uid for uid in wanted if known.get((self._tenant.id, uid), 0.0) < fresh}
        if not unknown:
            return
        kinds = await self._database.read(_kinds, self._tenant, unknown)
        if len(known) > _MOST_KNOWN:
            known.clear()
        now = time.monotonic()
        known.update({(self._tenant.id, uid): now for uid, kind in kinds.items() if kind in OBSERVED})
        if not all(kinds.get(uid) in OBSERVED for uid in unknown):
            raise _out_of_scope()


async def card_scope(database: Database, caller: Caller) -> Scope:
    """The scope of a caller; a query once a second for one who is bound to a Card."""
    if caller.card_uid is None:
        return Scope(None, None, database, caller.tenant)
    graphs = _known(database).graphs
    key = caller.tenant.id, caller.card_uid
    graph = graphs.get(key)
    if graph is None or graph.read_at < time.monotonic() - _TRUSTED_SECONDS:
        if len(graphs) > _MOST_KNOWN:
            graphs.clear()
        graph = graphs[key] = await database.read(_graph, caller.tenant, caller.card_uid)
    return Scope(graph.readable, graph.recorded, database, caller.tenant)


def _known(database: Database) -> _Known:
    return _KNOWN.setdefault(database, _Known())


def _kinds(connection: Connection, tenant: Tenant, uids: Iterable[str]) -> dict[str, str]:
    return dict(Cards(connection, tenant).kinds_of(uids))


def _graph(connection: Connection, tenant: Tenant, card_uid: str) -> _Graph:
    cards = Cards(connection, tenant)
    reachable = cards.reachable([card_uid])
    kinds = cards.kinds_of(reachable)
    recorded = {uid for uid, kind in kinds.items() if kind in OBSERVED or uid == card_uid}
    return _Graph(reachable, frozenset(recorded), time.monotonic())


def _out_of_scope() -> WyrdError:
    return WyrdError(
        Code.VALA_403_BIFROST_CARD_SCOPE,
        "an observation names a Card that this credential may not record about; none of it is stored",
    )
