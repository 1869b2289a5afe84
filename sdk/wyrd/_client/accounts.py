"""Whom a client acts as, for work that threads of others do: exporters know no event loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wyrd._client.transport import Transport

if TYPE_CHECKING:
    from wyrd import aio
    from wyrd.client import WyrdClient


@dataclass(frozen=True, slots=True)
class Account:
    """A server and a credential; `token` gives what is sent, from any thread."""

    server_url: str
    _secret: str = field(repr=False)
    _transport: Transport = field(repr=False, compare=False)

    def token(self, refused: str | None = None) -> str:
        """A bearer token; `refused` is one that the server has just answered 401 to."""
        return self._transport.token(refused)


def account_of(client: WyrdClient | aio.WyrdClient) -> Account:
    """A sync client shares its connections; an async one's belong to its loop, so that these are others."""
    transport = client._transport
    if not isinstance(transport, Transport):
        transport = Transport(client.server_url, transport.credential)
    return Account(client.server_url, transport.credential.secret, transport)
