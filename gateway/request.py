"""Putting a call on the provider's wire: rendered messages, files, settings, the response schema."""

from __future__ import annotations

import asyncio
import base64
import binascii
import codecs
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from engine.failure import BlockFailure, ReasonKind
from engine.prompts import BlockPart, MediaPart, Part, RenderedMessage, TextPart
from gateway.calls import MediaLoader, ModelCall, NativeBody
from gateway.deployments import Adapter, Endpoint
from gateway.failures import refused_here, too_large

MAX_MEDIA_BYTES = 32 * 1024 * 1024
"""All files of one call together, before base64."""

IMAGE_TYPES: Mapping[str, str] = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
_OPENAI_WIRE = (Adapter.OPENAI, Adapter.OPENAI_COMPATIBLE)
_GOOGLE_WIRE = (Adapter.GEMINI, Adapter.VERTEX)
_UNLISTED_GOOGLE_SETTINGS = frozenset(("seed", "presence_penalty", "frequency_penalty"))
_SETTING_NAMES: Mapping[str, str] = {"stop_sequences": "stop", "max_output_tokens": "max_tokens"}


async def portable(call: ModelCall, endpoint: Endpoint) -> dict[str, Any]:
    """Arguments for the model library: messages, settings and response format, no credential."""
    if endpoint.adapter in _GOOGLE_WIRE:
        _segment(endpoint.model)
    files = _Files(call.media)
    messages = [await _message(message, endpoint.adapter, files) for message in call.messages]
    arguments: dict[str, Any] = {"messages": messages}
    if call.response_schema is not None:
        schema = {"name": "reply", "strict": True, "schema": dict(call.response_schema)}
        arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
    if call.user is not None:
        arguments["user"] = call.user
    settings = {
        _SETTING_NAMES.get(name, name): value for name, value in call.settings.items() if value is not None
    }
    if endpoint.adapter in _OPENAI_WIRE:
        # The library changes roles and refuses settings by its list of known models; what is
        # restated here reaches the provider as authored, and the provider decides what it takes.
        if endpoint.adapter is Adapter.OPENAI and "max_tokens" in settings:
            settings["max_completion_tokens"] = settings.pop("max_tokens")
        return {"messages": deepcopy(messages), "extra_body": {**arguments, **settings}}
    if endpoint.adapter is Adapter.ANTHROPIC and "max_tokens" not in settings:
        raise refused_here("anthropic needs max_output_tokens in the Prompt's settings")
    if endpoint.adapter in _GOOGLE_WIRE:
        # These pass unnamed in the library's list, or are dropped without a word.
        arguments["allowed_openai_params"] = sorted(settings.keys() & _UNLISTED_GOOGLE_SETTINGS)
    return arguments | settings


async def native(
    native: NativeBody, media: MediaLoader, endpoint: Endpoint
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """URL, headers and JSON body of a Prompt in the provider's own format."""
    form, base = native.format, endpoint.base_url
    # OpenAI's formats take a file as a data URL, the others as bare base64.
    bare = endpoint.adapter not in _OPENAI_WIRE
    body = await _filled(dict(native.body), _Files(media), bare)
    if body.get("stream"):
        raise refused_here("the Prompt's body asks for a stream, and a judged reply is read whole")
    if endpoint.adapter in _OPENAI_WIRE and form in ("chat_completion", "responses"):
        path = "/chat/completions" if form == "chat_completion" else "/responses"
        headers = {} if endpoint.api_key is None else {"authorization": f"Bearer {endpoint.api_key}"}
        return base + path, headers, {"model": endpoint.model, **body}
    if endpoint.adapter is Adapter.ANTHROPIC and form == "messages":
        headers = {"x-api-key": endpoint.api_key or "", "anthropic-version": "2023-06-01"}
        return f"{base.removesuffix('/v1')}/v1/messages", headers, {"model": endpoint.model, **body}
    if endpoint.adapter in _GOOGLE_WIRE and form == "generate_content":
        url = f"{base}/models/{_segment(endpoint.model)}:generateContent"
        return url, {"x-goog-api-key": endpoint.api_key or ""}, body
    raise refused_here(f"an endpoint of the kind {endpoint.adapter} does not take the format {form!r}")


async def _filled(item: Any, files: _Files, bare: bool) -> Any:
    if isinstance(item, dict):
        return {name: await _filled(nested, files, bare) for name, nested in item.items()}
    if isinstance(item, list):
        return [await _filled(nested, files, bare) for nested in item]
    if not isinstance(item, MediaPart):
        return item
    data = await files.read(item.sha256)
    if item.format == "text":
        return _decoded(data, item)
    url = await _data_url(_media_type(item), data)
    return url.partition(",")[2] if bare else url


def _segment(model: str) -> str:
    if not all(character.isalnum() or character in "-._" for character in model) or ".." in model:
        raise refused_here(f"{model!r} cannot be a model's name at this provider")
    return model


class _Files:
    """Reads files for one call and keeps count of their bytes."""

    def __init__(self, load: MediaLoader) -> None:
        self._load = load
        self._total = 0

    async def read(self, sha256: str) -> bytes:
        data = await self._load(sha256)
        self._total += len(data)
        if self._total > MAX_MEDIA_BYTES:
            raise too_large("the files of one model call together", self._total, MAX_MEDIA_BYTES)
        return data


async def _message(message: RenderedMessage, adapter: Adapter, files: _Files) -> dict[str, Any]:
    if len(message.parts) == 1 and isinstance(message.parts[0], TextPart):
        return {"role": message.role, "content": message.parts[0].text}
    return {"role": message.role, "content": [await _part(part, adapter, files) for part in message.parts]}


async def _part(part: Part, adapter: Adapter, files: _Files) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, MediaPart):
        return await _media(part, files)
    return _block(part, adapter)


async def _media(part: MediaPart, files: _Files) -> dict[str, Any]:
    data = await files.read(part.sha256)
    if part.format == "text":
        return {"type": "text", "text": _decoded(data, part)}
    url = await _data_url(_media_type(part), data)
    return _document(url, part.filename or "document.pdf") if part.format == "pdf" else _image(url)


def _media_type(part: MediaPart) -> str:
    if part.format in IMAGE_TYPES:
        return IMAGE_TYPES[part.format]
    if part.format == "pdf":
        return "application/pdf"
    raise refused_here(f"no provider takes a file of the format {part.format!r} as it is")


async def _data_url(media_type: str, data: bytes) -> str:
    encoded = await asyncio.to_thread(base64.b64encode, data)
    return f"data:{media_type};base64,{encoded.decode('ascii')}"


def _image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _document(url: str, filename: str) -> dict[str, Any]:
    return {"type": "file", "file": {"file_data": url, "filename": filename}}


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def _decoded(data: bytes, part: MediaPart) -> str:
    """A text file's characters, by extraction's own rule: its mark, else UTF-8, else Windows-1252."""
    marked = next(((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), None)
    tries = [(marked[1], len(marked[0]))] if marked else [("utf-8", 0), ("cp1252", 0)]
    for encoding, start in tries:
        try:
            return data[start:].decode(encoding)
        except UnicodeDecodeError:
            continue
    name = part.filename or part.sha256[:12]
    raise BlockFailure(ReasonKind.EVIDENCE_UNREADABLE, f"the file {name} is not text")


def _block(part: BlockPart, adapter: Adapter) -> dict[str, Any]:
    """An image or document that the Prompt's author wrote down.

    A URL goes only where the provider itself fetches it: this server fetches none.
    """
    kind = part.source.get("type")
    if kind == "base64":
        media_type, data = str(part.source.get("media_type", "")), str(part.source.get("data", ""))
        allowed = set(IMAGE_TYPES.values()) if part.kind == "image" else {"application/pdf"}
        if media_type not in allowed:
            raise refused_here(f"no provider takes an {part.kind} block of the type {media_type!r}")
        try:
            base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise refused_here(f"the data of an {part.kind} block in the Prompt is not base64") from None
        url = f"data:{media_type};base64,{data}"
        return _image(url) if part.kind == "image" else _document(url, "document.pdf")
    if kind == "url" and part.kind == "image":
        url = str(part.source.get("url", ""))
        if adapter in _OPENAI_WIRE or (adapter is Adapter.ANTHROPIC and url.startswith("https://")):
            return _image(url)
    if kind == "file" and part.kind == "document" and adapter is Adapter.OPENAI:
        return {"type": "file", "file": {"file_id": str(part.source.get("file_id", ""))}}
    raise refused_here(f"an endpoint of the kind {adapter} takes no {part.kind} block from a {kind!r} source")
