"""Slots that came while nothing could run them are judged late, each on its own window, once; those that
are too old by then are missed, and counted."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import ScheduleUpdate, ScheduleUpdateInput

from activities.drift.windows import schedule_id
from tests.e2e.drifting import Watch, custom, watch
from tests.e2e.stack import in_process, outcomes, requirement
from tests.servers import await_http, free_ports

MINUTE = timedelta(minutes=1)


class Temporal:
    """A Temporal server whose data outlive it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.http, self.metrics = free_ports(3)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[None]:
        command = [
            str(Path(sys.executable).parent / "temporal"),
            *("server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"),
            *("--db-filename", str(self.folder / "temporal.db"), "--port", str(self.port)),
            *("--http-port", str(self.http), "--metrics-port", str(self.metrics)),
        ]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)
            try:
                await_http(f"http://127.0.0.1:{self.http}", process, self.folder / "log")
                yield
            finally:
                process.kill()
                process.wait()


def minute_of(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


async def until(moment: datetime) -> None:
    await asyncio.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()))


async def catching_up_for(window: timedelta, found: Watch) -> None:
    """Let the Schedule of that binding miss what is older."""

    def changed(update: ScheduleUpdateInput) -> ScheduleUpdate:
        update.description.schedule.policy.catchup_window = window
        return ScheduleUpdate(schedule=update.description.schedule)

    identity = schedule_id(found.stack.tenant, found.binding_id)
    await found.stack.client.get_schedule_handle(identity).update(changed)


@pytest.mark.timeout(400)
async def test_p33_slots_of_an_outage_are_judged_late_each_on_its_own_window(tmp_path: Path) -> None:
    server = Temporal(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    options: dict[str, Any] = {"window_margin_seconds": 0.5}
    with server.running():
        async with in_process(home, server.address, **options) as stack:
            found = await watch(stack, custom("score", 0.0, 1.0), ["score"], cron="* * * * *")
            await found.scheduled()
            brief = await watch(stack, custom("score", 0.0, 1.0), ["score"], cron="* * * * *")
            await brief.scheduled()
            await catching_up_for(timedelta(seconds=10), brief)
            # One boundary comes while no worker runs, the next while Temporal does not.
            first = minute_of(datetime.now(UTC)) + MINUTE
            await found.record([{"score": 1.5}], first - MINUTE / 2)
            await found.record([{"score": 2.5}], first + MINUTE / 2)
        await until(first + timedelta(seconds=3))
    await until(first + MINUTE + timedelta(seconds=11))
    with server.running():
        async with in_process(home, server.address, **options) as stack:
            again, short = (replace(one, stack=stack) for one in (found, brief))
            late = await again.judged(first, first + MINUTE, timeout=120)
            scores = [
                requirement(one, "stays")["detail"]["drift"]["features"]["score"]["score"] for one in late
            ]
            assert scores == [2.5, 1.5]
            assert [outcomes(one) for one in late] == [{"stays": "failed"}] * 2
            status = await again.until(lambda status: status["health"]["status"] == "ok")
            ends = [slot["window_end"] for slot in status["slots"]]
            assert len(ends) == len(set(ends))
            assert status["health"]["slots_missed"] == 0
            # As for a slot of the others that is older than a day.
            await short.judged(first)
            missed = await short.until(lambda status: status["health"]["slots_missed"] > 0)
            assert missed["health"]["slots_missed"] == 1
            assert (first + MINUTE).isoformat() not in [slot["window_end"] for slot in missed["slots"]]
