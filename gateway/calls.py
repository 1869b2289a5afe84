"""What goes into a model call and what comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.prompts import RenderedMessage

MediaLoader = Callable[[str], Awaitable[bytes]]
"""Reads the pinned bytes of a file by their SHA-256. Its own failures pass through unchanged."""


async def no_media(sha256: str) -> bytes:
    """The loader of a call that has no files."""
    raise LookupError(f"the call names the file {sha256} and brings no loader")


@dataclass(frozen=True, slots=True)
class NativeBody:
    """A request in the provider's own format, sent as authored with the model's name added."""

    format: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One attempt to ask a model.

    `deployment` None is the native route. `settings` are a Prompt's, by their authored names;
    absent ones are left to the provider. `timeout_seconds` covers everything, the first import
    of the model library and the reading of files too. `user` is an opaque tag, such as the
    execution id, that the provider may keep with the call.
    """

    provider: str
    model: str
    timeout_seconds: float
    deployment: str | None = None
    messages: Sequence[RenderedMessage] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    response_schema: Mapping[str, Any] | None = None
    native: NativeBody | None = None
    media: MediaLoader = no_media
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; None where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EffectiveRoute:
    """Where a call went. `host` is the endpoint's host and port, never a path or a credential."""

    kind: str
    provider: str
    host: str
    deployment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A completed HTTP exchange, not yet judged.

    `text` is the completion exactly as the provider wrote it. `finish_reason` is one of stop,
    length, content_filter, refusal, or the provider's own word when it is none of them.
    `cost_usd` is set only when the price of the answering model is known. `model` is the name
    the provider answered with.
    """

    text: str | None
    finish_reason: str | None
    refusal: str | None
    usage: Usage
    cost_usd: float | None
    response_id: str | None
    model: str
    route: EffectiveRoute
    duration_ms: int
