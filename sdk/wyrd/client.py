"""The client: one server, one credential, one pool of connections."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from wyrd._client.credentials import resolve_credential
from wyrd._client.flow import Flow, T
from wyrd._client.servers import resolve_grpc_url, resolve_server_url
from wyrd._client.transport import Transport

if TYPE_CHECKING:
    import httpx


class WyrdClient:
    """A connection to a Wyrd server. Makes no network call when constructed.

    `server_url` falls back to `WYRD_SERVER_URL` and http://localhost:8080; `credential` to
    `WYRD_ACCESS_TOKEN`, `WYRD_API_KEY`, the dev key of `wyrd up`, the saved login. An API key
    (`wyrd_sk_…`) is exchanged for a short token on first use and again with 30 s left.
    Safe to share between threads; `close()` or `with` returns its connections.

    Errors: CLIENT_400_CONFIG_INVALID, CLIENT_401_NO_CREDENTIALS, CLIENT_401_SAVED_LOGIN_UNUSABLE.
    """

    def __init__(
        self,
        server_url: str | None = None,
        credential: str | None = None,
        grpc_url: str | None = None,
    ) -> None:
        self._server_url = resolve_server_url(server_url)
        self._grpc_url = resolve_grpc_url(grpc_url, self._server_url)
        self._transport = Transport(self._server_url, resolve_credential(credential, self._server_url))

    @property
    def server_url(self) -> str:
        """The server's address, without a trailing slash."""
        return self._server_url

    @property
    def grpc_url(self) -> str:
        """The address of the server's gRPC port."""
        return self._grpc_url

    def access_token(self) -> str:
        """A bearer token with at least 30 s of life, exchanged when needed."""
        return self._transport.token()

    @property
    def http_auth(self) -> httpx.Auth:
        """Authentication for another HTTP client that calls this server (the gateway).

        It takes the place of the provider's own key. Requests to another server are refused with
        CLIENT_400_CONFIG_INVALID, so that the token stays with its server.
        """
        from wyrd._client.server_auth import ServerAuth

        return ServerAuth(self)

    def close(self) -> None:
        """Return the connections; a later call opens new ones."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"WyrdClient({self._server_url!r})"

    def _run(self, flow: Flow[T]) -> T:
        return self._transport.run(flow)

    def _blocking(self) -> Callable[[Flow[Any]], Any]:
        """What drives flows in a background thread."""
        return self._transport.run
