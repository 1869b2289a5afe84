"""Error codes: the closed list a published client understands, and our catalogue inside it."""

from __future__ import annotations

import ast
import re
from http import HTTPStatus

import pytest

from tests.repository.sources import AROUND, PRODUCT, ROOT, Source, dotted, sources
from wyrd.errors import Code

PUBLISHED = frozenset((ROOT / "tests" / "repository" / "error_codes.txt").read_text(encoding="utf-8").split())

_CODE = re.compile(r"\bWYRD_[A-Z]+_\d{3}_[A-Z0-9_]+\b")


def misnamed(source: Source) -> list[str]:
    """`Code.NAME` of which no such member exists."""
    return [
        f"{source.path}:{node.lineno} {dotted(node)}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute)
        and re.fullmatch(r"[A-Z]+_\d{3}_[A-Z0-9_]+", node.attr)
        and (dotted(node.value) or "").rpartition(".")[2] == "Code"
        and node.attr not in Code.__members__
    ]


def spelt(source: Source) -> set[str]:
    """Whole codes written out in strings."""
    return {
        code
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for code in _CODE.findall(node.value)
    }


def test_our_catalogue_lies_inside_the_published_list() -> None:
    assert {code.value for code in Code} - PUBLISHED == set()


@pytest.mark.parametrize("code", list(Code), ids=lambda code: str(code.name))
def test_a_code_is_named_as_it_is_sent_and_says_what_to_do(code: Code) -> None:
    assert code.value == f"WYRD_{code.name}"
    assert 400 <= int(code.value.split("_")[2]) < 600
    assert code.title
    assert not code.title.endswith(".")
    assert code.remedy.endswith(".")


def test_every_code_that_is_used_exists() -> None:
    everywhere = [source for place in (*PRODUCT, *AROUND) for source in sources(place)]
    assert [name for source in everywhere for name in misnamed(source)] == []


def test_no_code_outside_the_published_list_is_written_anywhere() -> None:
    unknown = {
        f"{source.path}: {code}"
        for place in PRODUCT
        for source in sources(place)
        for code in spelt(source) - PUBLISHED
    }
    assert unknown == set()


def test_a_code_that_does_not_exist_is_seen() -> None:
    used = Source("x.py", "x", ast.parse("raise WyrdError(Code.SPEC_499_INVENTED, 'x')"), 1)
    assert misnamed(used)
    assert spelt(Source("x.py", "x", ast.parse("'WYRD_SPEC_499_INVENTED'"), 1)) - PUBLISHED


def test_the_statuses_of_the_list_are_http_statuses() -> None:
    known = {status.value for status in HTTPStatus} | {499}
    assert {int(code.split("_")[2]) for code in PUBLISHED} <= known
