"""What an operator is made of: the types it takes, a fact about the observed value, two phrases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.failure import ReasonKind
from engine.outcomes import Outcome
from engine.values import TYPE_NAMES, show, type_name


class Judgement(NamedTuple):
    """How one value was judged. `kind` stands beside the sentence of every inconclusive one."""

    outcome: Outcome
    kind: ReasonKind | None
    reason: str


class OperandFault(Exception):
    """The operand or a parameter cannot be judged with, whatever the observed value is."""


class Undecided(Exception):
    """This observed value cannot be judged by this operator."""

    def __init__(self, reason: str, kind: ReasonKind = ReasonKind.TYPE_MISMATCH) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Taken:
    """The types of observed values that an operator takes, and how a sentence names them."""

    types: frozenset[type]
    needs: str


ANY = Taken(frozenset(TYPE_NAMES), "a JSON value")
NUMBER = Taken(frozenset({int, float}), "a number")
STRING = Taken(frozenset({str}), "a string")
ARRAY = Taken(frozenset({list}), "an array")
SIZED = Taken(frozenset({list, dict, str}), "an array, an object or a string")


@dataclass(slots=True)
class Rule:
    """One operator with its operand: passes where `fact` holds, or where it does not if `negated`.

    `yes` and `no` complete the sentence "<the observed value> …" for either answer.
    """

    taken: Taken
    fact: Callable[[Any], bool]
    yes: str
    no: str
    negated: bool = False

    def judge(self, operator: str, observed: Any, subject: str | None) -> Judgement:
        """`subject` stands for the observed value in the sentence; None shows the value itself."""
        kind = type(observed)
        if kind not in self.taken.types:
            needs = f"{operator} needs {self.taken.needs}, got {type_name(observed)}"
            return Judgement(Outcome.INCONCLUSIVE, ReasonKind.TYPE_MISMATCH, needs)
        if kind is float and not math.isfinite(observed):
            # Before the fact is asked: NaN answers every comparison with false, so that a negated
            # operator would pass on it.
            return Judgement(Outcome.INCONCLUSIVE, ReasonKind.TYPE_MISMATCH, f"{operator} {NOT_FINITE}")
        try:
            true = self.fact(observed)
        except Undecided as undecided:
            return Judgement(Outcome.INCONCLUSIVE, undecided.kind, f"{operator} {undecided.reason}")
        outcome = Outcome.PASSED if true is not self.negated else Outcome.FAILED
        shown = show(observed) if subject is None else subject
        return Judgement(outcome, None, f"{shown} {self.yes if true else self.no}")


NOT_FINITE = "needs a finite number, got NaN or an infinity"

Build = Callable[[Mapping[str, Any], Any], Rule]
"""Makes the rule of an operator from its parameters and its operand; raises `OperandFault`."""


def negated(build: Build) -> Build:
    """The operator that passes exactly where the other one fails."""

    def opposite(parameters: Mapping[str, Any], expected: Any) -> Rule:
        rule = build(parameters, expected)
        return Rule(rule.taken, rule.fact, rule.yes, rule.no, negated=True)

    return opposite


def operand(expected: Any, taken: Taken) -> Any:
    """The operand, if it is of a type the operator compares with."""
    if type(expected) not in taken.types:
        raise OperandFault(f"needs {taken.needs} to compare with, but expected is {type_name(expected)}")
    if type(expected) is float and not math.isfinite(expected):
        raise OperandFault("needs a finite number to compare with")
    return expected


def number(parameters: Mapping[str, Any], name: str) -> Any:
    """A parameter that is a finite number."""
    value = parameters[name]
    if type(value) not in NUMBER.types or not math.isfinite(value):
        raise OperandFault(f"needs a finite number as {name}")
    return value
