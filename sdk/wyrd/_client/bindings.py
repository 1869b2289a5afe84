"""Bindings of a server: read, and run by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from wyrd._client.calls import Call
from wyrd._client.flow import Flow

_ROOT = "/v1/verification/bindings"


def listing(server_url: str, filters: Mapping[str, Any]) -> Flow[dict[str, Any]]:
    """One page of bindings; `next_cursor` is there when there are more."""
    found: dict[str, Any] = yield from Call("GET", _ROOT, query=filters).value(server_url)
    return found


def status(server_url: str, binding_id: str) -> Flow[dict[str, Any]]:
    """One binding with its health. VERIFICATION_404_BINDING_NOT_FOUND."""
    found: dict[str, Any] = yield from Call("GET", _path(binding_id)).value(server_url)
    return found


def run_now(server_url: str, binding_id: str) -> Flow[dict[str, Any]]:
    """Judge the last complete window now."""
    found: dict[str, Any] = yield from Call("POST", _path(binding_id, "/run-now")).value(server_url)
    return found


def backfill(server_url: str, binding_id: str, start: str, end: str) -> Flow[dict[str, Any]]:
    """Judge the slots between two RFC 3339 times that were not judged."""
    body = {"from": start, "to": end}
    found: dict[str, Any] = yield from Call("POST", _path(binding_id, "/backfill"), json=body).value(
        server_url
    )
    return found


def _path(binding_id: str, tail: str = "") -> str:
    return f"{_ROOT}/{quote(binding_id, safe='')}{tail}"
