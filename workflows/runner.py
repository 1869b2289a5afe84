"""The Runner that schedules activities: how the interpreter's blocks become Temporal's."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    RetryState,
    TimeoutError,
    is_cancelled_exception,
)

from engine.shape import Shape
from workflows import calls
from workflows.contracts import (
    FinishExecution,
    JudgeBlocks,
    LostBlock,
    RunBlock,
    ShapePage,
    VerificationEnded,
    VerificationStart,
)
from wyrd.wire.canonical import strict_loads

_LETTER_WHEN_LOST = {True: "f", False: "i"}


async def shape_of(start: VerificationStart) -> Shape:
    """The shape a start carries, fetched in pages where it is too large to travel with it."""
    if start.shape is not None:
        return Shape.of_document(start.shape)
    of = _names(start)
    size = start.page_characters
    pages = [
        await calls.load_shape_page(ShapePage(page=page, characters=size, **of))
        for page in range(start.pages)
    ]
    return Shape.of_document(strict_loads("".join(pages)))


def _names(start: VerificationStart) -> dict[str, str]:
    return {
        "tenant_id": start.tenant_id,
        "tenant_slug": start.tenant_slug,
        "execution_id": start.execution_id,
    }


class WorkflowRunner:
    """One execution's Runner. `ended` is what the workflow answers once `finish` is through."""

    def __init__(self, start: VerificationStart, shape: Shape) -> None:
        self._shape = shape
        self._of = _names(start)
        self._bound = start.timeout_seconds
        self._lost: list[LostBlock] = []
        self.ended = VerificationEnded()

    async def run(self, block: int, states: str) -> str:
        step = self._shape.is_step(block)
        shape = self._shape.steps[block] if step else self._shape.requirement(block)
        argument = RunBlock(
            block=block,
            kind=shape.kind,
            states=states,
            limit=shape.limit,
            retries=self._shape.steps[block].retries if step else 0,
            **self._of,
        )
        try:
            ended = await calls.run_block(argument, label=self._shape.label(block), bound=self._bound)
            return ended.letter
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            cause = error.cause
            if isinstance(cause, ApplicationError) and cause.details:
                # The activity recorded the end itself, and failed so that people see it did.
                return str(cause.details[0])
            late = isinstance(cause, TimeoutError) or error.retry_state is RetryState.TIMEOUT
            kind = "timeout" if late else "internal"
            self._lost.append(LostBlock(block=block, kind=kind))
            return _LETTER_WHEN_LOST[step]

    async def judge(self, blocks: Sequence[int], states: str) -> str:
        judged = await calls.judge_blocks(
            JudgeBlocks(blocks=list(blocks), states=states, **self._of), label=self._label(blocks)
        )
        return judged.letters

    async def finish(self, blocks: Sequence[int], states: str) -> None:
        self.ended = await calls.finish_execution(
            FinishExecution(blocks=list(blocks), states=states, lost=self._lost, **self._of),
            label=f"{self._label(blocks)}decide and record",
        )

    def _label(self, blocks: Sequence[int]) -> str:
        if not blocks:
            return ""
        named = ", ".join(self._shape.label(block) for block in blocks[:3])
        return f"{named} and {len(blocks) - 3} more; " if len(blocks) > 3 else f"{named}; "
