"""Patterns, media formats, placeholders, names: the small grammars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wyrd.cards import CardRef, compile_pattern
from wyrd.cards.identifiers import duration_seconds, is_exact_version, is_version
from wyrd.cards.media import EXTRACTABLE, FORMATS, PROVIDER_NATIVE, canonical_format, format_of_name
from wyrd.cards.placeholders import Literally, Placeholder, placeholders, split_template
from wyrd.cards.regex import MAX_PATTERN_BYTES, PatternRefused


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(.*a){20}$"])
def test_p47_a_search_is_linear_in_the_text(pattern: str) -> None:
    # A backtracking engine would not end on this within the age of the universe.
    assert compile_pattern(pattern).search("a" * 100_000 + "X") is False


def test_p47_a_search_is_unanchored_and_reads_unicode_classes() -> None:
    assert compile_pattern("b").search("abc")
    assert compile_pattern(r"\p{Greek}").search("the letter λ")
    assert not compile_pattern(r"^b").search("abc")


def test_a_pattern_is_compiled_once() -> None:
    assert compile_pattern("x+y") is compile_pattern("x+y")


def test_the_limit_of_a_pattern_counts_bytes() -> None:
    compile_pattern("é" * (MAX_PATTERN_BYTES // 2))
    with pytest.raises(PatternRefused, match="4098 bytes"):
        compile_pattern("é" * (MAX_PATTERN_BYTES // 2 + 1))
    with pytest.raises(PatternRefused, match="10 MiB"):
        compile_pattern(r"\d{1,900000}")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{{a}}", [("a", "text")]),
        ("${a}", [("a", "text")]),
        ("${media:a}", [("a", "media")]),
        ("{{ a }}", []),
        ("{a}", []),
        ("{{a-b}}", []),
        ("{{a.b}}", []),
        ("{{{a}}}", [("a", "text")]),
        ("$${a}", [("a", "text")]),
        ("{{a}}{{b}}{{a}}", [("a", "text"), ("b", "text"), ("a", "text")]),
        ("${media: a}", []),
        ("{{1a}}", []),
        ("{{é}}", []),
    ],
)
def test_placeholders_are_these_and_no_others(text: str, found: list[tuple[str, str]]) -> None:
    assert [(one.name, one.kind) for one in placeholders(text)] == found


@given(
    st.lists(st.sampled_from(["{{a}}", "${b}", "${media:c}", "{", "}", "$", "text ", "{{ x }}"]), max_size=12)
)
def test_a_template_is_its_parts(parts: list[str]) -> None:
    text = "".join(parts)
    rebuilt = ""
    spelling = {("a", "text"): "{{a}}", ("b", "text"): "${b}", ("c", "media"): "${media:c}"}
    for part in split_template(text):
        rebuilt += part.text if isinstance(part, Literally) else spelling[part.name, part.kind]
    assert rebuilt == text


def test_a_value_that_looks_like_a_placeholder_is_not_read_again() -> None:
    parts = split_template("Claim: {{claim}}.")
    values = {"claim": "{{claim}} ${media:x}"}
    rendered = "".join(p.text if isinstance(p, Literally) else values[p.name] for p in parts)
    assert rendered == "Claim: {{claim}} ${media:x}."
    assert Placeholder("claim", "text") in parts


def test_formats_have_one_canonical_word() -> None:
    assert canonical_format("JPG") == canonical_format("image/jpeg") == "jpeg"
    assert canonical_format("tar.gz") == "tar_gz"
    assert canonical_format("image/jpg") is None
    assert canonical_format(".pdf") is None
    assert all(canonical_format(name) == name for name in FORMATS)
    assert set(FORMATS) >= EXTRACTABLE | PROVIDER_NATIVE
    assert format_of_name("Letter.MD") == "markdown"
    assert format_of_name("a.tar.gz") == "tar_gz"
    assert format_of_name("README") is None


@pytest.mark.parametrize("text", ["1.0.0", "0.0.0-rc.1+b.7", "18446744073709551615.0.0"])
def test_exact_versions(text: str) -> None:
    assert is_exact_version(text)


@pytest.mark.parametrize(
    "text", ["1", "1.2", "01.0.0", "1.0.0.0", "v1.0.0", "18446744073709551616.0.0", "1.0.0-01"]
)
def test_versions_that_are_not_exact(text: str) -> None:
    assert not is_exact_version(text)
    assert is_version(text) is (text in ("1", "1.2"))


@given(st.integers(1, 400), st.sampled_from("smhd"))
def test_durations_are_whole_units_of_at_most_a_year(number: int, unit: str) -> None:
    seconds = number * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]
    assert duration_seconds(f"{number}{unit}") == (seconds if seconds <= 31536000 else None)


def test_a_card_reference_reads_back_its_text() -> None:
    text = "support/Verifier/follows-policy@1.0.0#01890a5d-ac96-774b-bcce-b302099a8057"
    found = CardRef.parse(text)
    assert str(found) == text
    assert str(found.pinned) == text.partition("#")[0]
    assert CardRef.parse("default/Agent/abc@1.0.0-rc.1+x").uid is None


@pytest.mark.parametrize(
    "text", ["", "a/b", "default/agent/abc@1.0.0", "default/Agent/abc@1", "default/Agent/abc@1.0.0#x"]
)
def test_what_is_not_a_card_reference_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a reference"):
        CardRef.parse(text)
