"""Workers come, serve, are killed and replaced; nothing of them outlives the process that started them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
import uvloop

from activities.sandbox import CodeCall, Sandbox, pool
from engine.failure import BlockFailure, ReasonKind
from tests.activities.sandbox.host import code, outcome, processes, until

ENDLESS = "def check():\n while True: pass"
HEALTHY = code("def check(): return 'healthy'")


@pytest_asyncio.fixture
async def own() -> AsyncIterator[Sandbox]:
    """A sandbox that the test may break."""
    running = await Sandbox.start(workers=2, allow_wasm=False)
    assert running.engine == "bubblewrap", running.unavailable
    yield running
    await running.close()


def there(path: Path) -> bool:
    return path.exists()


def spinning() -> list[psutil.Process]:
    """Processes of ours that have a call's process below them: zygotes at work."""
    found = []
    for process in processes():
        try:
            if process.name().startswith("python") and process.children():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


async def test_p16_endless_calls_are_cut_off_and_a_healthy_one_is_served(own: Sandbox) -> None:
    endless = [outcome(own, code(ENDLESS, timeout=0.3)) for _ in range(8)]
    *cut, healthy = await asyncio.gather(*endless, outcome(own, HEALTHY))
    assert [end.kind for end in cut] == [ReasonKind.TIMEOUT] * 8
    assert healthy.value == "healthy"


async def test_event_loop_stays_free_while_code_runs(own: Sandbox) -> None:
    turns = 0
    call = asyncio.create_task(outcome(own, code(ENDLESS, timeout=0.3)))
    while not call.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert (await call).kind is ReasonKind.TIMEOUT
    assert turns > 20


async def test_cancelled_call_is_killed_and_its_place_filled(own: Sandbox) -> None:
    before = {process.pid for process in processes()}
    call = asyncio.create_task(own.call(code(ENDLESS, timeout=60)))
    await until(lambda: bool(spinning()))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not spinning())
    assert [await outcome(own, HEALTHY) for _ in range(4)] == [await outcome(own, HEALTHY)] * 4
    await until(lambda: len(processes()) == len(before))


async def test_cancelled_wait_for_a_worker_takes_no_worker_along(own: Sandbox) -> None:
    running = [asyncio.create_task(outcome(own, code(ENDLESS, timeout=0.3))) for _ in range(2)]
    await until(lambda: len(spinning()) == 2)
    waiting = asyncio.create_task(own.call(HEALTHY))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(*running, waiting, return_exceptions=True)
    served = await asyncio.gather(*(outcome(own, HEALTHY) for _ in range(4)))
    assert [end.value for end in served] == ["healthy"] * 4


async def test_worker_killed_from_outside_fails_its_call_retryably_and_is_replaced(own: Sandbox) -> None:
    call = asyncio.create_task(own.call(code(ENDLESS, timeout=60)))
    await until(lambda: bool(spinning()))
    spinning()[0].kill()
    with pytest.raises(BlockFailure) as caught:
        await call
    assert (caught.value.kind, caught.value.retryable) == (ReasonKind.SANDBOX_FAILED, True)
    assert (await outcome(own, HEALTHY)).value == "healthy"


async def test_worker_killed_while_it_waits_costs_no_call(own: Sandbox) -> None:
    for process in processes():
        # A worker takes those below it along.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    await until(lambda: not processes())
    ends = await asyncio.gather(*(outcome(own, HEALTHY) for _ in range(4)))
    assert [end.value for end in ends] == ["healthy"] * 4


async def test_worker_is_replaced_after_its_share_of_calls(
    own: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CALLS_PER_WORKER", 1)
    before = {process.pid for process in processes()}
    assert [(await outcome(own, HEALTHY)).value for _ in range(4)] == ["healthy"] * 4
    await until(lambda: not before & {process.pid for process in processes()})
    assert (await outcome(own, HEALTHY)).value == "healthy"


async def test_descriptors_do_not_pile_up(own: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x")
    calls = [HEALTHY, code(ENDLESS, timeout=0.05), code("def check(): return 1", files={"f": file})]
    await outcome(own, HEALTHY)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        for call in calls:
            await outcome(own, call)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_close_ends_calls_and_processes_and_leaves_no_folder(tmp_path: Path) -> None:
    sandbox = await Sandbox.start(workers=1, allow_wasm=False)
    folder = sandbox._folder
    assert folder is not None
    assert folder.path.is_dir()
    running = asyncio.create_task(outcome(sandbox, code(ENDLESS, timeout=60)))
    waiting = [asyncio.create_task(outcome(sandbox, HEALTHY)) for _ in range(3)]
    await until(lambda: bool(spinning()))
    await sandbox.close()
    await sandbox.close()
    assert (await running).kind is ReasonKind.SANDBOX_FAILED
    assert {(await end).kind for end in waiting} == {ReasonKind.SANDBOX_UNAVAILABLE}
    assert (await outcome(sandbox, HEALTHY)).kind is ReasonKind.SANDBOX_UNAVAILABLE
    assert not folder.path.exists()
    await until(lambda: not processes())


async def test_sandboxed_processes_hold_nothing_of_our_environment_and_are_not_root(
    own: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WYRD_SECRET_KEY", "canary")
    monkeypatch.setattr(pool, "CALLS_PER_WORKER", 1)
    await outcome(own, HEALTHY)  # whose worker is replaced by one started now
    await outcome(own, HEALTHY)
    await until(lambda: len(processes()) == 6)
    for process in processes():
        assert "canary" not in str(process.environ())
        assert "WYRD_SECRET_KEY" not in process.environ()
        assert process.uids().effective == (65534 if os.geteuid() == 0 else os.geteuid())


_VICTIM = """
import asyncio, sys
from tests.activities.sandbox.host import code
from activities.sandbox import Sandbox

async def main():
    sandbox = await Sandbox.start(workers=2, allow_wasm=False)
    endless = code("def check():\\n while True: pass", timeout=600)
    calls = [asyncio.create_task(sandbox.call(endless)) for _ in range(2)]
    sys.stdout.write(str(sandbox._folder.path) + "\\n")
    sys.stdout.flush()
    await asyncio.gather(*calls)

asyncio.run(main())
"""


async def test_killed_host_process_leaves_no_sandboxed_process_and_its_folder_is_swept() -> None:
    victim = await asyncio.to_thread(
        subprocess.Popen,
        [sys.executable, "-c", _VICTIM],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert victim.stdout is not None
    folder = Path((await asyncio.to_thread(victim.stdout.readline)).decode().strip())
    # Two walls of two processes, two zygotes, two calls at work.
    await until(lambda: len(psutil.Process(victim.pid).children(recursive=True)) == 8)
    below = psutil.Process(victim.pid).children(recursive=True)
    assert there(folder)
    victim.send_signal(signal.SIGKILL)
    await asyncio.to_thread(victim.wait)
    victim.stdout.close()
    _, alive = await asyncio.to_thread(psutil.wait_procs, below, timeout=20)
    assert alive == []
    after = await Sandbox.start(workers=1, allow_wasm=False)
    await after.close()
    assert not there(folder)


async def test_calls_of_different_callers_wait_in_order(own: Sandbox) -> None:
    order: list[int] = []

    async def one(number: int) -> None:
        await own.call(HEALTHY)
        order.append(number)

    blocked = [asyncio.create_task(outcome(own, code(ENDLESS, timeout=0.2))) for _ in range(2)]
    await until(lambda: len(spinning()) == 2)
    await asyncio.gather(*(one(number) for number in range(6)), *blocked)
    assert sorted(order) == list(range(6))


def test_call_is_immutable() -> None:
    call: CodeCall = HEALTHY
    with pytest.raises(AttributeError):
        call.source = "x"  # type: ignore[misc]


def test_works_on_the_servers_event_loop() -> None:
    async def served() -> list[object]:
        sandbox = await Sandbox.start(workers=1, allow_wasm=False)
        try:
            ends = [await outcome(sandbox, HEALTHY), await outcome(sandbox, code(ENDLESS, timeout=0.1))]
            return [ends[0].value, ends[1].kind]
        finally:
            await sandbox.close()

    assert uvloop.run(served()) == ["healthy", ReasonKind.TIMEOUT]
