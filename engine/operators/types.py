"""Operators that take any value: equality, truth and type tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.operators.rule import ANY, NOT_FINITE, Build, OperandFault, Rule, Undecided, negated
from engine.values import TYPE_NAMES, NotJudgeable, equal, key, show

_WORDS = {
    "null": "null",
    "bool": "boolean",
    "number": "number",
    "string": "string",
    "array": "array",
    "object": "object",
}
"""What `is_type` calls the types, with the names that `engine.values` gives them."""


def _equals(parameters: Mapping[str, Any], expected: Any) -> Rule:
    try:
        key(expected)
    except NotJudgeable:
        raise OperandFault("needs finite numbers to compare with") from None

    def same(observed: Any) -> bool:
        try:
            return equal(observed, expected)
        except NotJudgeable:
            raise Undecided(NOT_FINITE) from None

    shown = show(expected)
    return Rule(ANY, same, f"equals {shown}", f"does not equal {shown}")


# Python's own truth is JSON's here: null, false, 0, "", [] and {} are false, all else is true.
_TRUTHY = Rule(ANY, bool, "is truthy", "is falsy")


def _is_truthy(parameters: Mapping[str, Any], expected: Any) -> Rule:
    return _TRUTHY


def _type_rule(name: str) -> Rule:
    return Rule(ANY, lambda observed: TYPE_NAMES[type(observed)] == name, *_is_a(name))


def _is_a(name: str) -> tuple[str, str]:
    article = "" if name == "null" else "an " if name in {"array", "object"} else "a "
    return f"is {article}{name}", f"is not {article}{name}"


_RULES = {name: _type_rule(name) for name in _WORDS.values()}


def _typed(name: str) -> Build:
    return lambda parameters, expected: _RULES[name]


def _is_type(parameters: Mapping[str, Any], expected: Any) -> Rule:
    word = parameters["expected"]
    if word not in _WORDS:
        raise OperandFault(f"needs one of {', '.join(_WORDS)} as expected")
    return _RULES[_WORDS[word]]


OPERATORS: dict[str, Build] = {
    "equals": _equals,
    "not_equals": negated(_equals),
    "is_truthy": _is_truthy,
    "is_falsy": negated(_is_truthy),
    "is_null": _typed("null"),
    "is_not_null": negated(_typed("null")),
    "is_string": _typed("string"),
    "is_number": _typed("number"),
    "is_boolean": _typed("boolean"),
    "is_object": _typed("object"),
    "is_type": _is_type,
}
