"""What a line is: the one definition, for extraction, prompts, citations and every display.

Lines end at `\\r\\n`, `\\n` or `\\r` and at nothing else: not at form feeds, not at the Unicode
separators that `str.splitlines` knows. A final line end adds no line; an empty text has none.
"""

from __future__ import annotations

import re

_END = re.compile(r"\r\n|\n|\r")


def split_lines(text: str) -> list[str]:
    """The lines of a text, without their ends."""
    lines = _END.split(text)
    if not lines[-1]:
        lines.pop()
    return lines


def count_lines(text: str) -> int:
    """How many lines `split_lines` would give."""
    if not text:
        return 0
    ends = text.count("\n") + text.count("\r") - text.count("\r\n")
    return ends if text[-1] in "\r\n" else ends + 1


def normal_ends(text: str) -> str:
    """The same text with every line end written `\\n`; no other character changes."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
