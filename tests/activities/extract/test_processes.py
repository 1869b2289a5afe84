from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest

from activities.extract import check_format, extract_file
from engine.failure import BlockFailure, ReasonKind
from tests.activities.extract.conftest import Files
from tests.activities.extract.documents import pdf

ROOT = Path(__file__).parents[3]


async def only_child(parent: psutil.Process) -> psutil.Process:
    """The process of the one file under way, once those of earlier files are gone."""
    while True:
        found = [child for child in parent.children() if child.status() != psutil.STATUS_ZOMBIE]
        if len(found) == 1:
            return found[0]
        await asyncio.sleep(0.01)


async def zygote(files: Files) -> psutil.Process:
    """The process that forks one child a file, started if need be."""
    await files.check(b"x", "text")
    found = [
        child
        for child in psutil.Process().children()
        if "activities.extract.zygote" in " ".join(child.cmdline())
    ]
    assert len(found) == 1
    return found[0]


class Stalled:
    """A file that never gives its bytes, as in a store that does not answer."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._writers: list[IO[bytes]] = []

    async def opened(self) -> None:
        """Wait until somebody reads it: the kernel lets a writer in only then."""
        self._writers.append(await asyncio.to_thread(open, self.path, "wb", 0))

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@pytest.fixture
def stalled(tmp_path: Path) -> Iterator[Stalled]:
    file = Stalled(tmp_path / "stalled")
    yield file
    file.close()


async def test_p16_a_read_that_hangs_is_killed_at_its_limit(files: Files, stalled: Stalled) -> None:
    parent = await zygote(files)
    with pytest.raises(BlockFailure) as failure:
        await extract_file(stalled.path, "pdf", timeout=0.2)
    assert failure.value.kind is ReasonKind.TIMEOUT
    assert "0.2 s" in failure.value.reason
    assert parent.children() == []


async def test_p16_work_that_never_ends_is_killed_at_its_limit(files: Files) -> None:
    parent = await zygote(files)
    path = files.write(b"[" + b"[],[]," * 8_000_000 + b"[]]")
    with pytest.raises(BlockFailure) as failure:
        await extract_file(path, "json", timeout=0.3)
    assert failure.value.kind is ReasonKind.TIMEOUT
    assert parent.children() == []


async def test_p16_stuck_files_do_not_hold_up_a_sound_one(files: Files, tmp_path: Path) -> None:
    stalled = [Stalled(tmp_path / f"stalled-{number}") for number in range(8)]
    stuck = [asyncio.create_task(extract_file(file.path, "pdf", timeout=60)) for file in stalled]
    for file in stalled:
        await file.opened()
    assert (await files.output(pdf("refund 90"), "pdf"))["pages"][0]["text"] == "refund 90"
    for task in stuck:
        task.cancel()
    outcomes = await asyncio.gather(*stuck, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    for file in stalled:
        file.close()


async def test_a_cancelled_extraction_leaves_no_process(files: Files, stalled: Stalled) -> None:
    parent = await zygote(files)
    task = asyncio.create_task(extract_file(stalled.path, "pdf", timeout=60))
    await stalled.opened()
    child = await only_child(parent)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gone, alive = await asyncio.to_thread(psutil.wait_procs, [child], 10)
    assert (len(gone), alive) == (1, [])


async def test_a_parser_that_dies_makes_the_file_unreadable(files: Files, stalled: Stalled) -> None:
    parent = await zygote(files)
    task = asyncio.create_task(extract_file(stalled.path, "pdf", timeout=60))
    await stalled.opened()
    child = await only_child(parent)
    child.send_signal(signal.SIGSEGV)
    with pytest.raises(BlockFailure, match="died on the file \\(SIGSEGV\\)") as failure:
        await task
    assert failure.value.kind is ReasonKind.EVIDENCE_UNREADABLE


async def test_memory_over_the_limit_is_a_limit_and_not_a_crash(files: Files) -> None:
    reason = await files.limit(b"[" + b"[]," * 21_000_000 + b"[]]", "json")
    assert "1 GiB of memory" in reason


async def test_a_lost_zygote_may_be_tried_again_and_is_replaced(files: Files, stalled: Stalled) -> None:
    parent = await zygote(files)
    task = asyncio.create_task(extract_file(stalled.path, "pdf", timeout=60))
    await stalled.opened()
    child = await only_child(parent)
    parent.kill()
    with pytest.raises(BlockFailure) as failure:
        await task
    assert failure.value.kind is ReasonKind.WORKER_LOST
    assert failure.value.retryable
    gone, alive = await asyncio.to_thread(psutil.wait_procs, [child], 10)
    assert (len(gone), alive) == (1, [])
    assert (await zygote(files)).pid != parent.pid


async def test_a_file_that_is_gone_is_our_fault(tmp_path: Path) -> None:
    with pytest.raises(BlockFailure) as failure:
        await check_format(tmp_path / "nothing", "text", timeout=10)
    assert failure.value.kind is ReasonKind.INTERNAL


async def test_no_secret_reaches_the_reading_process(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYRD_SECRET_KEY", "do not inherit")
    parent = await zygote(files)
    parent.kill()
    await asyncio.to_thread(psutil.wait_procs, [parent], 10)
    environment = (await zygote(files)).environ()
    assert set(environment) <= {"LD_LIBRARY_PATH", "LC_CTYPE"}


def _script(body: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(body), *arguments]


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "sdk"), str(ROOT)))}


async def test_no_process_outlives_a_killed_parent(stalled: Stalled) -> None:
    script = """
        import asyncio, pathlib, sys, psutil
        from activities.extract import extract_file

        async def main():
            task = asyncio.create_task(extract_file(pathlib.Path(sys.argv[1]), "pdf", timeout=60))
            # The kernel lets a writer in only when the reading process has opened the file.
            writer = await asyncio.to_thread(open, sys.argv[1], "wb", 0)
            found = psutil.Process().children(recursive=True)
            sys.stdout.write(" ".join(str(process.pid) for process in found) + "\\n")
            sys.stdout.flush()
            await task

        asyncio.run(main())
    """
    process = await asyncio.create_subprocess_exec(
        *_script(script, str(stalled.path)), stdout=subprocess.PIPE, env=_environment()
    )
    assert process.stdout is not None
    processes = [psutil.Process(int(pid)) for pid in (await process.stdout.readline()).split()]
    assert len(processes) == 2
    process.kill()
    await process.wait()
    gone, alive = await asyncio.to_thread(psutil.wait_procs, processes, 10)
    assert (len(gone), alive) == (2, [])


async def test_a_program_that_extracted_ends_quietly(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"refund 90")
    script = """
        import asyncio, pathlib, sys
        from activities.extract import extract_file

        found = asyncio.run(extract_file(pathlib.Path(sys.argv[1]), "text", timeout=60))
        again = asyncio.run(extract_file(pathlib.Path(sys.argv[1]), "text", timeout=60))
        sys.exit(found.output != again.output)
    """
    process = await asyncio.create_subprocess_exec(
        *_script(script, str(tmp_path / "a.txt")),
        stderr=subprocess.PIPE,
        env=_environment() | {"PYTHONWARNINGS": "error"},
    )
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")
async def test_a_sealed_process_opens_nothing_and_starts_nothing() -> None:
    script = """
        import os, socket, sys
        from activities.extract.confine import Confinement

        confinement = Confinement()
        confinement.limit(30.0, os.getppid())
        confinement.seal()
        attempts = {
            "read": lambda: open("/etc/passwd", "rb"),
            "write": lambda: open(os.devnull, "wb"),
            "network": lambda: socket.socket(),
            "fork": os.fork,
            "program": lambda: os.execv("/bin/true", ["true"]),
            "signal": lambda: os.kill(os.getppid(), 0),
            "list": lambda: os.listdir("/"),
        }
        for name, attempt in attempts.items():
            try:
                attempt()
            except PermissionError:
                continue
            os.write(1, name.encode())
            os._exit(1)
        os.write(1, b"sealed")
        os._exit(0)
    """
    process = await asyncio.create_subprocess_exec(
        *_script(script), stdout=subprocess.PIPE, env=_environment()
    )
    output, _ = await process.communicate()
    assert output == b"sealed"


async def test_the_event_loop_runs_on_while_a_file_is_read(files: Files) -> None:
    path = files.write(("refund of ninety euros\n" * 1_000_000).encode("utf-8"))
    task = asyncio.create_task(extract_file(path, "text", timeout=60))
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 100
    assert (await task).output["format"] == "text"


async def test_many_files_at_once_each_get_their_own_answer(files: Files) -> None:
    outputs = await asyncio.gather(
        *(files.output(f"file {number}".encode(), "text") for number in range(200))
    )
    assert [output["text"] for output in outputs] == [f"file {number}" for number in range(200)]
