"""JSON Schema keywords whose library version will not do for untrusted values, as the library calls them.

Patterns run on our linear engine, wherever the standard uses one; `multipleOf` divides decimals;
`enum`, `const` and `uniqueItems` compare JSON as the operators do, in linear time; and the
keywords that apply whole subschemas are counted, since a few of them nested can ask for 2ⁿ steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

from jsonschema.exceptions import ValidationError
from referencing.jsonschema import lookup_recursive_ref

from engine.operators.numbers import exact
from engine.values import equal, key, show
from wyrd.cards.regex import PatternRefused, compile_pattern

Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError]]

MAX_STEPS = 200_000
"""Subschemas that one validation may apply by reference or combination."""

_steps: ContextVar[list[int]] = ContextVar("_steps")


class TooManySteps(Exception):
    """The schema asks for more steps on this value than one validation may take."""


def begin() -> None:
    """Start counting anew; call before each validation."""
    _steps.set([0])


def counted(keyword: Keyword) -> Keyword:
    """The keyword, counted each time it is applied."""

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError]:
        _count()
        return keyword(validator, value, instance, schema)

    return apply


def _count() -> None:
    steps = _steps.get()
    steps[0] += 1
    if steps[0] > MAX_STEPS:
        raise TooManySteps


def found(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere; one that our engine refuses matches nothing."""
    try:
        return compile_pattern(pattern).search(text)
    except PatternRefused:
        return False


def pattern(validator: Any, value: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if type(instance) is str and not found(value, instance):
        yield ValidationError(f"does not match {show(value)}")


def pattern_properties(
    validator: Any, value: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if type(instance) is not dict:
        return
    for expression, subschema in value.items():
        for name, item in instance.items():
            if found(expression, name):
                yield from validator.descend(item, subschema, path=name, schema_path=expression)


def additional_properties(
    validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if type(instance) is not dict or value is True:
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, item in instance.items():
        if name in named or any(found(expression, name) for expression in patterns):
            continue
        if value is False:
            yield ValidationError(f"has another member, {show(name)}, than the schema allows")
        else:
            yield from validator.descend(item, value, path=name)


def multiple_of(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if type(instance) not in (int, float):
        return
    divided = Fraction(exact(instance)) / Fraction(exact(value))
    if divided.denominator != 1:
        yield ValidationError(f"is not a multiple of {show(value)}")


def enum(validator: Any, value: list[Any], instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not any(equal(instance, allowed) for allowed in value):
        yield ValidationError(f"is not one of {show(value)}")


def const(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not equal(instance, value):
        yield ValidationError(f"is not {show(value)}")


def unique_items(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if value and type(instance) is list and len(set(map(key, instance))) < len(instance):
        yield ValidationError("has two equal items")


def unevaluated_properties(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if type(instance) is not dict:
        return
    evaluated = _evaluated(validator, instance, schema, "unevaluatedProperties")
    for name, item in instance.items():
        if name in evaluated:
            continue
        if value is False:
            yield ValidationError(f"has another member, {show(name)}, than the schema allows")
        else:
            yield from validator.descend(item, value, path=name)


def unevaluated_items(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if type(instance) is not list:
        return
    evaluated = _evaluated(validator, instance, schema, "unevaluatedItems")
    for index, item in enumerate(instance):
        if index in evaluated:
            continue
        if value is False:
            yield ValidationError(f"has another item, the one at {index}, than the schema allows")
        else:
            yield from validator.descend(item, value, path=index)


Evaluated = set[str | int]


def _evaluated(validator: Any, instance: Any, schema: Any, asking: str | None = None) -> Evaluated:
    """The members or items of the instance that some keyword of a schema speaks about, following
    the subschemas that hold for it in place. `asking` is the keyword that wants to know."""
    _count()
    if not isinstance(schema, Mapping):
        return set()
    by_name = type(instance) is dict
    own = _own_members if by_name else _own_items
    evaluated: Evaluated = own(validator, instance, schema, asking)
    for target in _references(validator, schema):
        referring = validator.evolve(schema=target.contents, _resolver=target.resolver)
        evaluated |= _evaluated(referring, instance, target.contents)
    for subschema in _in_place(validator, instance, schema):
        evaluated |= _evaluated(validator, instance, subschema)
    return evaluated


def _own_members(
    validator: Any, instance: dict[str, Any], schema: Mapping[str, Any], asking: str | None
) -> Evaluated:
    if "additionalProperties" in schema or (asking is None and "unevaluatedProperties" in schema):
        return set(instance)
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return {
        name for name in instance if name in named or any(found(expression, name) for expression in patterns)
    }


def _own_items(
    validator: Any, instance: list[Any], schema: Mapping[str, Any], asking: str | None
) -> Evaluated:
    items = schema.get("items")
    # An array under `items` is 2019-09's way to write prefixItems.
    prefix = items if isinstance(items, list) else schema.get("prefixItems", [])
    rest = ("items" in schema and not isinstance(items, list)) or (
        isinstance(items, list) and "additionalItems" in schema
    )
    if rest or (asking is None and "unevaluatedItems" in schema):
        return set(range(len(instance)))
    evaluated: Evaluated = set(range(min(len(prefix), len(instance))))
    # From 2020-12 on, `contains` speaks about the items it finds; prefixItems came with it.
    if "contains" in schema and "prefixItems" in validator.VALIDATORS:
        held = validator.evolve(schema=schema["contains"])
        evaluated |= {index for index, item in enumerate(instance) if held.is_valid(item)}
    return evaluated


def _references(validator: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            yield validator._resolver.lookup(schema[keyword])
    if "$recursiveRef" in schema and "$recursiveRef" in validator.VALIDATORS:
        yield lookup_recursive_ref(validator._resolver)


def _in_place(validator: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """The subschemas that apply to the instance itself and hold for it."""

    def holds(subschema: Any) -> bool:
        _count()
        return bool(validator.evolve(schema=subschema).is_valid(instance))

    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from filter(holds, schema.get(keyword, []))
    if "if" in schema:
        if holds(schema["if"]):
            yield schema["if"]
            yield schema.get("then", True)
        else:
            yield schema.get("else", True)
    if type(instance) is dict:
        for name, subschema in schema.get("dependentSchemas", {}).items():
            if name in instance:
                yield subschema


OURS: dict[str, Keyword] = {
    "pattern": pattern,
    "patternProperties": pattern_properties,
    "additionalProperties": additional_properties,
    "multipleOf": multiple_of,
    "enum": enum,
    "const": const,
    "uniqueItems": unique_items,
    "unevaluatedProperties": unevaluated_properties,
    "unevaluatedItems": unevaluated_items,
}
"""Replace the library's keywords of the same name, in the dialects that have them."""

COUNTED = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")
"""Stay the library's, and are counted."""
