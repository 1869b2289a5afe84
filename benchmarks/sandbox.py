"""What one code check costs: on a worker that waits for it, and on one that must be started first."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from activities.folder import Folder
from activities.sandbox import CodeCall, Sandbox
from activities.sandbox.bubblewrap import Bubblewrap, unprivileged
from activities.sandbox.worker import Worker

_CHECK = """\
def check(ticket):
    missing = [field for field in ("answer", "order_id") if not ticket.get(field)]
    return {
        "outcome": "failed" if missing else "passed",
        "reason": "missing " + ", ".join(missing) if missing else "all fields present",
        "citations": [{"slot": "ticket", "locator": {"json_pointer": ""}}],
    }
"""
_CALL = CodeCall(
    source=_CHECK,
    entrypoint="check",
    inputs={"ticket": {"answer": "yes", "order_id": "A-1"}},
    timeout=10,
    seed="0f" * 32,
    now=datetime(2026, 1, 1, tzinfo=UTC),
)


async def _median_ms(work: Callable[[], Awaitable[object]], times: int) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - start) * 1000)
    return round(statistics.median(taken), 2)


async def _cold_ms() -> float:
    folder = Folder(unprivileged())
    try:
        wall = await Bubblewrap.prepare(folder)

        async def started_for_one_call() -> None:
            worker = await Worker.start(wall, folder)
            try:
                await worker.run(_CALL)
            finally:
                await worker.stop()

        return await _median_ms(started_for_one_call, 10)
    finally:
        folder.remove()


async def _measured() -> dict[str, object]:
    start = time.perf_counter()
    sandbox = await Sandbox.start(allow_wasm=False)
    start_ms = round((time.perf_counter() - start) * 1000, 1)
    if sandbox.engine == "none":
        return {"engine": "none", "unavailable": sandbox.unavailable}
    try:
        await sandbox.call(_CALL)
        warm = await _median_ms(lambda: sandbox.call(_CALL), 200)
        start = time.perf_counter()
        await asyncio.gather(*(sandbox.call(_CALL) for _ in range(200)))
        throughput = round(200 / (time.perf_counter() - start))
    finally:
        await sandbox.close()
    return {
        "engine": "bubblewrap",
        "start_with_self_test_ms": start_ms,
        "cold_ms_per_call": await _cold_ms(),
        "warm_ms_per_call": warm,
        "calls_per_second": throughput,
    }


def measure() -> dict[str, object]:
    """Medians of a call in milliseconds, warm and cold (its worker started first), and the whole start."""
    return asyncio.run(_measured())
