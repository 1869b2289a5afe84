"""Placeholders in Prompt texts: `{{name}}` and `${name}` for text, `${media:name}` for files.

A template is split once into literal and placeholder parts, so that a renderer substitutes each
value once and never reads a value again as a template.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

_PLACEHOLDER = re.compile(
    r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}|\$\{media:([A-Za-z_][A-Za-z0-9_]*)\}|\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
)


@dataclass(frozen=True, slots=True)
class Literally:
    """Text that stands for itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A place for one input: `kind` is text or media."""

    name: str
    kind: Literal["text", "media"]


Part: TypeAlias = Literally | Placeholder


def split_template(text: str) -> list[Part]:
    """The template's parts in order; joining literals and authored placeholders gives it back."""
    parts: list[Part] = []
    at = 0
    for found in _PLACEHOLDER.finditer(text):
        if found.start() > at:
            parts.append(Literally(text[at : found.start()]))
        braces, media, dollar = found.groups()
        parts.append(Placeholder(media, "media") if media else Placeholder(braces or dollar, "text"))
        at = found.end()
    if at < len(text):
        parts.append(Literally(text[at:]))
    return parts


def placeholders(text: str) -> list[Placeholder]:
    """The template's placeholders in order, repeats included."""
    return [part for part in split_template(text) if isinstance(part, Placeholder)]
