"""Judging the pure blocks: assertions, trace checks and `when`s, by the one Reader given."""

from __future__ import annotations

from engine.assertion import holds, judge_assert
from engine.capture import Capture
from engine.ends import BlockDocument, requirement_end, step_failure, step_skipped
from engine.failure import BlockFailure, ReasonKind
from engine.finding import CheckFinding, undecided
from engine.plan import Plan
from engine.reader import Reader
from engine.states import TRUE
from wyrd.cards import AssertCheck, TraceCheck


def judge_pure(plan: Plan, block: int, reader: Reader) -> BlockDocument:
    """Judge one pure block. Never raises for what evidence or a Card may hold."""
    if plan.shape.is_when(block):
        return _judge_when(plan, block, reader)
    check = plan.requirement(block).spec.check
    mode = Capture(plan.spec.context_capture or "full")
    if isinstance(check, AssertCheck):
        return requirement_end(block, judge_assert(check, reader.root_at(block), mode))
    assert isinstance(check, TraceCheck)
    return requirement_end(block, _judge_trace(check, block, reader, mode))


def _judge_when(plan: Plan, block: int, reader: Reader) -> BlockDocument:
    step = plan.shape.step_of_when(block)
    when = plan.spec.steps[step].when
    assert when is not None
    try:
        if holds(when.path, when.operator, when.expected, reader.root_at(block)):
            return BlockDocument(block, TRUE, {})
    except BlockFailure as failure:
        why = BlockFailure(failure.kind, f"its when cannot be evaluated: {failure.reason}")
        return step_failure(step, why, [])
    return step_skipped(step, f"its when does not hold ({when.path.text} {when.operator.kind})")


def _judge_trace(check: TraceCheck, block: int, reader: Reader, mode: Capture) -> CheckFinding:
    # Imported here: the JSONPath library is third-party, and few Verifiers read traces.
    from engine.traces import judge_trace

    if check.on.name not in reader.evidence.inputs and not reader.required(check.on.name):
        why = f"the optional input {check.on.name} was not given"
        return undecided(BlockFailure(ReasonKind.MISSING_EVIDENCE, why))
    return judge_trace(check, reader.root_at(block), mode)
