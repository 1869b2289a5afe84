"""The registry calls: declare, read, list, delete, and the two turns of a Card's life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from wyrd._client.calls import Call
from wyrd._client.envelope import CardEnvelope
from wyrd._client.flow import Flow
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import CardDeleted, CardPage, CardView
from wyrd.wire.refs import CardRef


def as_ref(ref: CardRef | str) -> CardRef:
    """A reference or its text form `space/Kind/name@version[#uid]` (SPEC_400_VALIDATION otherwise)."""
    try:
        return CardRef.parse(str(ref))
    except ValueError as error:
        raise WyrdError(Code.SPEC_400_VALIDATION, str(error), field="ref") from None


def _by_uid(kind: str, uid: str, tail: str = "") -> str:
    return f"/v1/cards/by-uid/{quote(kind, safe='')}/{quote(uid, safe='')}{tail}"


def _one(method: str, ref: CardRef) -> Call:
    if ref.uid is not None:
        return Call(method, _by_uid(ref.kind, ref.uid))
    query = {"kind": ref.kind, "space": ref.space, "name": ref.name, "version": ref.version}
    return Call(method, "/v1/cards/by-ref", query=query)


def fetch(server_url: str, kind: str, uid: str) -> Flow[CardEnvelope]:
    """One Card by its UID."""
    answer = yield from Call("GET", _by_uid(kind, uid)).model(server_url, CardView)
    return CardEnvelope(answer.card)


def get(server_url: str, ref: CardRef) -> Flow[CardEnvelope]:
    """One exact Card; by its UID where the reference has one."""
    answer = yield from _one("GET", ref).model(server_url, CardView)
    return CardEnvelope(answer.card)


def latest(server_url: str, kind: str, space: str, name: str) -> Flow[CardEnvelope]:
    path = "/".join(quote(part, safe="") for part in (kind, space, name))
    answer = yield from Call("GET", f"/v1/cards/{path}/latest").model(server_url, CardView)
    return CardEnvelope(answer.card)


def listing(server_url: str, filters: Mapping[str, Any]) -> Flow[CardPage]:
    """One page; only the filters that are given are sent."""
    return (yield from Call("GET", "/v1/cards", query=filters).model(server_url, CardPage))


def delete(server_url: str, ref: CardRef) -> Flow[CardDeleted]:
    return (yield from _one("DELETE", ref).model(server_url, CardDeleted))


def turn(server_url: str, ref: CardRef, to: str) -> Flow[CardEnvelope]:
    """`deactivate` or `reactivate` an exact Card, and the Card after that."""
    if ref.uid is None:
        ref = (yield from get(server_url, ref)).card_ref
    assert ref.uid is not None
    answer = yield from Call("POST", _by_uid(ref.kind, ref.uid, f"/{to}")).model(server_url, CardView)
    return CardEnvelope(answer.card)
