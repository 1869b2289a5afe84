"""The fenced blocks of the pages, and how what they print is compared.

A block stands for itself: ```python runs, ```text after it is what it prints, ```console holds
commands after `$ ` and what they print, ```yaml whose first line is `# name.yaml` is a file.
`<!-- not run: why -->` above a fence takes it out, and is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

LANGUAGES = frozenset({"python", "console", "yaml", "text", "json"})
ELISION = "…"
"""Stands for ids, times and digests inside a line; alone on a line, for any number of lines."""

_FENCE = re.compile(r"^```(\S*)\s*$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_FILE = re.compile(r"^# ([\w.-]+(?:/[\w.-]+)*\.(?:ya?ml|md|json))$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `line` is the number of its opening fence, `why_not` why it is not run."""

    page: str
    line: int
    language: str
    text: str
    why_not: str | None = None

    @property
    def file(self) -> str | None:
        """The path that a yaml block says it has."""
        found = _FILE.match(self.text.partition("\n")[0])
        return found.group(1) if found and self.language == "yaml" else None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a console block. `output` is None where the page shows none."""

    text: str
    output: str | None


def blocks(page: Path) -> Iterator[Block]:
    """Every block of a page, in order. Raises ValueError for a fence that is not closed."""
    name = page.relative_to(ROOT).as_posix()
    opened: tuple[int, str, str | None] | None = None
    inside: list[str] = []
    before = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), start=1):
        fence = _FENCE.match(line)
        if opened is None and fence:
            reason = _NOT_RUN.match(before)
            opened, inside = (number, fence.group(1), reason.group(1) if reason else None), []
        elif opened is not None and line == "```":
            yield Block(name, opened[0], opened[1], "\n".join(inside) + "\n", opened[2])
            opened, before = None, ""
        elif opened is not None:
            inside.append(line)
        elif line.strip():
            before = line.strip()
    if opened is not None:
        raise ValueError(f"{name}:{opened[0]}: the fence is not closed")


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block; `> ` goes on with the line before."""
    text = ""
    output: list[str] = []
    for line in block.text.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            if text:
                yield Command(text, "\n".join(output) or None)
            text, output = line[2:], []
        elif line.startswith("> ") and not output:
            text += "\n" + line[2:]
        else:
            output.append(line)
    if not text:
        raise ValueError(f"{block.place}: a console block has a command after '$ '")
    yield Command(text, "\n".join(output) or None)


def tidy(text: str) -> str:
    """Without colours, trailing spaces and empty lines at either end."""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def fits(expected: str, actual: str) -> bool:
    """Whether the output is the shown one, `…` taken as what it stands for."""
    pattern = ""
    for line in tidy(expected).split("\n"):
        if line.strip() == ELISION:
            pattern += r"(?:.*\n)*?"
        else:
            pattern += "[^\n]*?".join(map(re.escape, line.split(ELISION))) + r"\n"
    return re.fullmatch(pattern, tidy(actual) + "\n") is not None
