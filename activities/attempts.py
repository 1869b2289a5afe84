"""The attempts of one block: counted, timed, and told in the result."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict

from activities.blocks import BlockRunner, Produced
from activities.context import ExecutionContext
from engine.ends import (
    Attempt,
    BlockDocument,
    requirement_end,
    requirement_failure,
    step_failure,
    step_success,
)
from engine.failure import BlockFailure, ReasonKind
from engine.reader import Reader
from store.database import utc_now
from wyrd.errors import WyrdError

LONGEST_ERROR = 500
"""Characters of an error that the log of attempts keeps; the last one stands whole in the reason."""

LOST = "the worker that ran it was lost"

_LOSS_REASONS = {
    "timeout": (ReasonKind.TIMEOUT, "no attempt of it ended in time"),
    "worker_lost": (ReasonKind.WORKER_LOST, "the workers that ran it were lost too often"),
    "internal": (ReasonKind.INTERNAL, "the server failed on it"),
}

_log = logging.getLogger("wyrd.blocks")


class AttemptFailed(Exception):
    """One attempt failed; the log has it as its last entry."""

    def __init__(self, failure: BlockFailure, attempt: Attempt) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.attempt = attempt


async def run_attempt(
    runner: BlockRunner, context: ExecutionContext, block: int, reader: Reader, *, number: int, limit: float
) -> tuple[Produced, Attempt]:
    """Run one attempt and time it. Raises `AttemptFailed`; an unclassified exception is a fault of
    ours: it is logged, and ends the block without another attempt."""
    started_at = utc_now().isoformat()
    started = time.monotonic()
    try:
        produced = await runner.attempt(context, block, reader, limit)
        failure = None
    except BlockFailure as found:
        failure = found
    except Exception as error:
        _log.exception("block %s of execution %s failed unexpectedly", block, context.execution_id)
        failure = BlockFailure(ReasonKind.INTERNAL, f"the server failed on it ({type(error).__name__})")
    attempt = Attempt(number, started_at, round((time.monotonic() - started) * 1000))
    if failure is not None:
        told = Attempt(
            number, started_at, attempt.duration_ms, failure.reason[:LONGEST_ERROR], failure.kind.value
        )
        raise AttemptFailed(failure, told)
    return produced, attempt


def block_end(
    context: ExecutionContext, block: int, produced: Produced, attempts: Sequence[Attempt]
) -> BlockDocument:
    """The end of a block whose last attempt worked."""
    if context.bundle.plan.shape.is_step(block):
        return step_success(block, produced.output, produced.ran, list(attempts))
    assert produced.finding is not None
    return requirement_end(block, produced.finding, produced.ran, list(attempts))


def block_failure(
    context: ExecutionContext, block: int, failure: BlockFailure, attempts: Sequence[Attempt]
) -> BlockDocument:
    """The end of a block whose last attempt failed: a failed step, an inconclusive check."""
    if context.bundle.plan.shape.is_step(block):
        return step_failure(block, failure, list(attempts))
    return requirement_failure(block, failure, list(attempts))


def loss(kind: str) -> BlockFailure:
    """The failure of a block that no attempt could end, as the workflow names it."""
    return BlockFailure(*_LOSS_REASONS.get(kind, _LOSS_REASONS["internal"]))


def with_losses(failures: Sequence[Attempt], number: int) -> list[Attempt]:
    """The attempts before `number`: the failures that were noted, and those whose worker was lost."""
    noted = {attempt.number: attempt for attempt in failures}
    return [
        noted.get(earlier, Attempt(earlier, "", 0, LOST, ReasonKind.WORKER_LOST.value))
        for earlier in range(1, number)
    ]


def interrupted(number: int, trouble: WyrdError) -> Attempt:
    """An attempt that the server's own stores cut short."""
    message = trouble.detail[:LONGEST_ERROR]
    return Attempt(number, utc_now().isoformat(), 0, message, ReasonKind.INTERNAL.value)


def own_failures(noted: Sequence[Attempt]) -> int:
    """How many of the noted attempts failed by themselves; a fault of ours is noted only where it did not
    end the block."""
    return sum(attempt.kind != ReasonKind.INTERNAL.value for attempt in noted)


def packed(failures: Sequence[Attempt]) -> list[dict[str, object]]:
    """Failures as heartbeat details carry them to the next attempt."""
    return [asdict(attempt) for attempt in failures]


def unpacked(details: object) -> list[Attempt]:
    """Back from heartbeat details."""
    return [Attempt(**attempt) for attempt in details] if isinstance(details, list) else []
