"""What a Prompt's provider takes: content, settings, response schema, native body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wyrd.cards.placeholders import placeholders
from wyrd.cards.shapes import faults

if TYPE_CHECKING:
    from wyrd.cards.prompt import PromptSettings, PromptSpec

_FORMATS: dict[str, tuple[str, ...]] = {
    "openai": ("chat_completion", "responses"),
    "anthropic": ("messages",),
    "google": ("generate_content",),
    "vertex": ("generate_content",),
    "jev": ("system_one",),
}

_Found = list[tuple[tuple[str | int, ...], str, str | None, str | None]]


def refuse_misfits(prompt: PromptSpec) -> None:
    """Raise a pydantic custom error with every fault of the Prompt, or return."""
    found: _Found = []
    _identity(prompt, found)
    if prompt.format is not None or prompt.body is not None:
        _native(prompt, found)
    else:
        _portable(prompt, found)
    if found:
        raise faults(found)


def _add(found: _Found, message: str, *at: str | int) -> None:
    found.append((at, message, None, None))


def _identity(prompt: PromptSpec, found: _Found) -> None:
    from wyrd.cards.prompt import PROVIDER

    if prompt.provider == "gemini":
        _add(found, "gemini is not a provider id: write google or vertex", "provider")
    elif PROVIDER.fullmatch(prompt.provider) is None:
        _add(
            found,
            f"{prompt.provider[:80]!r} is not a provider id: lower-case letters, digits, - and _",
            "provider",
        )
    if not prompt.model.strip() or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in prompt.model):
        _add(found, "model must be text that is not blank, without control characters", "model")


def _native(prompt: PromptSpec, found: _Found) -> None:
    if prompt.format is None:
        _add(found, "body needs format beside it", "format")
    if prompt.body is None:
        _add(found, "format needs body beside it", "body")
    elif "model" in prompt.body:
        _add(found, "the body may not name a model: the Prompt's own model is used", "body", "model")
    allowed = _FORMATS.get(prompt.provider)
    if prompt.format is not None and allowed is not None and prompt.format not in allowed:
        _add(found, f"{prompt.provider} takes format {' or '.join(allowed)}", "format")
    if prompt.body is None:
        return
    for member in ("messages", "system", "settings", "response_format"):
        if getattr(prompt, member) is not None:
            _add(found, f"{member} cannot stand beside a native body", member)


def _portable(prompt: PromptSpec, found: _Found) -> None:
    if prompt.provider == "jev":
        _add(found, "jev Prompts are native only: give format system_one and a body", "format")
        return
    _content(prompt, found)
    _settings(prompt, found)
    if prompt.response_format is not None:
        _response_format(prompt.provider, prompt.response_format, found)


def _content(prompt: PromptSpec, found: _Found) -> None:
    if prompt.system is not None and any(part.kind == "media" for part in placeholders(prompt.system)):
        _add(found, "system takes no media placeholder: put it into a message", "system")
    texts = [prompt.system or ""]
    media = False
    for message in prompt.messages or ():
        texts.extend(message.texts)
        media = media or not isinstance(message.content, str)
    if not media and not any(text for text in texts):
        _add(found, "the Prompt has neither a system text nor a message text", "messages")


def _dialect(provider: str) -> str:
    if provider in ("google", "vertex"):
        return "google"
    return "anthropic" if provider == "anthropic" else "chat"


def _settings(prompt: PromptSpec, found: _Found) -> None:
    dialect = _dialect(prompt.provider)
    settings = prompt.settings
    if dialect == "anthropic" and (settings is None or settings.max_output_tokens is None):
        _add(found, "anthropic requires max_output_tokens", "settings", "max_output_tokens")
    if settings is None:
        return
    refused: dict[str, tuple[str, ...]] = {
        "chat": ("top_k",),
        "anthropic": ("seed", "presence_penalty", "frequency_penalty", "reasoning_effort"),
        "google": ("reasoning_effort",),
    }
    for member in refused[dialect]:
        if getattr(settings, member) is not None:
            _add(found, f"{prompt.provider} does not take {member}", "settings", member)
    if dialect == "chat":
        _chat_limits(settings, found)


def _chat_limits(settings: PromptSettings, found: _Found) -> None:
    for member, low, high in (
        ("temperature", 0, 2),
        ("top_p", 0, 1),
        ("presence_penalty", -2, 2),
        ("frequency_penalty", -2, 2),
    ):
        value: Any = getattr(settings, member)
        if value is not None and not low <= value <= high:
            _add(found, f"{member} must lie from {low} to {high}", "settings", member)
    if settings.max_output_tokens == 0:
        _add(found, "max_output_tokens must be at least 1", "settings", "max_output_tokens")
    if settings.stop_sequences is not None and not 1 <= len(settings.stop_sequences) <= 4:
        _add(found, "stop_sequences holds 1 to 4 texts", "settings", "stop_sequences")


def _response_format(provider: str, schema: dict[str, Any], found: _Found) -> None:
    from wyrd.cards.schema_check import schema_faults

    for path, message in schema_faults(schema, dialects=False):
        _add(found, message, "response_format", *path)
    if _dialect(provider) == "chat" and schema.get("type") != "object":
        _add(
            found, f"{provider} needs type: object at the root of response_format", "response_format", "type"
        )
