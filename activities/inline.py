"""The Runner of a verify: blocks run in this process, within the request's own deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from activities.attempts import AttemptFailed, block_end, block_failure, run_attempt
from activities.blocks import BlockRunner
from activities.context import ExecutionContext
from activities.judging import TookTooLong, judge_all, off_loop
from engine.ends import Attempt, BlockDocument, requirement_failure, step_failure
from engine.failure import BlockFailure, ReasonKind
from engine.interpret import interpret
from engine.result import decision_of, outcome_document
from engine.retries import next_wait
from engine.states import States


class InlineRunner:
    """Runs one execution to its outcome. `deadline` is a reading of `time.monotonic`."""

    def __init__(self, runner: BlockRunner | None, context: ExecutionContext, deadline: float) -> None:
        self._runner = runner
        self._context = context
        self._deadline = deadline
        self._shape = context.bundle.plan.shape
        self.outcome: dict[str, Any] = {}

    async def run(self, block: int, states: str) -> str:
        assert self._runner is not None
        reader = await self._context.reader([block], states)
        step = self._shape.is_step(block)
        limit = self._shape.steps[block].limit if step else self._shape.requirement(block).limit
        retries = self._shape.steps[block].retries if step else 0
        role = self._runner.role(self._context, block)
        attempts: list[Attempt] = []
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                return await self._cut(block, attempts)
            try:
                produced, attempt = await run_attempt(
                    self._runner,
                    self._context,
                    block,
                    reader,
                    number=len(attempts) + 1,
                    limit=min(limit, left),
                )
            except AttemptFailed as failed:
                attempts.append(failed.attempt)
                wait = next_wait(role, failed.failure, len(attempts), retries)
                if wait is None or wait >= self._deadline - time.monotonic():
                    return await self._save(block_failure(self._context, block, failed.failure, attempts))
                await asyncio.sleep(wait)
            else:
                return await self._save(block_end(self._context, block, produced, [*attempts, attempt]))

    async def judge(self, blocks: Sequence[int], states: str) -> str:
        ends = await self._judged(blocks, states)
        return "".join(await self._context.ledger.save(ends)) if ends else ""

    async def finish(self, blocks: Sequence[int], states: str) -> None:
        plan = self._context.bundle.plan
        final = States.of_text(states)
        ends = dict(await self._context.ledger.ends())
        for end in await self._judged(blocks, states):
            ends[end.block] = end
            final.requirements[end.block - len(plan.shape.steps)] = end.letter
        self.outcome = await off_loop(
            self._context,
            outcome_document,
            plan,
            final,
            self._context.evidence,
            ends,
            decision_of(plan, final),
        )

    async def _judged(self, blocks: Sequence[int], states: str) -> list[BlockDocument]:
        left = max(0.0, self._deadline - time.monotonic())
        try:
            return await judge_all(self._context, blocks, states, seconds=left)
        except TookTooLong as late:
            return late.ends

    async def _cut(self, block: int, attempts: list[Attempt]) -> str:
        failure = BlockFailure(ReasonKind.TIMEOUT, "the time of the verify was over before it could run")
        build = step_failure if self._shape.is_step(block) else requirement_failure
        return await self._save(build(block, failure, attempts))

    async def _save(self, end: BlockDocument) -> str:
        return (await self._context.ledger.save([end]))[0]


async def judge_inline(
    runner: BlockRunner | None, context: ExecutionContext, deadline: float
) -> dict[str, Any]:
    """Run the whole Verifier in this process; the `outcome` of its result.

    Only a Verifier whose blocks are all pure needs no runner.
    """
    inline = InlineRunner(runner, context, deadline)
    await interpret(context.bundle.plan.shape, inline)
    return inline.outcome
