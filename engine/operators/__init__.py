"""The 56 operators of assertions, trace checks and `when`.

Each is a function of its parameters, its operand and one observed JSON value. Where and how the
value is read is no matter of theirs, and neither is what becomes of the judgement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.failure import ReasonKind
from engine.operators import collections, numbers, text, types, vectors
from engine.operators.rule import Build, Judgement, OperandFault
from engine.outcomes import Outcome

OPERATORS: dict[str, Build] = {
    **types.OPERATORS,
    **numbers.OPERATORS,
    **text.OPERATORS,
    **collections.OPERATORS,
    **vectors.OPERATORS,
}
"""Every operator by its name."""

Judge = Callable[[Any], Judgement]
"""Judges one observed value after the other against the same operand."""


def prepare(
    operator: str, parameters: Mapping[str, Any], expected: Any, *, subject: str | None = None
) -> Judge:
    """Do once what does not depend on the observed value.

    `subject` stands for the observed value in every reason; None shows the value itself, cut
    short. An operand or parameter that cannot be judged with makes every judgement inconclusive.
    """
    try:
        rule = OPERATORS[operator](parameters, expected)
    except KeyError as missing:
        return _never(f"{operator} has no operator or parameter named {missing}")
    except OperandFault as fault:
        return _never(f"{operator} {fault}")
    return lambda observed: rule.judge(operator, observed, subject)


def judge(operator: str, parameters: Mapping[str, Any], expected: Any, observed: Any) -> Judgement:
    """Judge one observed JSON value. `parameters` are those of the object form, `{}` for a bare name."""
    return prepare(operator, parameters, expected)(observed)


def _never(reason: str) -> Judge:
    judgement = Judgement(Outcome.INCONCLUSIVE, ReasonKind.OPERAND_INVALID, reason)
    return lambda observed: judgement


__all__ = ["OPERATORS", "Judge", "Judgement", "judge", "prepare"]
