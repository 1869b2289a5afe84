"""Which Cards a Card leads to, and what a Card-bound caller may therefore see."""

from __future__ import annotations

from sqlalchemy import Connection

from store.caller import Caller, Tenant
from store.cards import Cards
from wyrd.errors import Code, WyrdError


def graph_of(connection: Connection, tenant: Tenant, card_uid: str) -> frozenset[str]:
    """The Card and every Card reachable from it by reference; empty for a Card the tenant lacks.

    A version's graph never changes, since versions and their references do not.
    """
    return Cards(connection, tenant).reachable([card_uid])


def readable_by(connection: Connection, caller: Caller) -> frozenset[str] | None:
    """The Cards a Card-bound caller may read; None for a caller who may read them all."""
    if caller.card_uid is None:
        return None
    return graph_of(connection, caller.tenant, caller.card_uid)


def require_readable(graph: frozenset[str] | None, uid: str) -> None:
    """Raises `WYRD_PERMISSION_403_DENIED_RBAC` for a Card outside the graph."""
    if graph is not None and uid not in graph:
        raise WyrdError(
            Code.PERMISSION_403_DENIED_RBAC,
            "the Card lies outside the graph of the Card this credential is bound to",
            card_uid=uid,
        )
