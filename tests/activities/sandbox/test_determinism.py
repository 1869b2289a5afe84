# ruff: noqa: E501 - the sources read best with their line breaks where Python has them
"""The same call gives the same answer, whichever worker runs it and whenever."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from activities.sandbox import Sandbox
from tests.activities.sandbox.host import NOW, code

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANCE_ORDER_AND_CLOCK = """
import datetime, os, random, secrets, tempfile, time, uuid
def check():
    return {
        "random": [random.random(), random.randrange(10**9), random.Random().random(), random.SystemRandom().random()],
        "sampled": random.sample(range(1000), 5),
        "kernel": [os.urandom(8).hex(), secrets.token_hex(8), str(uuid.uuid4()), str(uuid.uuid1())],
        "hash": [hash("text"), hash(b"bytes"), hash((1, "a"))],
        "order": [str(item) for item in {"b", "a", "c", None, 1.5, int, len, frozenset("xy")}],
        "clock": [time.time(), time.time_ns(), time.ctime(), time.strftime("%H:%M:%S"), list(time.localtime())[:6],
                  time.clock_gettime(time.CLOCK_REALTIME), str(datetime.datetime.now()), str(datetime.date.today()),
                  str(datetime.datetime.today()), datetime.datetime.now(datetime.timezone.utc).timestamp()],
        "counters": [time.monotonic(), time.perf_counter(), time.process_time(), time.monotonic_ns()],
        "process": [os.getpid(), os.getppid()],
    }
"""


async def test_chance_hash_order_and_clock_give_the_same_answer_in_every_process(sandbox: Sandbox) -> None:
    call = code(CHANCE_ORDER_AND_CLOCK)
    first = (await sandbox.call(call)).value
    second = (await sandbox.call(call)).value
    other = await Sandbox.start(workers=1, allow_wasm=False)
    try:
        third = (await other.call(call)).value
    finally:
        await other.close()
    assert first == second == third


async def test_every_clock_reads_the_start_and_nothing_advances(sandbox: Sandbox) -> None:
    source = """
import datetime, time
def check():
    def read():
        return [time.time_ns(), time.time(), time.gmtime()[:6], datetime.datetime.utcnow().isoformat(),
                datetime.datetime.now(datetime.timezone.utc).isoformat(), datetime.date.today().isoformat()]
    before = read()
    time.sleep(0.05)
    return [before == read(), *before]
"""
    reply = (await sandbox.call(code(source))).value
    nanoseconds = int(NOW.timestamp()) * 10**9 + NOW.microsecond * 1000
    assert reply == [
        True,
        nanoseconds,
        nanoseconds / 10**9,
        list(NOW.utctimetuple()[:6]),
        NOW.replace(tzinfo=None).isoformat(),
        NOW.isoformat(),
        NOW.date().isoformat(),
    ]


async def test_moment_before_1970_is_kept(sandbox: Sandbox) -> None:
    moment = NOW - timedelta(days=365 * 100)
    source = "import datetime\ndef check(): return datetime.datetime.now(datetime.timezone.utc).isoformat()"
    assert (await sandbox.call(code(source, now=moment))).value == moment.isoformat()


async def test_another_seed_gives_other_chance_and_the_same_clock(sandbox: Sandbox) -> None:
    first = (await sandbox.call(code(CHANCE_ORDER_AND_CLOCK))).value
    second = (await sandbox.call(code(CHANCE_ORDER_AND_CLOCK, seed="ab" * 32))).value
    for member in ("random", "sampled", "kernel"):
        assert first[member] != second[member]
    for member in ("hash", "order", "clock"):
        assert first[member] == second[member]


async def test_age_of_a_file_is_the_executions_start(sandbox: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x")
    source = "import os\ndef check(path): return os.stat(path).st_mtime_ns"
    call = code(source, inputs={"path": Sandbox.path_of("f")}, files={"f": file})
    assert (await sandbox.call(call)).value == call.nanoseconds
