"""Names, sizes and words: what lets a reader find the code for a sentence from file names alone."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.repository.sources import AROUND, PRODUCT, ROOMS, ROOT, Source, read, sources, words

SAYS_NOTHING = {
    *("manager", "managers", "helper", "helpers", "util", "utils", "utility", "utilities"),
    *("handler", "handlers", "base", "common", "misc"),
}
"""Names for a place where anything may go."""

LONGEST_MODULE = 500
ERROR_CATALOGUE = "sdk/wyrd/errors.py"
"""A table: one entry a code, nothing to split."""

NEEDS_WORDS_AFTER = 30
"""Lines from which a public class or function says what it is; below, a good name may do."""


def everything() -> Iterator[Source]:
    for place in (*PRODUCT, *AROUND):
        yield from sources(place)


def empty_names(source: Source) -> list[str]:
    """Modules, classes and functions whose name says nothing about what they are."""
    found = [f"{source.path}" for part in source.module.split(".") if SAYS_NOTHING & set(words(part))]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and SAYS_NOTHING & set(words(node.name)):
            found.append(f"{source.path}:{node.lineno} {node.name}")
    return found


def test_no_module_and_no_class_is_named_for_anything_at_all() -> None:
    assert [name for source in everything() for name in empty_names(source)] == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("store.utils", ""),
        ("api.base_routes", ""),
        ("api.x", "class HTTPHandler: ..."),
        ("x", "class RunManager: ..."),
    ],
)
def test_an_empty_name_is_seen(module: str, text: str) -> None:
    assert empty_names(Source("x.py", module, ast.parse(text), 1))


@pytest.mark.parametrize("text", ["class Base64Source: ...", "class Database: ...", "class Basement: ..."])
def test_a_name_that_only_sounds_like_one_is_fine(text: str) -> None:
    assert empty_names(Source("store/database.py", "store.database", ast.parse(text), 1)) == []


def test_no_module_is_long() -> None:
    long = {
        source.path: source.lines
        for source in everything()
        if source.lines > LONGEST_MODULE and source.path != ERROR_CATALOGUE
    }
    assert long == {}


@pytest.mark.parametrize("room", ["sdk/wyrd", *ROOMS])
def test_every_room_says_what_lives_there(room: str) -> None:
    said = ast.get_docstring(read(ROOT / room / "__init__.py").tree) or ""
    assert len(said.split()) >= 10, "three lines: what lives here and what does not"


def test_every_module_of_the_product_says_what_it_is() -> None:
    assert [
        source.path for place in PRODUCT for source in sources(place) if not ast.get_docstring(source.tree)
    ] == []


def test_a_long_public_name_has_its_docstring() -> None:
    silent = [
        f"{source.path}:{node.lineno} {node.name}"
        for place in PRODUCT
        for source in sources(place)
        if "/migrations/versions/" not in source.path
        for node in source.tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and (node.end_lineno or 0) - node.lineno >= NEEDS_WORDS_AFTER
        and not ast.get_docstring(node)
    ]
    assert silent == []


# Written in pieces, so that this file does not find itself.
_MACHINES = re.compile(
    r"(?<![\w.])(?:/wo"
    + r"rk/(?:main|shared|seed)|/ho"
    + r"me/[a-z][\w-]*/|/Us"
    + r"ers/[A-Za-z]|C:\\\\Us"
    + r"ers\\\\)"
)


def tracked() -> list[str]:
    """Files that a clone has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_tracked_file_names_a_folder_of_somebodys_machine() -> None:
    found = []
    for name in tracked():
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        found += [f"{name}: {match.group()}" for match in _MACHINES.finditer(text)]
    assert found == []


def test_no_tracked_file_is_generated_or_secret() -> None:
    unwanted = re.compile(
        r"(^|/)(\.env|\.venv/.*|__pycache__/.*|.*\.pyc|\.wyrd/.*|dist/.*|.*\.egg-info/.*|.*\.pem)$"
    )
    assert [name for name in tracked() if unwanted.search(name)] == []
