"""The driver of flows in an event loop, over `httpx.AsyncClient`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx

from wyrd._client.connections import (
    FAILURES,
    LIMITS,
    MOUNTS,
    broken_off,
    chunks,
    reply_of,
    sent_headers,
    unanswered,
)
from wyrd._client.credentials import Credential
from wyrd._client.flow import FileBody, Flow, Offload, Pause, Reply, Send, T, Token
from wyrd._client.saving import PIECE, Save, Saving


async def _async_chunks(body: FileBody) -> AsyncIterator[bytes]:
    pieces = chunks(body)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


class AsyncTransport:
    """Drives flows in the running event loop; belongs to one loop at a time."""

    def __init__(self, server_url: str, credential: Credential) -> None:
        self.server_url = server_url
        self.credential = credential
        self._token_lock = asyncio.Lock()
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            # Connections and locks of a loop that has ended are of no use in the next one.
            self._http = httpx.AsyncClient(mounts=MOUNTS, limits=LIMITS)
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
            return await self.run(self.credential.token(self.server_url, refused))

    async def _send(self, effect: Send) -> Reply:
        content = _async_chunks(effect.body) if isinstance(effect.body, FileBody) else effect.body
        pool = self._client()
        try:
            request = pool.build_request(
                effect.method,
                effect.url,
                headers=sent_headers(effect),
                content=content,
                timeout=effect.timeout,
            )
            response = await pool.send(request, stream=effect.streamed)
            if not effect.streamed:
                return reply_of(response)
            if response.is_success:
                return Reply(response.status_code, dict(response.headers), b"", response)
            try:
                await response.aread()
            finally:
                await response.aclose()
            return reply_of(response)
        except FAILURES as error:
            raise unanswered(effect, error) from None

    async def _save(self, effect: Save) -> str:
        try:
            saving = await asyncio.to_thread(Saving, effect)
            try:
                async for piece in effect.rest.aiter_bytes(PIECE):
                    await asyncio.to_thread(saving.write, piece)
                return await asyncio.to_thread(saving.finish)
            finally:
                saving.close()
        except FAILURES as error:
            raise broken_off(error) from None
        finally:
            await effect.rest.aclose()

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Send):
            return await self._send(effect)
        if isinstance(effect, Pause):
            return await asyncio.sleep(effect.seconds)
        if isinstance(effect, Token):
            return await self.token(effect.refused)
        if isinstance(effect, Save):
            return await self._save(effect)
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
