"""Operators over arrays and sizes. Items are compared as JSON; order and repetition do not count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.operators.rule import (
    ANY,
    ARRAY,
    NOT_FINITE,
    SIZED,
    Build,
    OperandFault,
    Rule,
    Undecided,
    negated,
    number,
    operand,
)
from engine.values import NotJudgeable, key, show

Keys = frozenset[str | bytes]


def _keys(items: list[Any]) -> Keys:
    try:
        return frozenset(map(key, items))
    except NotJudgeable:
        raise Undecided(NOT_FINITE) from None


def _operand_keys(expected: Any) -> Keys:
    try:
        return frozenset(map(key, operand(expected, ARRAY)))
    except NotJudgeable:
        raise OperandFault("needs finite numbers to compare with") from None


def _in(parameters: Mapping[str, Any], expected: Any) -> Rule:
    allowed, shown = _operand_keys(expected), show(expected)

    def among(observed: Any) -> bool:
        try:
            return key(observed) in allowed
        except NotJudgeable:
            raise Undecided(NOT_FINITE) from None

    return Rule(ANY, among, f"is in {shown}", f"is not in {shown}")


def _sets(fact: Callable[[Keys, Keys], bool], yes: str, no: str) -> Build:
    def build(parameters: Mapping[str, Any], expected: Any) -> Rule:
        named, shown = _operand_keys(expected), show(expected)
        return Rule(ARRAY, lambda observed: fact(_keys(observed), named), f"{yes} {shown}", f"{no} {shown}")

    return build


def _unique_values(parameters: Mapping[str, Any], expected: Any) -> Rule:
    return Rule(
        ARRAY,
        lambda observed: len(_keys(observed)) == len(observed),
        "has no two equal items",
        "has two equal items",
    )


def _sized(compare: Callable[[int, Any], bool], parameter: str, yes: str, no: str) -> Build:
    def build(parameters: Mapping[str, Any], expected: Any) -> Rule:
        limit = number(parameters, parameter)
        shown = show(limit)
        return Rule(SIZED, lambda observed: compare(len(observed), limit), f"{yes} {shown}", f"{no} {shown}")

    return build


_EMPTY = Rule(SIZED, lambda observed: not observed, "is empty", "is not empty")


def _is_empty(parameters: Mapping[str, Any], expected: Any) -> Rule:
    return _EMPTY


_holds_all = _sets(Keys.issuperset, "holds every item of", "lacks an item of")
_holds_any = _sets(
    lambda keys, named: not keys.isdisjoint(named), "shares an item with", "shares no item with"
)

OPERATORS: dict[str, Build] = {
    "in": _in,
    "not_in": negated(_in),
    "is_subset": _sets(Keys.issubset, "is a subset of", "is not a subset of"),
    "is_superset": _holds_all,
    "is_disjoint": negated(_holds_any),
    "all_of": _holds_all,
    "any_of": _holds_any,
    "none_of": negated(_holds_any),
    "unique_values": _unique_values,
    "length": _sized(
        lambda size, limit: bool(size == limit), "expected", "has the length", "has not the length"
    ),
    "length_greater_than": _sized(
        lambda size, limit: bool(size > limit), "min", "is longer than", "is not longer than"
    ),
    "length_less_than": _sized(
        lambda size, limit: bool(size < limit), "max", "is shorter than", "is not shorter than"
    ),
    "is_empty": _is_empty,
    "is_non_empty": negated(_is_empty),
}
