"""Heartbeats of an activity: what tells one that takes long from one whose worker was lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from temporalio import activity

BEAT_SECONDS = 1.0


@contextlib.asynccontextmanager
async def beating(beat: Callable[[], None] = activity.heartbeat) -> AsyncIterator[None]:
    """Call `beat` now and every second, for as long as the block runs."""

    async def beats() -> None:
        while True:
            beat()
            await asyncio.sleep(BEAT_SECONDS)

    task = asyncio.create_task(beats())
    try:
        yield
    finally:
        task.cancel()
