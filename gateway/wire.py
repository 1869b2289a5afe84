"""Reading completions off the wire: one reader a provider format.

A reader takes the parsed body of a 2xx answer and returns what it says, word for word. What is
not an answer of that format is a `BlockFailure`; whether the answer is usable is judged later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.calls import Usage
from gateway.deployments import Adapter
from gateway.failures import garbled

SCHEMA_TOOL: Final = "json_tool_call"
"""The tool whose arguments are the reply, where a provider takes a schema only as a tool."""

_ANTHROPIC_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_GOOGLE_STOPS = {"STOP": "stop", "MAX_TOKENS": "length"} | dict.fromkeys(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"), "content_filter"
)
_RESPONSES_STOPS = {"max_output_tokens": "length", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class Completion:
    """What one answer says. Members as in `gateway.calls.ModelReply`."""

    text: str | None
    finish_reason: str | None
    refusal: str | None
    usage: Usage
    response_id: str | None
    model: str | None


Reader = Callable[[Mapping[str, Any]], Completion]


def chat_completion(document: Mapping[str, Any]) -> Completion:
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise garbled("without a choice")
    if len(choices) > 1:
        raise garbled("with several choices where one is due")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise garbled("without a message")
    usage = _object(document.get("usage"))
    return Completion(
        text=_text(message.get("content")),
        finish_reason=_text(choices[0].get("finish_reason")),
        refusal=_text(message.get("refusal")) or None,
        usage=_usage(
            usage.get("prompt_tokens"), usage.get("completion_tokens"), total=usage.get("total_tokens")
        ),
        response_id=_name(document.get("id")),
        model=_name(document.get("model")),
    )


def responses(document: Mapping[str, Any]) -> Completion:
    output = document.get("output")
    if not isinstance(output, list):
        raise garbled("without an output")
    texts: list[str] = []
    refusals: list[str] = []
    for item in output:
        if isinstance(item, dict) and item.get("type") == "message":
            for part in _objects(item.get("content")):
                if part.get("type") == "output_text":
                    texts.append(_text(part.get("text")) or "")
                elif part.get("type") == "refusal":
                    refusals.append(_text(part.get("refusal")) or "no words")
    status = document.get("status")
    reason = _object(document.get("incomplete_details")).get("reason")
    finish = "stop" if status == "completed" else _RESPONSES_STOPS.get(str(reason), _name(status))
    usage = _object(document.get("usage"))
    return Completion(
        text="".join(texts) if texts else None,
        finish_reason=finish,
        refusal=" ".join(refusals) or None,
        usage=_usage(usage.get("input_tokens"), usage.get("output_tokens"), total=usage.get("total_tokens")),
        response_id=_name(document.get("id")),
        model=_name(document.get("model")),
    )


def anthropic_message(document: Mapping[str, Any]) -> Completion:
    if not isinstance(document.get("content"), list):
        raise garbled("without a content")
    texts: list[str] = []
    schema_tool = False
    for block in _objects(document["content"]):
        if block.get("type") == "text":
            texts.append(_text(block.get("text")) or "")
        elif block.get("type") == "tool_use" and block.get("name") == SCHEMA_TOOL:
            schema_tool = True
            texts.append(json.dumps(block.get("input"), ensure_ascii=False, separators=(",", ":")))
    stop = _text(document.get("stop_reason"))
    if stop == "tool_use" and schema_tool:
        finish: str | None = "stop"
    else:
        finish = None if stop is None else _ANTHROPIC_STOPS.get(stop, stop)
    usage = _object(document.get("usage"))
    cached = (usage.get("cache_creation_input_tokens"), usage.get("cache_read_input_tokens"))
    return Completion(
        text="".join(texts) if texts else None,
        finish_reason=finish,
        refusal=None,
        usage=_usage(usage.get("input_tokens"), usage.get("output_tokens"), more_input=cached),
        response_id=_name(document.get("id")),
        model=_name(document.get("model")),
    )


def generated_content(document: Mapping[str, Any]) -> Completion:
    candidates = _objects(document.get("candidates"))
    blocked = _text(_object(document.get("promptFeedback")).get("blockReason"))
    if not candidates and blocked is None:
        raise garbled("without a candidate")
    if len(candidates) > 1:
        raise garbled("with several candidates where one is due")
    texts: list[str] = []
    finish: str | None = "content_filter"
    if candidates:
        for part in _objects(_object(candidates[0].get("content")).get("parts")):
            if not part.get("thought") and isinstance(part.get("text"), str):
                texts.append(part["text"])
        stop = _text(candidates[0].get("finishReason"))
        finish = None if stop is None else _GOOGLE_STOPS.get(stop, stop)
    usage = _object(document.get("usageMetadata"))
    return Completion(
        text="".join(texts) if texts else None,
        finish_reason=finish,
        refusal=None,
        usage=_usage(
            usage.get("promptTokenCount"),
            usage.get("candidatesTokenCount"),
            total=usage.get("totalTokenCount"),
            more_output=(usage.get("thoughtsTokenCount"),),
        ),
        response_id=_name(document.get("responseId")),
        model=_name(document.get("modelVersion")),
    )


PORTABLE: Mapping[Adapter, Reader] = {
    Adapter.OPENAI: chat_completion,
    Adapter.OPENAI_COMPATIBLE: chat_completion,
    Adapter.ANTHROPIC: anthropic_message,
    Adapter.GEMINI: generated_content,
    Adapter.VERTEX: generated_content,
}
"""The format in which an adapter answers a portable Prompt."""


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise garbled(f"with {type(value).__name__} where text is due")


def _name(value: Any) -> str | None:
    return value[:256] if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _usage(
    given: Any,
    produced: Any,
    *,
    total: Any = None,
    more_input: tuple[Any, ...] = (),
    more_output: tuple[Any, ...] = (),
) -> Usage:
    read, written = _count(given), _count(produced)
    if read is not None:
        read += sum(_count(item) or 0 for item in more_input)
    if written is not None:
        written += sum(_count(item) or 0 for item in more_output)
    whole = _count(total)
    if whole is None and read is not None and written is not None:
        whole = read + written
    return Usage(read, written, whole)
