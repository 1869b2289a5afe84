"""API keys: made for a Card's principal, listed, revoked."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from wyrd._client.calls import Call
from wyrd._client.flow import Flow
from wyrd.wire.auth import CredentialList, CredentialView, IssuedKeyAnswer, PrincipalList, PrincipalView
from wyrd.wire.refs import CardRef


def _credentials(principal_id: str) -> str:
    return f"/v1/principals/{quote(principal_id, safe='')}/credentials"


def issue(server_url: str, ref: CardRef, label: str | None, seconds: int | None) -> Flow[IssuedKeyAnswer]:
    """A key for the process that runs a declared Service or Agent; shown this once."""
    body: dict[str, Any] = {"card_ref": ref.document()}
    if label is not None:
        body["label"] = label
    if seconds is not None:
        body["expires_in_seconds"] = seconds
    return (yield from Call("POST", "/auth/issue-key", json=body).model(server_url, IssuedKeyAnswer))


def principals(server_url: str) -> Flow[list[PrincipalView]]:
    """Every principal of the tenant."""
    found: list[PrincipalView] = []
    after: str | None = None
    while True:
        page = yield from Call("GET", "/v1/principals", query={"after": after}).model(
            server_url, PrincipalList
        )
        found += page.principals
        if page.next is None or page.next == after:
            return found
        after = page.next


def of_principal(server_url: str, principal_id: str) -> Flow[list[CredentialView]]:
    answer = yield from Call("GET", _credentials(principal_id)).model(server_url, CredentialList)
    return answer.credentials


def revoke(server_url: str, principal_id: str, key_id: str) -> Flow[None]:
    yield from Call("DELETE", f"{_credentials(principal_id)}/{quote(key_id, safe='')}").run(server_url)
