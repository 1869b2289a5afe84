"""Operators over two arrays of numbers of one length: divergences and cosine similarity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

from engine.operators.rule import ARRAY, NUMBER, Build, OperandFault, Rule, Undecided, number, operand
from engine.values import show

EPSILON = 1e-12
"""Added to every entry before a logarithm, so that an empty bin does not make the divergence infinite."""

Vector = list[float]


def _vector(items: list[Any]) -> Vector | None:
    """The numbers as floats, or None if one is no finite number of a float's range."""
    if not all(type(item) in NUMBER.types for item in items):
        return None
    try:
        vector = [float(item) for item in items]
    except OverflowError:
        return None
    return vector if all(map(math.isfinite, vector)) else None


def _pair(expected: Any) -> Callable[[list[Any]], tuple[Vector, Vector]]:
    against = _vector(operand(expected, ARRAY))
    if against is None:
        raise OperandFault("needs an array of finite numbers to compare with")

    def pair(observed: list[Any]) -> tuple[Vector, Vector]:
        vector = _vector(observed)
        if vector is None:
            raise Undecided("needs an array of finite numbers, got an array that holds something else")
        if len(vector) != len(against):
            raise Undecided(f"needs an array of {len(against)} numbers, got an array of {len(vector)}")
        return vector, against

    return pair


def kl(p: Vector, q: Vector) -> float:
    """Kullback-Leibler divergence of p from q in nats. Raises ValueError where a logarithm has no value."""
    pairs = ((a + EPSILON, b + EPSILON) for a, b in zip(p, q, strict=True))
    return math.fsum(a * math.log(a / b) for a, b in pairs)


def js(p: Vector, q: Vector) -> float:
    """Jensen-Shannon divergence in nats: the mean of both divergences from the midpoint."""
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (kl(p, middle) + kl(q, middle)) / 2


def wasserstein(p: Vector, q: Vector) -> float:
    """Wasserstein-1 distance over the arrays' own order, one unit between neighbours."""
    return math.fsum(map(abs, accumulate(a - b for a, b in zip(p, q, strict=True))))


_METRICS = {"kl": kl, "js": js, "wasserstein": wasserstein}


def cosine(p: Vector, q: Vector) -> float:
    """Cosine similarity between -1 and 1; 0 if either vector has no length. Exactly 1 for equal vectors."""
    p, q = _scaled(p), _scaled(q)
    lengths = math.fsum(a * a for a in p) * math.fsum(b * b for b in q)
    if not lengths:
        return 0.0
    return max(-1.0, min(1.0, math.fsum(a * b for a, b in zip(p, q, strict=True)) / math.sqrt(lengths)))


def _scaled(vector: Vector) -> Vector:
    """The vector times the power of two that brings its largest entry near 1: squares then stay in range."""
    largest = max(map(abs, vector), default=0.0)
    if not largest:
        return vector
    exponent = math.frexp(largest)[1]
    return [math.ldexp(entry, -exponent) for entry in vector]


def _divergence(parameters: Mapping[str, Any], expected: Any) -> Rule:
    metric, threshold = parameters["metric"], number(parameters, "threshold")
    if metric not in _METRICS:
        raise OperandFault(f"needs one of {', '.join(_METRICS)} as metric")
    measure, pair = _METRICS[metric], _pair(expected)
    if not expected:
        raise OperandFault("needs an array that is not empty to compare with")

    def below(observed: list[Any]) -> bool:
        try:
            score = measure(*pair(observed))
        except (ValueError, ZeroDivisionError, OverflowError):
            raise Undecided(f"cannot compute {metric} over these numbers") from None
        if not math.isfinite(score):
            raise Undecided(f"cannot compute {metric} over these numbers")
        return bool(score < threshold)

    shown = f"a {metric} divergence below {show(threshold)} from {show(expected)}"
    return Rule(ARRAY, below, f"has {shown}", f"does not have {shown}")


def _cosine_at_least(parameters: Mapping[str, Any], expected: Any) -> Rule:
    threshold, pair = number(parameters, "threshold"), _pair(expected)
    shown = f"a cosine similarity of at least {show(threshold)} with {show(expected)}"
    return Rule(
        ARRAY,
        lambda observed: bool(cosine(*pair(observed)) >= threshold),
        f"has {shown}",
        f"does not have {shown}",
    )


OPERATORS: dict[str, Build] = {
    "divergence_less_than": _divergence,
    "cosine_similarity_at_least": _cosine_at_least,
}
