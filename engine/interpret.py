"""The interpreter: runs a plan's blocks in the order the rules give, through a `Runner`.

One coroutine owns all state and is fed by one queue of finished blocks, so that the same code is
correct in a request and deterministic in a workflow. Ready blocks start at once, in declared
order, with no barrier between waves. What is pure is judged in batches, at most one in flight;
the last batch ends the execution together with decide and the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from engine.shape import Shape
from engine.states import FAILED, PENDING, SKIPPED, TRUE, States, rule_for_reads


class Runner(Protocol):
    """Runs blocks; the inline one calls them, the workflow one schedules activities.

    Every method answers with a block's end letter (see `engine.states`) and never raises for
    what a block may do wrong: a failing step ends `f`, a check that cannot be judged ends `i`.
    """

    async def run(self, block: int, states: str) -> str:
        """Run a step's action, or a check that is not pure."""
        ...

    async def judge(self, blocks: Sequence[int], states: str) -> str:
        """Judge pure blocks together; one letter a block, in the same order."""
        ...

    async def finish(self, blocks: Sequence[int], states: str) -> None:
        """Judge the last pure blocks (maybe none), decide, and record the result."""
        ...


async def interpret(shape: Shape, runner: Runner) -> None:
    """Run every block of the shape to its end. Cancelling this cancels what is running."""
    await _Interpretation(shape, runner).run()


class _Interpretation:
    def __init__(self, shape: Shape, runner: Runner) -> None:
        self.shape = shape
        self.runner = runner
        self.states = States.fresh(shape)
        self.ended: asyncio.Queue[tuple[Sequence[int], str | BaseException]] = asyncio.Queue()
        # Insertion-ordered: a cancel must reach the blocks in the same order when a workflow replays.
        self.tasks: dict[asyncio.Task[None], None] = {}
        self.running = 0
        self.waiting_steps = list(range(len(shape.steps)))
        self.waiting_requirements = list(range(len(shape.requirements)))
        self.when_done: set[int] = set()
        self.started: set[int] = set()
        self.pure: list[int] = []
        self.judging = False
        # A step has ended when its action and all its own requirements have.
        self.owing = [1 + len(own) for own in shape.own_requirements]
        self.unended = len(shape.steps)
        self.blockers = [len(step.after) for step in shape.steps]
        self.followers: list[list[int]] = [[] for _ in shape.steps]
        for number, step in enumerate(shape.steps):
            for other in step.after:
                self.followers[other].append(number)

    async def run(self) -> None:
        try:
            while True:
                while self._advance():
                    pass
                if not self.running and not self.waiting_steps and not self.waiting_requirements:
                    await self.runner.finish(self.pure, self.states.text)
                    return
                if self.pure and not self.judging:
                    batch, self.pure = self.pure, []
                    self.judging = True
                    self._start(batch, self.runner.judge(batch, self.states.text))
                await self._take_one()
        finally:
            for task in tuple(self.tasks):
                task.cancel()

    def _start(self, blocks: Sequence[int], work: Coroutine[Any, Any, str]) -> None:
        async def report() -> None:
            try:
                letters: str | BaseException = await work
            except BaseException as error:
                letters = error
            self.ended.put_nowait((blocks, letters))

        self.running += 1
        task = asyncio.create_task(report())
        self.tasks[task] = None
        task.add_done_callback(self.tasks.pop)

    async def _take_one(self) -> None:
        blocks, letters = await self.ended.get()
        self.running -= 1
        if isinstance(letters, BaseException):
            raise letters
        if self._is_pure(blocks[0]):
            self.judging = False
        for block, letter in zip(blocks, letters, strict=True):
            self._end(block, letter)

    def _is_pure(self, block: int) -> bool:
        if self.shape.is_step(block):
            return False
        return self.shape.is_when(block) or self.shape.requirement(block).pure

    def _end(self, block: int, letter: str) -> None:
        if self.shape.is_when(block):
            step = self.shape.step_of_when(block)
            if letter == TRUE:
                self.when_done.add(step)
            else:
                self._end_step(step, letter)
        elif self.shape.is_step(block):
            self._end_step(block, letter)
        else:
            self._end_requirement(block - len(self.shape.steps), letter)

    def _end_step(self, step: int, letter: str) -> None:
        self.states.steps[step] = letter
        if step in self.waiting_steps:
            self.waiting_steps.remove(step)
        self._one_less(step)

    def _end_requirement(self, index: int, letter: str) -> None:
        self.states.requirements[index] = letter
        step = self.shape.requirements[index].step
        if step >= 0:
            self._one_less(step)

    def _one_less(self, step: int) -> None:
        """The action or an own requirement of the step has ended; after the last, its followers may go."""
        self.owing[step] -= 1
        if not self.owing[step]:
            self.unended -= 1
            for follower in self.followers[step]:
                self.blockers[follower] -= 1

    def _advance(self) -> bool:
        """Start or settle whatever has become ready; whether anything was settled."""
        settled = False
        for step in list(self.waiting_steps):
            if not self.blockers[step] and step not in self.started:
                settled = self._advance_step(step) or settled
        for index in list(self.waiting_requirements):
            step = self.shape.requirements[index].step
            if self.states.steps[step] != PENDING if step >= 0 else not self.unended:
                settled = self._advance_requirement(index) or settled
        return settled

    def _advance_step(self, step: int) -> bool:
        shape = self.shape.steps[step]
        when = self.shape.when_block(step)
        if shape.has_when and step not in self.when_done:
            if when in self.started:
                return False
            rule = rule_for_reads(self.states, shape.when_reads)
            if rule is None:
                self.started.add(when)
                self.pure.append(when)
                return False
        else:
            rule = rule_for_reads(self.states, shape.reads)
        if rule is not None:
            self._end_step(step, rule.upper())
            return True
        self.started.add(step)
        self.waiting_steps.remove(step)
        self._start([step], self.runner.run(step, self.states.text))
        return False

    def _advance_requirement(self, index: int) -> bool:
        requirement = self.shape.requirements[index]
        self.waiting_requirements.remove(index)
        skipped = requirement.step >= 0 and self.states.skipped(requirement.step)
        rule = SKIPPED if skipped else rule_for_reads(self.states, requirement.reads)
        if rule is not None:
            self._end_requirement(index, "I" if rule == FAILED else "N")
            return True
        block = self.shape.requirement_block(index)
        if requirement.pure:
            self.pure.append(block)
        else:
            self._start([block], self.runner.run(block, self.states.text))
        return False
