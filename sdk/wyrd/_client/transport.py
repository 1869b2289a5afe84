"""The two drivers of flows: one over `httpx.Client`, one over `httpx.AsyncClient`."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx

from wyrd._client.credentials import Credential
from wyrd._client.flow import FileBody, Flow, Offload, Pause, Reply, Send, T, Token, Unanswered
from wyrd.errors import Code, WyrdError

_CHUNK = 1 << 20
# A proxy of the environment never stands between a client and its own machine.
_MOUNTS: dict[str, None] = {"all://localhost": None, "all://127.0.0.1": None, "all://[::1]": None}
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=4.0)
"""Idle connections go before a server's usual 5 s, or a POST that may not be repeated meets a closed one."""


def chunks(body: FileBody) -> Iterator[bytes]:
    """Stream evidence in pieces of 1 MiB, and stop before the last one if it is not what was hashed."""
    if isinstance(body.source, bytes):
        yield body.source
        return
    digest, left = hashlib.sha256(), body.size
    try:
        with body.source.open("rb") as file:
            while left > 0:
                piece = file.read(min(_CHUNK, left))
                if not piece:
                    break
                digest.update(piece)
                left -= len(piece)
                if left == 0 and (digest.hexdigest() != body.sha256 or file.read(1)):
                    break
                yield piece
                if left == 0:
                    return
    except OSError as error:
        raise WyrdError(
            Code.VERIFICATION_400_INPUT_INVALID,
            f"{body.source} cannot be read: {error.strerror}",
            path=str(body.source),
        ) from None
    if body.size:
        raise WyrdError(
            Code.VERIFICATION_400_INPUT_INVALID,
            f"{body.source} changed while it was being uploaded",
            path=str(body.source),
        )


async def _async_chunks(body: FileBody) -> AsyncIterator[bytes]:
    pieces = chunks(body)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def _headers(effect: Send) -> dict[str, str]:
    if isinstance(effect.body, FileBody):
        return {**effect.headers, "content-length": str(effect.body.size)}
    return effect.headers


def _reply(response: httpx.Response) -> Reply:
    return Reply(response.status_code, dict(response.headers), response.content)


def _unanswered(effect: Send, error: Exception) -> Unanswered:
    parts = urlsplit(effect.url)
    where = f"{parts.scheme}://{parts.netloc}"
    if isinstance(error, httpx.TimeoutException):
        return Unanswered(f"{where} did not answer within {effect.timeout:g} s", timed_out=True)
    return Unanswered(f"{where} cannot be reached: {str(error) or type(error).__name__}", timed_out=False)


class Transport:
    """Drives flows in the calling thread. Safe to share between threads and across a fork."""

    def __init__(self, server_url: str, credential: Credential) -> None:
        self.server_url = server_url
        self._credential = credential
        self._token_lock = threading.Lock()
        self._open_lock = threading.Lock()
        self._http: httpx.Client | None = None
        self._pid = 0

    def _client(self) -> httpx.Client:
        with self._open_lock:
            if self._http is None or self._pid != os.getpid():
                self._http = httpx.Client(mounts=_MOUNTS, limits=_LIMITS)
                self._pid = os.getpid()
            return self._http

    def close(self) -> None:
        with self._open_lock:
            if self._http is not None and self._pid == os.getpid():
                self._http.close()
            self._http = None

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    def token(self, refused: str | None = None) -> str:
        with self._token_lock:
            return self.run(self._credential.token(self.server_url, refused))

    def _send(self, effect: Send) -> Reply:
        content = chunks(effect.body) if isinstance(effect.body, FileBody) else effect.body
        try:
            return _reply(
                self._client().request(
                    effect.method,
                    effect.url,
                    headers=_headers(effect),
                    content=content,
                    timeout=effect.timeout,
                )
            )
        except (httpx.TransportError, httpx.InvalidURL, httpx.DecodingError) as error:
            raise _unanswered(effect, error) from None

    def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Send):
            return self._send(effect)
        if isinstance(effect, Pause):
            return time.sleep(effect.seconds)
        if isinstance(effect, Token):
            return self.token(effect.refused)
        assert isinstance(effect, Offload)
        return effect.work()

    def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its value or its error."""
        try:
            effect = next(flow)
            while True:
                try:
                    outcome = self._perform(effect)
                except Exception as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(outcome)
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            flow.close()


class AsyncTransport:
    """Drives flows in the running event loop; belongs to one loop at a time."""

    def __init__(self, server_url: str, credential: Credential) -> None:
        self.server_url = server_url
        self._credential = credential
        self._token_lock = asyncio.Lock()
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            # Connections and locks of a loop that has ended are of no use in the next one.
            self._http = httpx.AsyncClient(mounts=_MOUNTS, limits=_LIMITS)
            self._token_lock = asyncio.Lock()
            self._loop = loop
        return self._http

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None and self._loop is asyncio.get_running_loop():
            await http.aclose()

    async def token(self, refused: str | None = None) -> str:
        self._client()
        async with self._token_lock:
            return await self.run(self._credential.token(self.server_url, refused))

    async def _send(self, effect: Send) -> Reply:
        content = _async_chunks(effect.body) if isinstance(effect.body, FileBody) else effect.body
        try:
            return _reply(
                await self._client().request(
                    effect.method,
                    effect.url,
                    headers=_headers(effect),
                    content=content,
                    timeout=effect.timeout,
                )
            )
        except (httpx.TransportError, httpx.InvalidURL, httpx.DecodingError) as error:
            raise _unanswered(effect, error) from None

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Send):
            return await self._send(effect)
        if isinstance(effect, Pause):
            return await asyncio.sleep(effect.seconds)
        if isinstance(effect, Token):
            return await self.token(effect.refused)
        assert isinstance(effect, Offload)
        return await asyncio.to_thread(effect.work)

    async def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its value or its error."""
        try:
            effect = next(flow)
            while True:
                try:
                    outcome = await self._perform(effect)
                except Exception as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(outcome)
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            with suppress(RuntimeError):
                flow.close()
