"""The engine alone: one assertion, from evidence to result document, digest and breakdown included."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.stack import ANSWER, ASSERTION
from engine.evidence import Evidence
from engine.interpret import interpret
from engine.judging import judge_pure
from engine.plan import Plan, compile_plan
from engine.reader import Reader
from engine.result import decision_of, outcome_document
from engine.states import States
from wyrd.cards import VerifierSpec


class _Runner:
    def __init__(self, plan: Plan, evidence: Evidence) -> None:
        self._plan = plan
        self._evidence = evidence
        self.outcome: dict[str, Any] = {}

    async def run(self, block: int, states: str) -> str:
        raise AssertionError("only assertions are measured")

    async def judge(self, blocks: Sequence[int], states: str) -> str:
        raise AssertionError("there is one batch")

    async def finish(self, blocks: Sequence[int], states: str) -> None:
        final = States.of_text(states)
        reader = Reader(self._plan, self._evidence, final, {}, {})
        ends = {}
        for block in blocks:
            end = ends[block] = judge_pure(self._plan, block, reader)
            final.requirements[block - len(final.steps)] = end.letter
        decision = decision_of(self._plan, final)
        self.outcome = outcome_document(self._plan, final, self._evidence, ends, decision)


async def _round(plan: Plan, count: int) -> float:
    inputs = {"answer": {"kind": "json", "value": ANSWER}}
    began = time.perf_counter()
    for _ in range(count):
        runner = _Runner(plan, Evidence(plan.spec, inputs))
        await interpret(plan.shape, runner)
    assert runner.outcome["verdict"] == "passed"
    return (time.perf_counter() - began) / count * 1e6


def measure(rounds: int = 7, count: int = 3000) -> dict[str, Any]:
    """Microseconds an assertion, and the plain `in` of Python as the floor."""
    plan = compile_plan(VerifierSpec.model_validate(ASSERTION))
    found = [asyncio.run(_round(plan, count)) for _ in range(rounds)]
    began = time.perf_counter()
    for _ in range(100_000):
        _ = "guaranteed refund" not in ANSWER
    floor = (time.perf_counter() - began) / 100_000 * 1e6
    return {"assert_us": statistics.median(found), "plain_in_us": floor}
