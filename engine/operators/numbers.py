"""Operators over numbers: order, ranges, tolerances.

Order is exact at any size and between integers and fractions. Tolerances are computed in
decimals, on the numbers as they are written: 1.1 lies within 0.1 of 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from engine.failure import ReasonKind
from engine.operators.rule import NUMBER, Build, OperandFault, Rule, Undecided, negated, number, operand
from engine.values import show

# Wide enough that no sum or product of numbers the strict parser lets in is ever rounded.
_EXACT = Context(prec=20_000, Emax=MAX_EMAX, Emin=MIN_EMIN)


def exact(value: float) -> Decimal:
    """A JSON number as the decimal it was written as (integral ones as the integer they equal)."""
    if type(value) is float and not value.is_integer():
        return Decimal(repr(value))
    return Decimal(int(value))


def distance(left: float, right: float) -> Decimal:
    return abs(_EXACT.subtract(exact(left), exact(right)))


def _compared(compare: Callable[[Any, Any], Any], yes: str, no: str) -> Build:
    def build(parameters: Mapping[str, Any], expected: Any) -> Rule:
        limit = operand(expected, NUMBER)
        shown = show(limit)
        return Rule(
            NUMBER, lambda observed: bool(compare(observed, limit)), f"{yes} {shown}", f"{no} {shown}"
        )

    return build


def _signed(compare: Callable[[Any, Any], Any], word: str) -> Build:
    rule = Rule(NUMBER, lambda observed: bool(compare(observed, 0)), f"is {word}", f"is not {word}")
    return lambda parameters, expected: rule


def _in_range(parameters: Mapping[str, Any], expected: Any) -> Rule:
    low, high = number(parameters, "min"), number(parameters, "max")
    if low > high:
        raise OperandFault(f"has a min of {show(low)} above its max of {show(high)}")
    if parameters["inclusive"]:
        return Rule(
            NUMBER,
            lambda observed: bool(low <= observed <= high),
            *_phrases(f"in [{show(low)}, {show(high)}]"),
        )
    return Rule(
        NUMBER, lambda observed: bool(low < observed < high), *_phrases(f"in ({show(low)}, {show(high)})")
    )


def _phrases(what: str) -> tuple[str, str]:
    return f"is {what}", f"is not {what}"


def _within_tolerance(parameters: Mapping[str, Any], expected: Any) -> Rule:
    centre, tolerance = operand(expected, NUMBER), number(parameters, "tolerance")
    limit = exact(tolerance)
    return Rule(
        NUMBER,
        lambda observed: distance(observed, centre) <= limit,
        *_phrases(f"within {show(tolerance)} of {show(centre)}"),
    )


def _within_pct(parameters: Mapping[str, Any], expected: Any) -> Rule:
    centre, fraction = operand(expected, NUMBER), number(parameters, "pct")
    limit = _EXACT.multiply(abs(exact(centre)), exact(fraction))
    return Rule(
        NUMBER,
        lambda observed: distance(observed, centre) <= limit,
        *_phrases(f"within the fraction {show(fraction)} of {show(centre)}"),
    )


def _within_std_dev(parameters: Mapping[str, Any], expected: Any) -> Rule:
    sigma, mean, std_dev = (number(parameters, name) for name in ("sigma", "mean", "std_dev"))
    if std_dev < 0:
        raise OperandFault(f"has a negative std_dev of {show(std_dev)}")
    limit = _EXACT.multiply(exact(sigma), exact(std_dev))
    return Rule(
        NUMBER,
        lambda observed: distance(observed, mean) <= limit,
        *_phrases(f"within {show(sigma)} standard deviations of {show(std_dev)} around {show(mean)}"),
    )


def _between_percentiles(parameters: Mapping[str, Any], expected: Any) -> Rule:
    lower, upper = number(parameters, "lower_pct"), number(parameters, "upper_pct")
    if not 0 <= lower <= upper <= 1:
        raise OperandFault(f"needs 0 ≤ lower_pct ≤ upper_pct ≤ 1, has {show(lower)} and {show(upper)}")

    def between(observed: float) -> bool:
        if not 0 <= observed <= 1:
            raise Undecided("needs a rank between 0 and 1, got a number outside", ReasonKind.TYPE_MISMATCH)
        return bool(lower <= observed <= upper)

    return Rule(NUMBER, between, *_phrases(f"between the percentiles {show(lower)} and {show(upper)}"))


OPERATORS: dict[str, Build] = {
    "greater_than": _compared(operator.gt, "is greater than", "is not greater than"),
    "greater_than_or_equals": _compared(operator.ge, "is at least", "is less than"),
    "less_than": _compared(operator.lt, "is less than", "is not less than"),
    "less_than_or_equals": _compared(operator.le, "is at most", "is greater than"),
    "is_positive": _signed(operator.gt, "positive"),
    "is_negative": _signed(operator.lt, "negative"),
    "is_zero": _signed(operator.eq, "zero"),
    "in_range": _in_range,
    "not_in_range": negated(_in_range),
    "approximately_equals": _within_tolerance,
    "within_abs_tolerance": _within_tolerance,
    "within_pct_tolerance": _within_pct,
    "within_std_dev": _within_std_dev,
    "between_percentiles": _between_percentiles,
}
