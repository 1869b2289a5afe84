"""Whether a value fits the JSON Schema of its slot.

JSON Schema 2020-12 unless `$schema` names 2019-09 or draft-07; formats are checked; no reference
is ever fetched. Compiled once a schema. Needs jsonschema, so no workflow imports it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema
from jsonschema import validators
from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from engine.pointers import escape
from engine.schema_formats import FORMATS
from engine.schema_keywords import COUNTED, OURS, TooManySteps, begin, counted
from engine.values import NotJudgeable, show, type_name
from wyrd.cards.schema_check import DIALECTS, dialect_of
from wyrd.wire.canonical import canonical_json, strict_loads

MAX_FAULTS = 16
"""Most faults that one validation reports."""

_MAX_SCHEMA_DEPTH = 200

Faults = list[tuple[str, str]]
"""(JSON Pointer into the value, what is wrong there); sentences never repeat the value."""


class SchemaRefused(ValueError):
    """The schema is not of a dialect that is read here."""


class SlotSchema:
    """One compiled schema."""

    def __init__(self, schema: Any) -> None:
        dialect = dialect_of(schema)
        if dialect is None:
            raise SchemaRefused("$schema must be draft 2020-12, 2019-09 or draft-07")
        name = DIALECTS[dialect]
        # A registry without a retriever: a reference out of the schema resolves to nothing.
        self._validator = _CLASSES[name](schema, registry=Registry(), format_checker=FORMATS[name])

    def faults(self, value: Any) -> Faults:
        """What is wrong with the value, at most `MAX_FAULTS` things; empty when it fits."""
        begin()
        try:
            errors = list(islice(self._validator.iter_errors(value), MAX_FAULTS))
        except (RecursionError, TooManySteps):
            return [("", "the slot's schema asks for too many steps on this value")]
        except Unresolvable:
            return [("", "the slot's schema refers to a place that does not exist in it")]
        except NotJudgeable:
            return [("", "holds a number that is not finite")]
        return [(_pointer(error), _sentence(error)) for error in errors]


def compile_schema(schema: Any) -> SlotSchema:
    """Compile a schema, or fetch it from the cache. Raises `SchemaRefused` for an unknown dialect."""
    return _compiled(canonical_json(schema))


def slot_faults(schema: Any, value: Any) -> Faults:
    """What is wrong with a value under a slot's schema (None takes any value)."""
    return [] if schema is None else compile_schema(schema).faults(value)


@lru_cache(maxsize=256)
def _compiled(canonical: bytes) -> SlotSchema:
    return SlotSchema(strict_loads(canonical, max_depth=_MAX_SCHEMA_DEPTH))


def _class(name: str) -> Any:
    theirs = getattr(jsonschema, name)
    ours = {word: keyword for word, keyword in OURS.items() if word in theirs.VALIDATORS}
    combined = {word: counted(theirs.VALIDATORS[word]) for word in COUNTED if word in theirs.VALIDATORS}
    return validators.extend(theirs, {**ours, **combined})  # type: ignore[no-untyped-call]


_CLASSES = {name: _class(name) for name in sorted(set(DIALECTS.values()))}


def _pointer(error: ValidationError) -> str:
    return "".join(f"/{escape(str(part))}" for part in error.absolute_path)


def _sentence(error: ValidationError) -> str:
    """The fault in our words: the library's would repeat the value, however long it is."""
    keyword: Any = error.validator
    wanted: Any = error.validator_value
    if keyword is None:
        return "nothing is allowed here"
    if keyword in OURS:
        return error.message
    if keyword == "type":
        words = wanted if isinstance(wanted, list) else [wanted]
        return f"must be {' or '.join(map(str, words))}, got {type_name(error.instance)}"
    if keyword == "required":
        present: Any = error.instance
        absent = [name for name in wanted if name not in present]
        return f"lacks {', '.join(map(show, absent[:MAX_FAULTS]))}"
    if keyword == "format":
        return f"is not a valid {wanted}"
    if isinstance(wanted, int | float | str) and not isinstance(wanted, bool):
        return f"breaks {keyword} {show(wanted)}"
    return f"breaks {keyword}"
