"""Judging pure blocks without holding up the process: small evidence at once, large in a thread.

The megabytes that one request may carry can take tens of seconds to compare; heartbeats, other
requests and other executions must not wait for them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from activities.context import ExecutionContext
from engine.ends import BlockDocument, requirement_failure, step_failure
from engine.failure import BlockFailure, ReasonKind
from engine.judging import judge_pure
from engine.reader import Reader

P = ParamSpec("P")
T = TypeVar("T")

SMALL = 5_000
"""Values times blocks up to which judging takes milliseconds."""

_CHARACTERS = 256
"""Length of a string that weighs as much as one value."""

_THREADS = ThreadPoolExecutor(4, thread_name_prefix="wyrd-judge")
_log = logging.getLogger("wyrd.blocks")


class TookTooLong(Exception):
    """Not everything was judged in time. `ends` holds every block: those cut off are inconclusive."""

    def __init__(self, ends: list[BlockDocument]) -> None:
        super().__init__("judging took too long")
        self.ends = ends


async def judge_all(
    context: ExecutionContext, blocks: Sequence[int], states: str, *, seconds: float
) -> list[BlockDocument]:
    """The ends of those pure blocks, in order. Raises `TookTooLong` after `seconds`.

    An unclassified exception is a fault of ours: it is logged, and the block is inconclusive.
    """
    if not blocks:
        return []
    reader = await context.reader(blocks, states)
    if is_small([context.evidence.inputs, context.evidence.traces, reader.outputs], SMALL // len(blocks)):
        return [_judged(context, block, reader) for block in blocks]
    ends: list[BlockDocument] = []
    stop = threading.Event()

    def work() -> None:
        for block in blocks:
            if stop.is_set():
                return
            ends.append(_judged(context, block, reader))

    try:
        await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(_THREADS, work), seconds)
    except TimeoutError:
        done = list(ends)
        why = BlockFailure(ReasonKind.TIMEOUT, f"judging took longer than {seconds:.0f} s")
        raise TookTooLong(done + [_failed(context, block, why) for block in blocks[len(done) :]]) from None
    finally:
        # A thread cannot be cancelled; this one ends with the block it is at.
        stop.set()
    return ends


async def off_loop(context: ExecutionContext, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """`work`, in a thread where the execution's evidence is large."""
    if is_small([context.evidence.inputs, context.evidence.traces], SMALL):
        return work(*args, **named)
    return await asyncio.to_thread(work, *args, **named)


def _judged(context: ExecutionContext, block: int, reader: Reader) -> BlockDocument:
    try:
        return judge_pure(context.bundle.plan, block, reader)
    except Exception as error:
        _log.exception("block %s of execution %s failed unexpectedly", block, context.execution_id)
        why = f"the server failed on it ({type(error).__name__})"
        return _failed(context, block, BlockFailure(ReasonKind.INTERNAL, why))


def _failed(context: ExecutionContext, block: int, failure: BlockFailure) -> BlockDocument:
    """A check that is inconclusive, or the step that a `when` which cannot be evaluated fails."""
    shape = context.bundle.plan.shape
    if shape.is_when(block):
        return step_failure(shape.step_of_when(block), failure, [])
    return requirement_failure(block, failure)


def is_small(value: Any, limit: int) -> bool:
    """Whether a JSON value holds no more than `limit` values; looks at no more than that many."""
    weight = 0
    pending = [value]
    while pending:
        item = pending.pop()
        weight += 1
        if isinstance(item, str):
            weight += len(item) // _CHARACTERS
        elif isinstance(item, int):
            weight += item.bit_length() // _CHARACTERS
        elif isinstance(item, dict | list):
            if len(item) > limit - weight:
                return False
            pending.extend(item.values() if isinstance(item, dict) else item)
        if weight > limit:
            return False
    return True
