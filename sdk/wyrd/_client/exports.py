"""The stock OTLP/HTTP exporters, speaking to a Wyrd server with a client's token.

Needs the extra `otel`; imported only by what sets telemetry up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from requests.auth import AuthBase

from wyrd._client.servers import is_loopback
from wyrd.errors import WyrdError

E = TypeVar("E")

TokenSource = Callable[[str | None], str]
"""Gives a bearer token; the argument is one that the server has just answered 401 to, or None."""

_HEADER = "x-wyrd-access-token"


class TokenAuth(AuthBase):
    """Asks for the token at every request, and once more when the server refuses it."""

    def __init__(self, token: TokenSource) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        token = self._fresh(None)
        request.headers[_HEADER] = f"Bearer {token}"
        request.register_hook("response", partial(self._renewed, token))
        return request

    def _fresh(self, refused: str | None) -> str:
        try:
            return self._token(refused)
        except WyrdError as error:
            # A failed connection is what the exporter tries again; another refusal it reports.
            kind = requests.ConnectionError if error.status in (500, 503) else requests.RequestException
            raise kind(str(error)) from error

    def _renewed(self, used: str, response: requests.Response, **sending: Any) -> requests.Response:
        if response.status_code != 401 or response.request.headers.get(_HEADER) != f"Bearer {used}":
            return response
        token = self._fresh(used)
        if token == used:
            return response
        # Read to its end, or the connection cannot be used again.
        response.close()
        again = response.request.copy()
        again.headers[_HEADER] = f"Bearer {token}"
        connection: Any = response.connection
        answer: requests.Response = connection.send(again, **sending)
        answer.request = again
        return answer


def exporter(kind: Callable[..., E], signal: str, server_url: str, token: TokenSource) -> E:
    """An OTLP exporter of that class for `{server_url}/v1/{signal}`: protobuf, gzip, own token."""
    session = requests.Session()
    session.auth = TokenAuth(token)
    # A redirect would carry the token to wherever it points.
    session.max_redirects = 0
    # A proxy of the environment never stands between a client and its own machine.
    session.trust_env = not is_loopback(urlsplit(server_url).hostname)
    return kind(endpoint=f"{server_url}/v1/{signal}", session=session, compression=Compression.Gzip)
