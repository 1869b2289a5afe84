"""Lines, pointers, and which citations name an existing place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.citations import Citation, Places, check_citations
from engine.lines import count_lines, normal_ends, split_lines
from engine.pointers import PointerUnresolved, escape, resolve

LETTER = Places("media", "markdown", lines=3)
PDF = Places("media", "pdf", pages=((612.0, 792.0),))
IMAGE = Places("media", "png", image=(640, 480))
SLIDES = Places("media", "pptx", slides=2, document={"slides": [{}, {}]}, has_document=True)
BOOK = Places("media", "xlsx", document={"sheets": [{"cells": [{"value": 1}]}]}, has_document=True)
DATA = Places.of_value("json", {"a/b": 1, "items": [1, 2], "": {"~": None}, "01": 0})
FILE = Places("media", "json", document={"a": 1}, has_document=True, lines=2)
TRACE = Places.of_value("trace", {"trace_id": "00", "spans": []})
ZIP = Places("media", "zip", document={}, has_document=True, lines=5)
PLACES = {
    "letter": LETTER,
    "paper": PDF,
    "photo": IMAGE,
    "slides": SLIDES,
    "book": BOOK,
    "data": DATA,
    "file": FILE,
    "trace": TRACE,
    "zip": ZIP,
    "turns": Places.of_value("source", [1, None]),
    "empty": Places("media", "text", lines=0),
    "unread": Places("media", "pdf"),
}


def region(page: int = 1, x: float = 0, y: float = 0, width: float = 1, height: float = 1) -> dict[str, Any]:
    return {"region": {"page": page, "x": x, "y": y, "width": width, "height": height}}


def lines(start: int, end: int) -> dict[str, Any]:
    return {"lines": {"start": start, "end": end}}


def is_valid(slot: str, locator: dict[str, Any]) -> bool:
    citation = Citation.model_validate({"slot": slot, "locator": locator})
    valid, invalid = check_citations([citation], PLACES)
    assert len(valid) + len(invalid) == 1
    return bool(valid)


def test_p35_one_function_says_what_a_line_is() -> None:
    text = "l1\u2028l2\nl3\x0cl4\r\nl5\rl6"
    assert split_lines(text) == ["l1\u2028l2", "l3\x0cl4", "l5", "l6"]
    assert split_lines("") == []
    assert split_lines("a\n") == ["a"]
    assert split_lines("\n") == [""]
    assert split_lines("a\n\n") == ["a", ""]
    assert split_lines("\r\r\n\n") == ["", "", ""]


def test_p35_no_line_of_an_empty_file_can_be_cited() -> None:
    assert not is_valid("empty", lines(1, 1))
    assert not is_valid("empty", lines(0, 0))


@given(st.text("ab\r\n\u2028\x0c"))
def test_counting_lines_agrees_with_splitting_and_normal_ends_keep_them(text: str) -> None:
    assert count_lines(text) == len(split_lines(text))
    assert split_lines(normal_ends(text)) == split_lines(text)
    assert normal_ends(text).split("\n")[: count_lines(text)] == split_lines(text)


@pytest.mark.parametrize(
    ("slot", "locator"),
    [
        ("letter", lines(0, 1)),
        ("letter", lines(1, 4)),
        ("letter", lines(3, 2)),
        ("letter", lines(1, 99999999999)),
        ("letter", lines(-1, 1)),
        ("letter", lines(1, 10**400)),
        ("Letter", lines(1, 1)),
        ("read-letter", lines(1, 1)),
        ("letter", {"json_pointer": ""}),
        ("letter", {"page": 1}),
        ("paper", {"page": 0}),
        ("paper", {"page": 2}),
        ("paper", lines(1, 1)),
        ("paper", {"json_pointer": ""}),
        ("paper", region(page=2)),
        ("paper", region(x=-1)),
        ("paper", region(width=0)),
        ("paper", region(x=612)),
        ("paper", region(x=600, width=12.5)),
        ("paper", region(height=792.5)),
        ("photo", region(page=2)),
        ("photo", region(page=0)),
        ("photo", region(width=641)),
        ("photo", {"page": 1}),
        ("slides", {"slide": 3}),
        ("slides", {"slide": 0}),
        ("slides", {"page": 1}),
        ("book", {"json_pointer": "/sheets/1"}),
        ("data", {"json_pointer": "/a"}),
        ("data", {"json_pointer": "a"}),
        ("data", {"json_pointer": "/items/01"}),
        ("data", {"json_pointer": "/items/-"}),
        ("data", {"json_pointer": "/items/2"}),
        ("data", {"json_pointer": "/items/-1"}),
        ("data", {"json_pointer": "/items/1e0"}),
        ("data", {"json_pointer": "/items/\u0661"}),
        ("data", {"json_pointer": "/a~2b"}),
        ("data", {"json_pointer": "/a~"}),
        ("data", {"json_pointer": "/items/" + "9" * 5000}),
        ("data", lines(1, 1)),
        ("zip", {"json_pointer": ""}),
        ("zip", lines(1, 1)),
        ("unread", {"page": 1}),
        ("unread", region()),
    ],
)
def test_p36_a_place_that_does_not_exist_is_an_invalid_citation(slot: str, locator: dict[str, Any]) -> None:
    assert not is_valid(slot, locator)


@pytest.mark.parametrize(
    ("slot", "locator"),
    [
        ("letter", lines(1, 3)),
        ("letter", lines(3, 3)),
        ("paper", {"page": 1}),
        ("paper", region(width=612, height=792)),
        ("photo", region(x=639.5, width=0.5)),
        ("slides", {"slide": 2}),
        ("slides", {"json_pointer": "/slides/1"}),
        ("book", {"json_pointer": "/sheets/0/cells/0/value"}),
        ("data", {"json_pointer": ""}),
        ("data", {"json_pointer": "/a~1b"}),
        ("data", {"json_pointer": "/items/0"}),
        ("data", {"json_pointer": "/01"}),
        ("data", {"json_pointer": "/"}),
        ("data", {"json_pointer": "//~0"}),
        ("file", {"json_pointer": "/a"}),
        ("file", lines(2, 2)),
        ("trace", {"json_pointer": "/spans"}),
        ("turns", {"json_pointer": "/1"}),
    ],
)
def test_p36_a_place_that_exists_is_a_valid_citation(slot: str, locator: dict[str, Any]) -> None:
    assert is_valid(slot, locator)


@pytest.mark.parametrize(
    "locator",
    [
        {"lines": {"start": 1, "end": 1.0}},
        {"lines": {"start": True, "end": 1}},
        {"lines": {"start": 1}},
        {"lines": {"start": 1, "end": 1, "more": 1}},
        {"lines": [1, 2]},
        {"page": "1"},
        {"page": None},
        {"page": 1, "slide": None},
        {"page": 1, "lines": {"start": 1, "end": 1}},
        {"json_pointer": 1},
        {"paragraph": 1},
        {},
        None,
        "page",
        {"region": {"page": 1.0, "x": 0, "y": 0, "width": 1, "height": 1}},
        {"region": {"page": 1, "x": True, "y": 0, "width": 1, "height": 1}},
        {"region": {"page": 1, "x": float("nan"), "y": 0, "width": 1, "height": 1}},
        {"region": {"page": 1, "x": 0, "y": 0, "width": 1}},
    ],
)
def test_p36_a_locator_of_another_shape_is_no_citation_at_all(locator: Any) -> None:
    with pytest.raises(ValidationError):
        Citation.model_validate({"slot": "letter", "locator": locator})


def test_invalid_citations_are_named_without_the_judges_own_words() -> None:
    cited = [
        Citation.model_validate({"slot": slot, "locator": locator})
        for slot, locator in [
            ("hunter2", lines(1, 1)),
            ("data", {"json_pointer": "/hunter2"}),
            ("letter", lines(2, 9)),
        ]
    ]
    valid, invalid = check_citations(cited, PLACES)
    assert not valid
    assert [one.citation for one in invalid] == cited
    assert "hunter2" not in " ".join(one.reason for one in invalid)
    assert invalid[2].reason == "letter lines 2-9: the file has 3 lines"


@pytest.mark.parametrize("places", PLACES.values())
def test_places_survive_the_way_between_processes(places: Places) -> None:
    assert Places.from_dict(json.loads(json.dumps(places.to_dict()))) == places


def test_a_citations_document_is_what_the_judge_wrote() -> None:
    for locator in (lines(1, 2), {"page": 1}, {"json_pointer": "/a"}, {"slide": 1}, region(x=1.5)):
        authored = {"slot": "letter", "locator": locator}
        assert Citation.model_validate(authored).document() == authored


tokens = st.text(st.sampled_from("/~01ab-"), max_size=4)
documents = st.recursive(
    st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tokens, inner, max_size=3),
    max_leaves=12,
)


def _places_in(value: Any, at: str = "") -> list[tuple[str, Any]]:
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    found = [(at, value)]
    for name, child in children:
        found += _places_in(child, f"{at}/{escape(str(name))}")
    return found


@given(documents, st.text(st.sampled_from("/~01ab-"), max_size=6))
def test_pointers_resolve_to_every_place_and_to_nothing_else(document: Any, text: str) -> None:
    existing = _places_in(document)
    for pointer, value in existing:
        assert resolve(document, pointer) is value
    if text not in dict(existing):
        with pytest.raises(PointerUnresolved):
            resolve(document, text)
