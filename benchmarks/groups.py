"""Groups: signals a second, what thousands of quiet ones cost, and how fast those are judged that are due."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
from temporalio.client import Client
from temporalio.worker import Worker

from benchmarks.bare_group import BareGroup
from benchmarks.conversations import Conversations
from benchmarks.stack import Target, stack
from benchmarks.submit import ours as submits
from wyrd.wire.ids import uuid7

AN_HOUR = 3600
SOON = 20
"""Seconds of quiet that leave the relay time to tell a thousand workflows before they are due."""
IDLE_SECONDS = 20.0
_AT_ONCE = 32
_LOOK_SECONDS = 0.1
_LONGEST_SECONDS = 900.0
_SETTLING_SECONDS, _SLACK = 120.0, 0.05


@dataclass(frozen=True)
class Server:
    """The processes of a stack, by what they are: temporal, api, worker."""

    processes: dict[str, psutil.Process]

    @classmethod
    def running(cls) -> Server:
        """Those below this process."""
        found = {}
        for process in psutil.Process().children(recursive=True):
            words = " ".join(process.cmdline())
            if "start-dev" in words:
                found["temporal"] = process
            elif "uvicorn" in words:
                found["api"] = process
            elif words.endswith("worker.py"):
                found["worker"] = process
        return cls(found)

    def megabytes(self) -> dict[str, float]:
        return {name: one.memory_info().rss / 1e6 for name, one in self.processes.items()}

    def cpu_seconds(self) -> dict[str, float]:
        times = {name: one.cpu_times() for name, one in self.processes.items()}
        return {name: spent.user + spent.system for name, spent in times.items()}

    def cpu_share(self, seconds: float) -> dict[str, float]:
        """Seconds of processor time that each process uses in a second, over a stretch of time."""
        before, began = self.cpu_seconds(), time.perf_counter()
        time.sleep(seconds)
        taken = time.perf_counter() - began
        return {name: (spent - before[name]) / taken for name, spent in self.cpu_seconds().items()}

    def settle(self, usual: float) -> None:
        """Wait until the processes use little more processor time than `usual` seconds a second: workflows
        that were told of their group have yet to begin to sleep. Gives up after two minutes."""
        deadline = time.monotonic() + _SETTLING_SECONDS
        while sum(self.cpu_share(3).values()) > usual + _SLACK and time.monotonic() < deadline:
            continue


def _signals(target: Target, count: int) -> dict[str, float]:
    """Due times a second that reach their workflows: of groups without one, then of those same groups."""
    names = [f"told-{number}" for number in range(count)]
    with closing(Conversations(target, AN_HOUR)) as conversations:

        def told() -> float:
            began = time.perf_counter()
            conversations.record(names)
            _until(lambda: conversations.waiting().told >= count)
            return count / (time.perf_counter() - began)

        return {"started_per_second": told(), "signals_per_second": told()}


async def _bare_signals(address: str, count: int) -> dict[str, float]:
    """The same by nothing but signal-with-start, as many at once as the relay has under way."""
    client = await Client.connect(address)
    ids = [f"bare-{uuid7()}" for _ in range(count)]

    async def send(left: Iterator[str]) -> None:
        for workflow_id in left:
            await client.start_workflow(
                BareGroup.run,
                id=workflow_id,
                task_queue="bench-bare-groups",
                start_signal="due",
                start_signal_args=[time.time()],
            )

    async def rate() -> float:
        left, began = iter(ids), time.perf_counter()
        await asyncio.gather(*(send(left) for _ in range(_AT_ONCE)))
        return count / (time.perf_counter() - began)

    async with Worker(client, task_queue="bench-bare-groups", workflows=[BareGroup]):
        found = {"bare_started_per_second": await rate(), "bare_signals_per_second": await rate()}
        for workflow_id in ids:
            # They would be in the way of what is measured next.
            await client.get_workflow_handle(workflow_id).terminate()
    return found


def _due_at_once(target: Target, count: int) -> dict[str, float]:
    with closing(Conversations(target, SOON)) as conversations:
        conversations.record([f"due-{number}" for number in range(count)])
        due_at = conversations.first_due()
        _until(lambda: conversations.judged()[0] >= count)
        last = conversations.judged()[1]
    assert last is not None
    return {"judged_per_second": count / ((last - due_at) / timedelta(seconds=1))}


def _quiet(target: Target, server: Server, count: int) -> dict[str, float]:
    """What groups cost that nothing happens to: memory and rows a group, processor time of all of them."""
    temporal_file = Path(target.home) / "temporal.db"
    with closing(Conversations(target, AN_HOUR + 1)) as conversations:
        server.settle(0.0)
        idle = server.cpu_share(IDLE_SECONDS)
        memory, rows = server.megabytes(), conversations.rows()
        pages, kept = conversations.table_bytes(), temporal_file.stat().st_size
        began = time.perf_counter()
        for start in range(0, count, 500):
            conversations.record([f"quiet-{number}" for number in range(start, min(start + 500, count))])
        _until(lambda: conversations.waiting().told >= count)
        found = {"quiet_groups": float(count), "quiet_set_up_seconds": time.perf_counter() - began}
        server.settle(sum(idle.values()))
        for name, after in server.megabytes().items():
            found[f"{name}_mb_before"], found[f"{name}_mb_after"] = memory[name], after
            found[f"{name}_kb_a_group"] = (after - memory[name]) * 1000 / count
        found["rows_a_group"] = (conversations.rows() - rows) / count
        found["database_kb_a_group"] = (conversations.table_bytes() - pages) / 1000 / count
        found["temporal_file_kb_a_group"] = (temporal_file.stat().st_size - kept) / 1000 / count
        for name, share in server.cpu_share(IDLE_SECONDS).items():
            found[f"{name}_idle_cpu_percent_before"] = idle[name] * 100
            found[f"{name}_idle_cpu_percent"] = share * 100
        assert conversations.waiting().due == count, "none of them was due while it was watched"
    found["idle_cpu_percent"] = sum(found[f"{name}_idle_cpu_percent"] for name in server.processes)
    found["idle_cpu_percent_before"] = sum(idle.values()) * 100
    return found


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError("the groups were not done in time")
        time.sleep(_LOOK_SECONDS)


def measure(told: int = 500, due: int = 1000, quiet: int = 10_000) -> dict[str, Any]:
    """Signals and judgements a second, each beside its floor on the same server, and the idle cost."""
    with stack() as target:
        server = Server.running()
        floor = asyncio.run(_bare_signals(target.temporal, told))
        found: dict[str, Any] = {**floor, **_signals(target, told)}
        found["submits_per_second"] = asyncio.run(submits(target, 200))["per_second"]
        found |= _due_at_once(target, due)
        found |= _quiet(target, server, quiet)
    return found
