"""The HTTP side of a call: what was really sent and answered, bounded in size.

Model libraries rename statuses, invent stop reasons and follow redirects. This client keeps the
first-hand record of one call in a context variable, so that failures are classified and replies
read from what the provider did, not from what a library made of it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from wyrd.wire.canonical import JsonRefused, strict_loads

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Longest answer read from a provider, after decompression."""

MAX_REPLY_DEPTH = 128
"""Deepest nesting of a provider's answer; judged values have their own, smaller limit."""


@dataclass(slots=True)
class Exchange:
    """The record of one call. `status` stays None until headers arrive; `body` until it is complete."""

    anonymous: bool = False
    """Send no Authorization: the endpoint takes no credential."""
    sent: bool = False
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    oversized: bool = False
    failed: httpx.HTTPError | None = None

    def is_json(self) -> bool:
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return media_type == "application/json" or media_type.endswith("+json")

    def document(self) -> Any:
        """The parsed body. None when it is not JSON."""
        try:
            return strict_loads(self.body or b"", max_depth=MAX_REPLY_DEPTH)
        except JsonRefused:
            return None


current: ContextVar[Exchange] = ContextVar("current")


class BodyTooLarge(httpx.HTTPError):
    """The answer went over the limit and was dropped."""


class RecordingClient(httpx.AsyncClient):
    """An HTTP client that records into `current`, follows no redirect, and reads bounded bodies.

    A redirect could carry the credential to another host; the proxy settings of the environment
    are honoured.
    """

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=512, max_keepalive_connections=64)
        headers = {"accept-encoding": "identity"}
        # No cookie outlives its answer: calls of different tenants share this client.
        nobody = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        super().__init__(follow_redirects=False, timeout=None, limits=limits, headers=headers, cookies=nobody)

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        exchange = current.get()
        exchange.status, exchange.body, exchange.failed, exchange.headers = None, None, None, {}
        if exchange.anonymous:
            request.headers.pop("authorization", None)
        exchange.sent = True
        try:
            return await self._send(request, exchange, {**options, "follow_redirects": False})
        except httpx.HTTPError as error:
            exchange.failed = error
            raise

    async def _send(
        self, request: httpx.Request, exchange: Exchange, options: dict[str, Any]
    ) -> httpx.Response:
        response = await super().send(request, **{**options, "stream": True})
        try:
            exchange.status = response.status_code
            exchange.headers = {name.lower(): value for name, value in response.headers.items()}
            if exchange.headers.get("content-encoding", "identity").strip().lower() not in (
                "identity",
                "gzip",
            ):
                raise httpx.DecodingError("an encoding nobody asked for", request=request)
            body = bytearray()
            async for piece in response.aiter_bytes(65536):
                body += piece
                if len(body) > MAX_BODY_BYTES:
                    exchange.oversized = True
                    raise BodyTooLarge("the answer is too large")
        finally:
            await response.aclose()
        exchange.body = bytes(body)
        whole = httpx.Response(
            response.status_code,
            headers=[
                (name, value)
                for name, value in response.headers.multi_items()
                if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
            ],
            content=exchange.body,
            request=request,
        )
        whole.elapsed = timedelta(0)
        return whole
