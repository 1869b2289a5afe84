"""The project's own source, parsed once: what the tests over the syntax tree walk."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ROOMS = tuple(
    sorted(
        folder.name
        for folder in ROOT.iterdir()
        if (folder / "__init__.py").is_file() and folder.name not in ("tests", "benchmarks", "examples")
    )
)
"""The server rooms: every package at the root of the repository."""

PRODUCT = ("sdk/wyrd", *ROOMS, "worker.py")
"""What the wheel holds."""

AROUND = ("tests", "examples", "benchmarks")


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file. `path` is relative to the repository, `module` the name it is imported by."""

    path: str
    module: str
    tree: ast.Module
    lines: int

    @property
    def room(self) -> str:
        return self.module.partition(".")[0]


@cache
def sources(*places: str) -> tuple[Source, ...]:
    """Every Python file under those folders, Cards' own example code in tests/conformance apart."""
    return tuple(
        read(path)
        for place in places
        for path in sorted((ROOT / place).rglob("*.py") if (ROOT / place).is_dir() else [ROOT / place])
        if not _is_data(path)
    )


def _is_data(path: Path) -> bool:
    """Code inside a conformance case is somebody's Card, not ours."""
    parts = path.relative_to(ROOT).parts
    return parts[:2] == ("tests", "conformance") and len(parts) > 3


@cache
def read(path: Path) -> Source:
    relative = path.relative_to(ROOT)
    parts = relative.with_suffix("").parts
    if parts[0] == "sdk":
        parts = parts[1:]
    if parts[-1] == "__init__":
        parts = parts[:-1]
    text = path.read_text(encoding="utf-8")
    return Source(str(relative), ".".join(parts), ast.parse(text), text.count("\n"))


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` for such an expression, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else None
    return None


def imported(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every absolute import: the statement, and the dotted name of what it brings in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def for_types_only(tree: ast.AST) -> set[ast.AST]:
    """What stands under `if TYPE_CHECKING:`."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and (dotted(node.test) or "").endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }


def bindings(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for: `{"dt": "datetime.datetime"}`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def meant(node: ast.AST, names: dict[str, str]) -> str | None:
    """The dotted name an expression means, its first part followed through the imports."""
    said = dotted(node)
    if said is None:
        return None
    first, dot, rest = said.partition(".")
    return names.get(first, first) + dot + rest


def words(name: str) -> list[str]:
    """`HttpHandlerBase` and `http_handler_base` are both http, handler, base."""
    return [
        word.lower()
        for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+", name.replace("_", " "))
    ]
