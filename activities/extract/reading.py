"""What the parsing process found in one file, and how it refuses one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from activities.extract import limits
from engine.failure import BlockFailure, ReasonKind


@dataclass(frozen=True, slots=True)
class Reading:
    """One file as read: its output document if asked for, and the places that exist in it.

    `pages` holds (width, height) of each page as displayed, in points; `image` is (width, height)
    in pixels; `output` is the JSON document that a step hands on, with its `format`.
    """

    output: dict[str, Any] | None = None
    lines: int | None = None
    pages: list[tuple[float, float]] | None = None
    slides: int | None = None
    image: tuple[int, int] | None = None


def unreadable(reason: str) -> BlockFailure:
    """The file is encrypted, broken, or not of its declared format."""
    return BlockFailure(ReasonKind.EVIDENCE_UNREADABLE, reason)


def over_limit(reason: str) -> BlockFailure:
    """Reading the file, or carrying what it holds, takes more than the system allows."""
    return BlockFailure(ReasonKind.LIMIT_EXCEEDED, reason)


class OutputBudget:
    """Counts what an output will weigh while it grows.

    A few kilobytes of file can name the same long string a million times, so waiting for the
    finished document would be too late.
    """

    def __init__(self) -> None:
        self._left = limits.OUTPUT_BYTES

    def spend(self, characters: int) -> None:
        """Take `characters` (each at least one byte) off. Raises LIMIT_EXCEEDED when it is used up."""
        self._left -= characters
        if self._left < 0:
            raise output_too_large()


def output_too_large() -> BlockFailure:
    return over_limit(f"the extracted content is over the limit of {limits.OUTPUT_BYTES // limits.MIB} MiB")
