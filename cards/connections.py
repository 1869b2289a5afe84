"""Whether the connections that Operators name are there and fit them: what no file can tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from store.bindings import Binding
from store.cards import StoredCard
from store.connections import Connections
from wyrd.cards import HttpOperator, NotifyOperator, OperatorSpec, decode_spec
from wyrd.cards.operator import HeaderAuth
from wyrd.errors import Code, WyrdError

_MEMBERS = {"failure": "on_failure", "verdict_change": "on_verdict_change"}


def require_connections(
    connections: Connections, card: StoredCard, document: Mapping[str, Any], bound: Sequence[Binding]
) -> None:
    """Check every Operator of a Card that is being stored, its own spec or those of its bindings.

    Raises `WYRD_SPEC_400_OPERATOR_CONNECTION_UNAVAILABLE` for a connection that does not exist, is
    disabled, or is for another provider, way of authentication or origin.
    """
    operators = list(_operators(card, document, bound))
    found = connections.named(name for _, spec in operators for name in spec.connections)
    for place, spec in operators:
        for name in spec.connections:
            connection = found.get(name)
            if connection is None:
                why: str | None = f"there is no operator connection {name!r}"
            elif isinstance(spec, HttpOperator) and spec.auth is not None:
                header = spec.auth.name if isinstance(spec.auth, HeaderAuth) else None
                why = connection.refusal("http", spec.auth.scheme, header, spec.url)
            else:
                assert isinstance(spec, NotifyOperator)
                why = connection.refusal(spec.channel.kind, None, None, None)
            if why is not None:
                raise WyrdError(
                    Code.SPEC_400_OPERATOR_CONNECTION_UNAVAILABLE,
                    f"{card.ref.pinned}: {why}",
                    card=card.ref.pinned,
                    field=place,
                    connection=name,
                )


def _operators(
    card: StoredCard, document: Mapping[str, Any], bound: Sequence[Binding]
) -> Iterator[tuple[str, OperatorSpec]]:
    """Each Operator with the place where the Card names its connection, or names the Operator."""
    if card.kind == "Operator":
        spec = _spec(document)
        yield f"spec.{_member(spec)}", spec
    for binding in bound:
        seen = dict.fromkeys(_MEMBERS, 0)
        for operator in binding.operators:
            place = f"{binding.occurrence}.{_MEMBERS[operator.on]}[{seen[operator.on]}]"
            seen[operator.on] += 1
            spec = _spec(operator.spec)
            yield (f"{place}.{_member(spec)}" if operator.uid is None else place), spec


def _spec(document: Mapping[str, Any]) -> OperatorSpec:
    spec = decode_spec("Operator", document)
    assert isinstance(spec, OperatorSpec)
    return spec


def _member(spec: OperatorSpec) -> str:
    return "auth.connection" if isinstance(spec, HttpOperator) else "channel.connection"
