"""JSON Schemas on Cards: whether they are valid, of a dialect we read, and free of remote references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from wyrd.cards.regex import PatternRefused, compile_pattern

DIALECTS: Final = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft-07/schema": "Draft7Validator",
}
"""Each `$schema` (its empty fragment dropped) with the jsonschema class that reads it."""

DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA_DEPTH: Final = 128

Path = tuple[str | int, ...]


def dialect_of(schema: Any) -> str | None:
    """The dialect's URI, or None when `$schema` names one that is not read."""
    if not isinstance(schema, Mapping) or "$schema" not in schema:
        return DEFAULT_DIALECT
    named = schema["$schema"]
    if not isinstance(named, str):
        return None
    named = named.removesuffix("#")
    return named if named in DIALECTS else None


def schema_faults(schema: Any, *, dialects: bool = True) -> list[tuple[Path, str]]:
    """Every fault of a schema document, as (place inside it, sentence).

    `dialects` also refuses unknown dialects, remote `$ref`s and patterns that our engine refuses,
    which only registration asks.
    """
    if isinstance(schema, bool):
        return []
    if not isinstance(schema, Mapping):
        return [((), "a JSON Schema is a mapping, true or false")]
    dialect = dialect_of(schema)
    if dialect is None:
        return [(("$schema",), "$schema must be draft 2020-12, 2019-09 or draft-07")] if dialects else []
    found = list(_invalid(schema, dialect))
    if dialects and not found:
        found = list(_refused(schema, ()))
    return found


def _invalid(schema: Mapping[str, Any], dialect: str) -> Iterator[tuple[Path, str]]:
    import jsonschema

    validator = getattr(jsonschema, DIALECTS[dialect])
    checker = validator(validator.META_SCHEMA)
    try:
        errors = sorted(checker.iter_errors(schema), key=lambda error: [str(p) for p in error.absolute_path])
    except RecursionError:
        yield (), "the schema is nested too deeply"
        return
    for error in errors[:16]:
        yield tuple(error.absolute_path), f"not a valid JSON Schema: {error.message[:200]}"


_DATA: Final = frozenset(("enum", "const", "default", "examples"))
_NAMED: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))


def _refused(schema: Any, path: Path, *, named: bool = False) -> Iterator[tuple[Path, str]]:
    """Walk schemas only: what stands under enum, const, default or examples is data."""
    if isinstance(schema, list):
        for index, item in enumerate(schema):
            yield from _refused(item, (*path, index))
        return
    if not isinstance(schema, Mapping):
        return
    if named:
        for key, item in schema.items():
            yield from _pattern_key(path, key)
            yield from _refused(item, (*path, key))
        return
    for key, item in schema.items():
        here = (*path, key)
        if key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(item, str) and not item.startswith("#"):
                yield here, "only references inside the schema itself are read, such as #/$defs/name"
        elif key == "pattern" and isinstance(item, str):
            try:
                compile_pattern(item)
            except PatternRefused as error:
                yield here, str(error)
        elif key not in _DATA:
            yield from _refused(item, here, named=key in _NAMED)


def _pattern_key(path: Path, key: str) -> Iterator[tuple[Path, str]]:
    if path and path[-1] == "patternProperties":
        try:
            compile_pattern(key)
        except PatternRefused as error:
            yield (*path, key), str(error)
