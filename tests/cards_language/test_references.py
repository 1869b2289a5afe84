"""The reference grammar, by example and by property."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wyrd.cards import WILDCARD, Reference
from wyrd.cards.references import ReferenceMalformed, Wildcard

slots = st.from_regex(re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,20}", re.ASCII), fullmatch=True)
blocks = st.from_regex(re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,20}", re.ASCII), fullmatch=True)
fields = st.from_regex(re.compile(r"[A-Za-z0-9_-]{1,12}", re.ASCII), fullmatch=True)
selectors = st.lists(st.one_of(fields, st.integers(0, 2**64 - 1), st.just(WILDCARD)), max_size=6)


def written(parts: list[str | int | Wildcard]) -> str:
    return "".join(
        f".{part}" if isinstance(part, str) else "[*]" if part is WILDCARD else f"[{part}]" for part in parts
    )


@given(slots, selectors)
def test_an_input_reference_reads_back_its_parts(slot: str, parts: list[str | int | Wildcard]) -> None:
    found = Reference.parse(f"inputs.{slot}{written(parts)}")
    assert (found.root, found.name, found.facet, found.selectors) == ("inputs", slot, None, tuple(parts))
    assert found.has_wildcard is (WILDCARD in parts)
    assert found.is_whole_slot is (not parts)
    assert str(found) == found.text


@given(blocks, selectors)
def test_a_step_output_reads_back_its_parts(step: str, parts: list[str | int | Wildcard]) -> None:
    found = Reference.parse(f"steps.{step}.output{written(parts)}")
    assert (found.root, found.name, found.facet, found.selectors) == ("steps", step, "output", tuple(parts))


@given(blocks, blocks, st.sampled_from(["outcome", "reason"]))
def test_a_step_requirement_reads_back_its_parts(step: str, requirement: str, facet: str) -> None:
    found = Reference.parse(f"steps.{step}.requirements.{requirement}.{facet}")
    assert (found.name, found.requirement, found.facet, found.selectors) == (step, requirement, facet, ())


@given(st.text(max_size=60))
def test_any_text_is_either_refused_or_given_back_unchanged(text: str) -> None:
    try:
        found = Reference.parse(text)
    except ReferenceMalformed:
        return
    assert found.text == text
    assert Reference.parse(found.text) == found
    assert hash(Reference.parse(found.text)) == hash(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "inputs",
        "inputs.",
        ".inputs.a",
        "$.inputs.a",
        " inputs.a",
        "inputs.a ",
        "inputs.a\n",
        "Inputs.a",
        "inputs.a-b",
        "inputs.a..b",
        "inputs.a[",
        "inputs.a[]",
        "inputs.a[-1]",
        "inputs.a[1:2]",
        "inputs.a['b']",
        "inputs.a[18446744073709551616]",
        "inputs.a[٣]",
        "steps.s",
        "steps.s.status.x",
        "steps.s.requirements.r",
        "steps.s.requirements.r.outcome.x",
        "steps.s.error",
        "requirement",
        "requirement.text",
        "requirement.id.x",
        "requirements.r.outcome",
        "inputs." + "a" * 5000,
    ],
)
def test_what_is_not_a_reference_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ReferenceMalformed) as refused:
        Reference.parse(text)
    assert len(str(refused.value)) < 400


def test_leading_zeros_of_an_index_are_only_spelling() -> None:
    assert Reference.parse("inputs.a[007]").selectors == (7,)
