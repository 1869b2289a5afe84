"""One attempt at a model call: resolve the endpoint, send, and read what really came back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

import httpx

from gateway import library, request, wire
from gateway.calls import ModelCall, ModelReply, NativeBody
from gateway.deployments import Adapter, Endpoint, GatewayConfig, resolve
from gateway.exchange import MAX_BODY_BYTES, Exchange, RecordingClient, current
from gateway.failures import cut_off, garbled, of_status, refused_here, timed_out, too_large, unreachable

MAX_TEXT_BYTES = 1024 * 1024
"""Longest completion handed on, in UTF-8 bytes."""

_PROVIDERS: Mapping[Adapter, str] = {
    Adapter.OPENAI: "openai",
    Adapter.OPENAI_COMPATIBLE: "openai",
    Adapter.ANTHROPIC: "anthropic",
    Adapter.GEMINI: "gemini",
    Adapter.VERTEX: "gemini",
}
"""The name under which the library speaks an adapter's wire."""

_NATIVE_READERS: Mapping[str, wire.Reader] = {
    "chat_completion": wire.chat_completion,
    "responses": wire.responses,
    "messages": wire.anthropic_message,
    "generate_content": wire.generated_content,
}


class Gateway:
    """Calls models for one event loop; many calls may run at once. Close it, or use `async with`.

    `environ` is where credentials are looked up, the process's environment in a server.
    """

    def __init__(self, config: GatewayConfig, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ
        self._http: RecordingClient | None = None
        self._bridge: Any = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection. Calls in flight fail."""
        if self._http is not None:
            await self._http.aclose()

    async def warm(self) -> None:
        """Load the model library in a thread, so that the first call does not pay for it."""
        await asyncio.to_thread(library.load)

    async def complete(self, call: ModelCall) -> ModelReply:
        """Ask the model once.

        Raises `BlockFailure`: NOT_CONFIGURED (no such deployment, model, credential, or a Prompt
        this endpoint cannot take; nothing was sent), PROVIDER_ERROR (retryable or not, with
        `retry_after` in seconds when the provider named a wait), TIMEOUT after
        `call.timeout_seconds`, LIMIT_EXCEEDED for files or answers over the limits. What the
        media loader raises passes through.
        """
        started = time.monotonic()
        endpoint = resolve(
            self._config,
            self._environ,
            deployment=call.deployment,
            provider=call.provider,
            model=call.model,
        )
        exchange = Exchange(anonymous=endpoint.api_key is None)
        token = current.set(exchange)
        try:
            async with asyncio.timeout(call.timeout_seconds):
                if call.native is not None:
                    await self._send_native(call.native, call, endpoint)
                else:
                    await self._send_portable(call, endpoint, exchange)
        except TimeoutError:
            expired = True
        else:
            expired = False
        finally:
            current.reset(token)
        if expired or isinstance(exchange.failed, httpx.TimeoutException):
            raise timed_out(call.timeout_seconds)
        return self._read(call, endpoint, exchange, started)

    async def _send_portable(self, call: ModelCall, endpoint: Endpoint, exchange: Exchange) -> None:
        arguments = await request.portable(call, endpoint)
        litellm = library.loaded() or await asyncio.to_thread(library.load)
        provider = _PROVIDERS[endpoint.adapter]
        name = f"{provider}/{endpoint.model}"
        if endpoint.adapter in (Adapter.OPENAI, Adapter.OPENAI_COMPATIBLE):
            arguments["client"] = self._openai_client(endpoint)
        else:
            library.introduce(litellm, name, provider)
            arguments["client"] = await self._library_client()
            arguments["api_key"] = endpoint.api_key
            arguments["api_base"] = (
                endpoint.base_url.removesuffix("/v1")
                if endpoint.adapter is Adapter.ANTHROPIC
                else endpoint.base_url
            )
        try:
            await litellm.acompletion(
                model=name, timeout=call.timeout_seconds, num_retries=0, max_retries=0, **arguments
            )
        except Exception as error:
            # What happened on the wire is in the exchange; the library's own words may quote secrets.
            problem = type(error).__name__
        else:
            return
        if not exchange.sent:
            raise refused_here(f"the Prompt cannot be put to {endpoint.route.provider} ({problem})")

    async def _send_native(self, native: NativeBody, call: ModelCall, endpoint: Endpoint) -> None:
        url, headers, body = await request.native(native, call.media, endpoint)
        try:
            await self._client().post(url, headers=headers, json=body)
        except httpx.HTTPError:
            return

    def _read(self, call: ModelCall, endpoint: Endpoint, exchange: Exchange, started: float) -> ModelReply:
        host = endpoint.route.host
        if exchange.oversized:
            raise too_large("the provider's answer", MAX_BODY_BYTES + 1, MAX_BODY_BYTES)
        if exchange.status is None:
            raise cut_off(host) if _connected(exchange.failed) else unreachable(host)
        if exchange.body is None:
            raise cut_off(host)
        document = exchange.document()
        if not 200 <= exchange.status < 300:
            raise of_status(exchange.status, exchange.headers, document, datetime.now(UTC))
        if not exchange.is_json():
            raise garbled("something else than JSON")
        if not isinstance(document, dict):
            raise garbled("JSON that cannot be read")
        reader = wire.PORTABLE[endpoint.adapter]
        if call.native is not None:
            reader = _NATIVE_READERS[call.native.format]
        return self._reply(endpoint, reader(document), started)

    def _reply(self, endpoint: Endpoint, said: wire.Completion, started: float) -> ModelReply:
        size = 0 if said.text is None else len(said.text.encode("utf-8", "surrogatepass"))
        if size > MAX_TEXT_BYTES:
            raise too_large("the model's reply", size, MAX_TEXT_BYTES)
        return ModelReply(
            text=said.text,
            finish_reason=said.finish_reason,
            refusal=said.refusal,
            usage=said.usage,
            cost_usd=self._cost(endpoint, said),
            response_id=said.response_id,
            model=said.model or endpoint.model,
            route=endpoint.route,
            duration_ms=round((time.monotonic() - started) * 1000),
        )

    def _cost(self, endpoint: Endpoint, said: wire.Completion) -> float | None:
        given, produced = said.usage.input_tokens, said.usage.output_tokens
        if endpoint.adapter is Adapter.OPENAI_COMPATIBLE or said.model is None:
            return None
        if given is None or produced is None:
            return None
        return library.cost_usd(library.load(), _PROVIDERS[endpoint.adapter], said.model, given, produced)

    def _client(self) -> RecordingClient:
        if self._http is None:
            self._http = RecordingClient()
        return self._http

    def _openai_client(self, endpoint: Endpoint) -> Any:
        import openai

        return openai.AsyncOpenAI(
            api_key=endpoint.api_key or "none",
            base_url=endpoint.base_url,
            http_client=self._client(),
            max_retries=0,
        )

    async def _library_client(self) -> Any:
        if self._bridge is None:
            from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

            bridge = AsyncHTTPHandler()
            own, bridge.client = bridge.client, self._client()
            await own.aclose()
            self._bridge = bridge
        return self._bridge


def _connected(error: httpx.HTTPError | None) -> bool:
    return error is not None and not isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol)
