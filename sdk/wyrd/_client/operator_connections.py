"""Operator connections: made, listed, changed, disabled by a tenant's administrators."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from wyrd._client.calls import Call
from wyrd._client.flow import Flow
from wyrd.errors import Code, WyrdError
from wyrd.wire.connections import ConnectionList, ConnectionView

_PATH = "/v1/operator-connections"


def _one(connection_id: str) -> str:
    return f"{_PATH}/{quote(connection_id, safe='')}"


def create(server_url: str, body: dict[str, Any]) -> Flow[ConnectionView]:
    """A new connection. `body` is one of the create bodies of `wyrd.wire.connections`."""
    return (yield from Call("POST", _PATH, json=body).model(server_url, ConnectionView))


def every(server_url: str) -> Flow[list[ConnectionView]]:
    """All of the tenant's, disabled ones too."""
    found = yield from Call("GET", _PATH).model(server_url, ConnectionList)
    return found.root


def find(server_url: str, named: str) -> Flow[ConnectionView]:
    """One connection by its id or its name. Raises `WYRD_OPERATOR_404_CONNECTION_NOT_FOUND`."""
    for one in (yield from every(server_url)):
        if named in (one.connection_id, one.name):
            return one
    raise WyrdError(
        Code.OPERATOR_404_CONNECTION_NOT_FOUND, f"no operator connection {named[:64]!r}", field="CONNECTION"
    )


def update(server_url: str, connection_id: str, body: dict[str, Any]) -> Flow[ConnectionView]:
    """Change what the body names beside its provider."""
    return (yield from Call("PATCH", _one(connection_id), json=body).model(server_url, ConnectionView))


def disable(server_url: str, connection_id: str) -> Flow[ConnectionView]:
    return (yield from Call("DELETE", _one(connection_id)).model(server_url, ConnectionView))
