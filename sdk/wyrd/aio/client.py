"""The async client: one server, one credential, one pool of connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Self

import httpx

from wyrd._client.async_transport import AsyncTransport
from wyrd._client.credentials import resolve_credential
from wyrd._client.flow import Flow, T
from wyrd._client.server_auth import authorize, refuse_elsewhere
from wyrd._client.servers import resolve_grpc_url, resolve_server_url
from wyrd._client.transport import Transport
from wyrd.client import WyrdClient as SyncClient


class WyrdClient:
    """As `wyrd.WyrdClient`, for one event loop; `close()` or `async with` returns its connections."""

    def __init__(
        self,
        server_url: str | None = None,
        credential: str | None = None,
        grpc_url: str | None = None,
    ) -> None:
        self._server_url = resolve_server_url(server_url)
        self._grpc_url = resolve_grpc_url(grpc_url, self._server_url)
        self._transport = AsyncTransport(self._server_url, resolve_credential(credential, self._server_url))

    @property
    def server_url(self) -> str:
        """The server's address, without a trailing slash."""
        return self._server_url

    @property
    def grpc_url(self) -> str:
        """The address of the server's gRPC port."""
        return self._grpc_url

    async def access_token(self) -> str:
        """A bearer token with at least 30 s of life, exchanged when needed."""
        return await self._transport.token()

    @property
    def http_auth(self) -> httpx.Auth:
        """Authentication for an `httpx.AsyncClient` that calls this server (the gateway)."""
        return ServerAuth(self)

    async def close(self) -> None:
        """Return the connections; a later call opens new ones."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"aio.WyrdClient({self._server_url!r})"

    async def _run(self, flow: Flow[T]) -> T:
        return await self._transport.run(flow)

    def _blocking(self) -> Callable[[Flow[Any]], Any]:
        """What drives flows in a background thread: no event loop has to live for it."""
        return Transport(self._server_url, self._transport.credential).run

    @classmethod
    def _beside(cls, client: SyncClient) -> Self:
        """The async twin of a client, with its credential and its token."""
        found = cls.__new__(cls)
        found._server_url = client.server_url
        found._grpc_url = client.grpc_url
        found._transport = AsyncTransport(client.server_url, client._transport.credential)
        return found


class ServerAuth(httpx.Auth):
    """Adds the client's token to requests of an async HTTP client."""

    def __init__(self, client: WyrdClient) -> None:
        self._client = client

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        refuse_elsewhere(request, self._client.server_url)
        yield authorize(request, await self._client.access_token())
