"""Rendering a Prompt: bound values into provider-neutral messages, or into a native body.

Every placeholder is substituted once. A value is never read again as a template, and it stays
inside the message part that names it, so evidence cannot add a message, a part or a placeholder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from engine.failure import BlockFailure, ReasonKind
from engine.lines import split_lines
from wyrd.cards.placeholders import Placeholder, split_template
from wyrd.cards.prompt import PromptMessage, PromptSpec, TextBlock


@dataclass(frozen=True, slots=True)
class Value:
    """What is bound to a placeholder.

    `extraction_format` names the file format when `data` is a whole extraction output. `is_media`
    says that `data` is what a media slot reads as (`sha256`, `format`, `filename`, …): only the
    caller can vouch for that, because evidence may look the same.
    """

    data: Any
    extraction_format: str | None = None
    is_media: bool = False


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class MediaPart:
    """A pinned file, to be sent as the provider takes it."""

    sha256: str
    format: str
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class BlockPart:
    """An image or document that the Prompt's author wrote down; `source` as authored."""

    kind: Literal["image", "document"]
    source: Mapping[str, Any]


Part: TypeAlias = TextPart | MediaPart | BlockPart


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """One message; there is always at least one part."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]


def render(prompt: PromptSpec, values: Mapping[str, Value]) -> list[RenderedMessage]:
    """The messages of a portable Prompt, the system text first.

    Raises `BlockFailure`: NOT_CONFIGURED for a placeholder without a value, TYPE_MISMATCH for a
    media placeholder whose value is not a file. A native Prompt has no messages.
    """
    messages = []
    if prompt.system is not None:
        messages.append(RenderedMessage("system", _parts(prompt.system, values)))
    for message in prompt.messages or ():
        messages.append(RenderedMessage(message.role, _message_parts(message, values)))
    return messages


def render_body(body: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Any]:
    """A native body with its string leaves rendered; member names stay as authored.

    A leaf that is exactly one media placeholder becomes a `MediaPart`, which the gateway replaces
    by the file's data. Raises `BlockFailure` as `render` does, and NOT_CONFIGURED for a media
    placeholder amid other text.
    """
    return {name: _leaf(item, values) for name, item in body.items()}


def _leaf(item: Any, values: Mapping[str, Value]) -> Any:
    if isinstance(item, Mapping):
        return {name: _leaf(nested, values) for name, nested in item.items()}
    if isinstance(item, list | tuple):
        return [_leaf(nested, values) for nested in item]
    if not isinstance(item, str):
        return item
    parts = _parts(item, values)
    if len(parts) == 1:
        return parts[0].text if isinstance(parts[0], TextPart) else parts[0]
    raise BlockFailure(
        ReasonKind.NOT_CONFIGURED, "a media placeholder in a native body must be a string of its own"
    )


def _message_parts(message: PromptMessage, values: Mapping[str, Value]) -> tuple[Part, ...]:
    if isinstance(message.content, str):
        return _parts(message.content, values)
    parts: list[Part] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            parts.extend(_parts(block.text, values))
        else:
            parts.append(BlockPart(block.type, block.source.model_dump()))
    return tuple(parts) or (TextPart(""),)


def _parts(template: str, values: Mapping[str, Value]) -> tuple[Part, ...]:
    """A template as parts: text around a file is cut at the file, never at a value."""
    parts: list[Part] = []
    text: list[str] = []
    for piece in split_template(template):
        if not isinstance(piece, Placeholder):
            text.append(piece.text)
            continue
        if piece.name not in values:
            raise BlockFailure(
                ReasonKind.NOT_CONFIGURED, f"the Prompt's placeholder {piece.name!r} has no input"
            )
        value = values[piece.name]
        if piece.kind == "text" or value.data is None:
            text.append(text_of(value))
            continue
        if text:
            parts.append(TextPart("".join(text)))
            text = []
        parts.append(_media(piece.name, value))
    if text or not parts:
        parts.append(TextPart("".join(text)))
    return tuple(parts)


def _media(name: str, value: Value) -> MediaPart:
    if not value.is_media:
        raise BlockFailure(
            ReasonKind.TYPE_MISMATCH, f"the Prompt's placeholder ${{media:{name}}} needs a file"
        )
    return MediaPart(value.data["sha256"], value.data["format"], value.data.get("filename"))


def text_of(value: Value) -> str:
    """A value as a text placeholder shows it.

    A string byte for byte; an extraction output as readable text, with the line numbers, pages
    and slides that citations use; anything else compact JSON; an absent optional value `null`.
    """
    if value.extraction_format is not None and isinstance(value.data, Mapping):
        readable = _READABLE.get(value.extraction_format)
        if readable is not None:
            return readable(value.data)
    if isinstance(value.data, str):
        return value.data
    return _compact(value.data)


def _compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _numbered(output: Mapping[str, Any]) -> str:
    lines = split_lines(output["text"])
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, start=1))


def _pages(output: Mapping[str, Any]) -> str:
    return "\n".join(f"[page {page['number']}]\n{page['text']}" for page in output["pages"])


def _slides(output: Mapping[str, Any]) -> str:
    return "\n".join(f"[slide {slide['number']}]\n{_slide(slide)}" for slide in output["slides"])


def _slide(slide: Mapping[str, Any]) -> str:
    lines = [slide["title"]] if slide.get("title") else []
    lines.extend(slide.get("paragraphs") or ())
    for table in slide.get("tables") or ():
        lines.extend("\t".join(cell or "" for cell in row) for row in table["rows"])
    if slide.get("notes"):
        lines.append(f"[notes]\n{slide['notes']}")
    return "\n".join(lines)


def _parsed(output: Mapping[str, Any]) -> str:
    """A JSON file as its own document, so that a pointer into what the judge reads is a citation."""
    return _compact(output["value"])


_READABLE: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "text": _numbered,
    "markdown": _numbered,
    "html": _numbered,
    "pdf": _pages,
    "pptx": _slides,
    "json": _parsed,
}
