"""Patterns: the Rust regex engine inside pydantic_core, linear in the length of the text.

No look-around and no back-references exist in it. Patterns over 4,096 UTF-8 bytes and patterns
whose compiled program is over 10 MiB are refused when the Card is declared.
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

MAX_PATTERN_BYTES = 4096


class PatternRefused(ValueError):
    """The pattern cannot be used. The message says why."""


class Pattern:
    """A compiled pattern; `search` is an unanchored search over one text."""

    __slots__ = ("_validator", "text")

    def __init__(self, text: str, validator: SchemaValidator) -> None:
        self.text = text
        self._validator = validator

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text. Lone surrogates never match."""
        return self._validator.isinstance_python(text)


def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern, or fetch it from the cache. Raises `PatternRefused`, a ValueError."""
    try:
        size = len(pattern.encode("utf-8"))
    except UnicodeEncodeError:
        raise PatternRefused("the pattern holds half of a surrogate pair") from None
    if size > MAX_PATTERN_BYTES:
        raise PatternRefused(f"the pattern has {size} bytes; at most {MAX_PATTERN_BYTES} are taken")
    return _compiled(pattern)


@lru_cache(maxsize=128)
def _compiled(pattern: str) -> Pattern:
    try:
        schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
        return Pattern(pattern, SchemaValidator(schema))
    except SchemaError as error:
        raise PatternRefused(_reason(str(error))) from None


def _reason(text: str) -> str:
    if "exceeds size limit" in text:
        return "the pattern compiles to more than 10 MiB"
    _, found, tail = text.rpartition("error: ")
    if found:
        return f"the pattern does not compile: {tail.strip().splitlines()[0][:200]}"
    return "the pattern does not compile"
