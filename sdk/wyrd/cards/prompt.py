"""The Prompt Card: a portable prompt, or a provider's native request body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, Tag, model_validator

from wyrd.cards.identifiers import U32, U64
from wyrd.cards.placeholders import Placeholder, placeholders
from wyrd.cards.shapes import TAG, Strict, chosen_by, tagged

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class PromptSettings(Strict):
    """Sampling settings; which ones a provider takes is judged with the whole Prompt."""

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: Annotated[int, Field(ge=0, le=U64)] | None = None
    top_k: Annotated[int, Field(ge=0, le=U32)] | None = None
    stop_sequences: list[str] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=U64)] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: ReasoningEffort | None = None


class UrlSource(Strict):
    type: Literal["url"]
    url: str


class Base64Source(Strict):
    type: Literal["base64"]
    media_type: str
    data: str


class FileSource(Strict):
    type: Literal["file"]
    file_id: str


MediaSource: TypeAlias = Annotated[
    Annotated[UrlSource, Tag(TAG + "url")]
    | Annotated[Base64Source, Tag(TAG + "base64")]
    | Annotated[FileSource, Tag(TAG + "file")],
    tagged("type"),
]


class TextBlock(Strict):
    type: Literal["text"]
    text: str


class MediaBlock(Strict):
    type: Literal["image", "document"]
    source: MediaSource


ContentBlock: TypeAlias = Annotated[
    Annotated[TextBlock, Tag(TAG + "text")]
    | Annotated[MediaBlock, Tag(TAG + "image")]
    | Annotated[MediaBlock, Tag(TAG + "document")],
    tagged("type"),
]


def _content_form(value: Any) -> str | None:
    if isinstance(value, str):
        return "text"
    return "blocks" if isinstance(value, list) else None


class PromptMessage(Strict):
    """One message. `content` is text, or a list of blocks."""

    role: Literal["user", "assistant"]
    content: Annotated[
        Annotated[str, Tag(TAG + "text")] | Annotated[list[ContentBlock], Tag(TAG + "blocks")],
        chosen_by("content", _content_form),
    ]

    @property
    def texts(self) -> list[str]:
        """The texts of the message, in order."""
        if isinstance(self.content, str):
            return [self.content]
        return [block.text for block in self.content if isinstance(block, TextBlock)]


NativeFormat = Literal["chat_completion", "responses", "messages", "generate_content", "system_one"]


class PromptSpec(Strict):
    """A Prompt. Portable members (`system`, `messages`, `settings`, `response_format`) stand
    against native ones (`format` with `body`)."""

    provider: str
    model: str
    format: NativeFormat | None = None
    body: dict[str, Any] | None = None
    system: str | None = None
    messages: list[PromptMessage] | None = None
    settings: PromptSettings | None = None
    response_format: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _fits_provider(self) -> PromptSpec:
        from wyrd.cards.prompt_rules import refuse_misfits

        refuse_misfits(self)
        return self

    @property
    def texts(self) -> list[str]:
        """Every text that may hold placeholders: system, messages, and string leaves of a native body."""
        found = [] if self.system is None else [self.system]
        for message in self.messages or ():
            found.extend(message.texts)
        if self.body is not None:
            found.extend(_strings(self.body))
        return found

    @property
    def placeholders(self) -> list[Placeholder]:
        """The distinct placeholders, in order of appearance."""
        return list(dict.fromkeys(part for text in self.texts for part in placeholders(text)))

    @property
    def response_schema(self) -> dict[str, Any] | None:
        """The JSON Schema the reply must fit: `response_format`, or the native body's own."""
        if self.response_format is not None:
            return self.response_format
        return None if self.body is None else _native_schema(self.body)


def _strings(value: Any) -> list[str]:
    found: list[str] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Mapping):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            stack.extend(reversed(item))
    return found


_NATIVE_SCHEMAS: tuple[tuple[str, ...], ...] = (
    ("response_format", "json_schema", "schema"),
    ("text", "format", "schema"),
    ("output_config", "format", "schema"),
    ("output_format", "schema"),
    ("generationConfig", "responseJsonSchema"),
    ("generationConfig", "responseSchema"),
    ("generation_config", "response_json_schema"),
    ("generation_config", "response_schema"),
)


def _native_schema(body: dict[str, Any]) -> dict[str, Any] | None:
    for path in _NATIVE_SCHEMAS:
        value: Any = body
        for member in path:
            value = value.get(member) if isinstance(value, Mapping) else None
        if isinstance(value, dict):
            return value
    return None


PROVIDER = re.compile(r"[a-z][a-z0-9_-]{0,63}")
