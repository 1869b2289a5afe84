"""The token for other HTTP clients: it goes to its own server, in the place of a provider's key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator

import httpx

from wyrd._client.servers import origin
from wyrd.client import WyrdClient
from wyrd.errors import Code, WyrdError

_FOREIGN = ("authorization", "x-api-key", "x-goog-api-key")


def authorize(request: httpx.Request, token: str) -> httpx.Request:
    """Put the token in the place of every provider credential."""
    for name in _FOREIGN:
        request.headers.pop(name, None)
    request.headers["x-wyrd-access-token"] = f"Bearer {token}"
    return request


def refuse_elsewhere(request: httpx.Request, server_url: str) -> None:
    if origin(str(request.url)) != origin(server_url):
        raise WyrdError(
            Code.CLIENT_400_CONFIG_INVALID,
            f"the token of {server_url} is not sent to {request.url.host}",
            field="base_url",
        )


class ServerAuth(httpx.Auth):
    """Adds the client's token. Also callable on a request, for clients with their own Auth class."""

    def __init__(self, client: WyrdClient) -> None:
        self._client = client

    def __call__(self, request: httpx.Request) -> httpx.Request:
        refuse_elsewhere(request, self._client.server_url)
        return authorize(request, self._client.access_token())

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        yield self(request)

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        yield await asyncio.to_thread(self, request)
