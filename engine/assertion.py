"""Assertions and `when`: reading the value or the items, judging them, saying what was found."""

from __future__ import annotations

from typing import Any

from engine.capture import Capture, capture
from engine.failure import BlockFailure, ReasonKind
from engine.finding import CheckFinding, undecided
from engine.operators import Judge, Judgement, prepare
from engine.outcomes import Outcome
from engine.references import Item, ReadRoot, items_of, value_at
from wyrd.cards.checks import AssertCheck
from wyrd.cards.comparison import Operator
from wyrd.cards.references import Reference

_NAMED_PATHS = 3


def judge_assert(check: AssertCheck, read: ReadRoot, mode: Capture = Capture.FULL) -> CheckFinding:
    """Judge an assert check. Missing evidence is inconclusive, what a skipped step owes not applicable."""
    if check.each is not None:
        return judge_each(check.each, check.operator, check.expected, read, mode)
    if check.path is None:
        raise ValueError("an assertion has a path or an each")
    return judge_path(check.path, check.operator, check.expected, read, mode)


def judge_path(
    path: Reference, operator: Operator, expected: Any, read: ReadRoot, mode: Capture = Capture.FULL
) -> CheckFinding:
    """Judge the one value at `path`."""
    try:
        value = value_at(path, read)
    except BlockFailure as failure:
        return undecided(failure)
    return judge_value(value, operator, expected, mode)


def judge_value(value: Any, operator: Operator, expected: Any, mode: Capture = Capture.FULL) -> CheckFinding:
    """Judge a value that was already read."""
    outcome, kind, reason = _prepared(operator, expected, mode)(value)
    actual, present = capture(value, mode)
    return CheckFinding(outcome, reason, kind, actual, present)


def judge_each(
    each: Reference, operator: Operator, expected: Any, read: ReadRoot, mode: Capture = Capture.FULL
) -> CheckFinding:
    """Judge every item of `each`.

    One failing item fails the requirement; otherwise one inconclusive item leaves it
    inconclusive; no items at all are nothing to judge, and not applicable. `actual` is the list
    of the items that could be read.
    """
    try:
        items = items_of(each, read)
    except BlockFailure as failure:
        return undecided(failure)
    tally = _Tally(_prepared(operator, expected, mode))
    for item in items:
        tally.add(item)
    return tally.finding(mode)


def holds(path: Reference, operator: Operator, expected: Any, read: ReadRoot) -> bool:
    """Whether a `when` holds. Raises `BlockFailure` where it cannot be evaluated: the step then fails."""
    # What a `when` read is kept nowhere, so its reasons never show it.
    finding = judge_path(path, operator, expected, read, Capture.REDACT)
    if finding.outcome is Outcome.PASSED:
        return True
    if finding.outcome is Outcome.FAILED:
        return False
    raise BlockFailure(finding.kind or ReasonKind.INTERNAL, finding.reason)


def _prepared(operator: Operator, expected: Any, mode: Capture) -> Judge:
    subject = None if mode is Capture.FULL else "the value"
    return prepare(operator.kind, operator.parameters, expected, subject=subject)


class _Tally:
    """Counts the items of one `each`, and keeps the first of each outcome and where they stand."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._counts = {Outcome.FAILED: 0, Outcome.INCONCLUSIVE: 0, Outcome.PASSED: 0}
        self._paths: dict[Outcome, list[str]] = {outcome: [] for outcome in self._counts}
        self._first: dict[Outcome, Judgement] = {}
        self._read: list[Any] = []

    def add(self, item: Item) -> None:
        if item.failure is None:
            judgement = self._judge(item.value)
            self._read.append(item.value)
        else:
            judgement = Judgement(Outcome.INCONCLUSIVE, item.failure.kind, item.failure.reason)
        outcome = judgement.outcome
        self._counts[outcome] += 1
        self._first.setdefault(outcome, judgement)
        if len(self._paths[outcome]) < _NAMED_PATHS:
            self._paths[outcome].append(item.path)

    def finding(self, mode: Capture) -> CheckFinding:
        total = sum(self._counts.values())
        if not total:
            return CheckFinding(
                Outcome.NOT_APPLICABLE, "nothing to judge: there are no items", ReasonKind.NOTHING_TO_JUDGE
            )
        # The counts stand in order of weight: one failure outweighs everything.
        outcome = next(found for found, count in self._counts.items() if count)
        first = self._first[outcome]
        actual, present = capture(self._read, mode)
        detail = {"items": total, **{found.value: count for found, count in self._counts.items()}}
        reason = self._reason(outcome, total, first.reason)
        return CheckFinding(outcome, reason, first.kind, actual, present, detail=detail)

    def _reason(self, outcome: Outcome, total: int, first: str) -> str:
        count = self._counts[outcome]
        if outcome is Outcome.PASSED:
            return f"{total} of {total} items passed"
        verb = "failed" if outcome is Outcome.FAILED else "cannot be judged"
        paths = ", ".join(self._paths[outcome]) + (", …" if count > _NAMED_PATHS else "")
        return f"{count} of {total} items {verb}, at {paths}: {first}"
