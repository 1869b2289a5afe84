"""Promises about the engine's own source: who may say passed, and what workflows may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("engine", "cards", "workflows", "gateway", "activities", "store", "bifrost", "api")
SOURCES = sorted(
    [path for room in ROOMS for path in (ROOT / room).rglob("*.py")] + list(ROOT.glob("worker.py"))
)

SAYS_VERDICT_PASSED = {"engine/decide.py"}
SAYS_OUTCOME_PASSED = {
    "engine/operators/rule.py",
    "engine/assertion.py",
    "engine/verdict.py",
    "engine/drift/report.py",
}
"""Where checks are judged: operators, assertions over them, a judge's or a code check's reply, drift."""


def _names_passed(tree: ast.AST, enum: str) -> Iterator[int]:
    """Lines that name `<enum>.PASSED` or take the member by its name or value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "PASSED":
            if _last(node.value) == enum:
                yield node.lineno
        elif isinstance(node, ast.Subscript) and _last(node.value) == enum:
            if isinstance(node.slice, ast.Constant) and node.slice.value == "PASSED":
                yield node.lineno
        elif isinstance(node, ast.Call) and _last(node.func) == enum:
            if any(isinstance(word, ast.Constant) and word.value == "passed" for word in node.args):
                yield node.lineno
        elif isinstance(node, ast.Call) and _last(node.func) == "getattr" and len(node.args) > 1:
            word = node.args[1]
            if _last(node.args[0]) == enum and isinstance(word, ast.Constant) and word.value == "PASSED":
                yield node.lineno


def _last(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _renames(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "engine.outcomes":
            yield from (node.lineno for name in node.names if name.asname or name.name == "*")


@pytest.mark.parametrize(
    ("enum", "allowed"), [("Verdict", SAYS_VERDICT_PASSED), ("Outcome", SAYS_OUTCOME_PASSED)]
)
def test_passed_is_named_only_where_it_is_judged(enum: str, allowed: set[str]) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        if str(path.relative_to(ROOT)) not in allowed
        for line in _names_passed(ast.parse(path.read_text(encoding="utf-8")), enum)
    }
    assert found == set()


def test_the_outcome_enums_are_imported_under_their_own_names() -> None:
    assert not [path for path in SOURCES if list(_renames(ast.parse(path.read_text(encoding="utf-8"))))]


@pytest.mark.parametrize(
    "source",
    [
        "Verdict.PASSED",
        "outcomes.Verdict.PASSED",
        "Verdict['PASSED']",
        "Verdict('passed')",
        "getattr(Verdict, 'PASSED')",
    ],
)
def test_every_way_to_say_passed_is_seen(source: str) -> None:
    assert list(_names_passed(ast.parse(source), "Verdict"))
    assert not list(_names_passed(ast.parse(source), "Outcome"))


PURE = ["engine", "engine.outcomes", "engine.decide", "engine.failure", "engine.retries", "engine.lines"]
CARRIED = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}


@pytest.mark.parametrize("module", PURE)
def test_what_workflows_import_brings_no_third_party_module_but_pydantic(module: str) -> None:
    code = (
        "import sys; before = set(sys.modules); "
        f"import {module}; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    environment = {"PYTHONPATH": f"{ROOT / 'sdk'}:{ROOT}", "PATH": ""}
    brought = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=ROOT
    ).stdout.split()
    assert set(brought) - CARRIED - {"engine", "wyrd"} <= sys.stdlib_module_names
