"""Nothing of one call is there for another: files, memory, names."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from activities.sandbox import Sandbox
from engine.failure import ReasonKind
from tests.activities.sandbox.host import code, outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

LISTED = "import os\ndef check(): return sorted(os.listdir('/inputs'))"
READ = "def check(path):\n with open(path, encoding='utf-8') as file: return file.read()"


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


async def test_file_is_readable_by_its_call_alone(sandbox: Sandbox, tmp_path: Path) -> None:
    file = _file(tmp_path, "blob", "évidence")
    call = code(READ, inputs={"path": Sandbox.path_of("letter.md")}, files={"letter.md": file})
    assert (await sandbox.call(call)).value == "évidence"
    for _ in range(4):  # whichever worker serves
        assert (await sandbox.call(code(LISTED))).value == []
        assert (await outcome(sandbox, code(READ, inputs={"path": "/inputs/letter.md"}))).kind is (
            ReasonKind.CODE_FAILED
        )


async def test_file_cannot_be_written_even_though_it_is_a_copy(sandbox: Sandbox, tmp_path: Path) -> None:
    file = _file(tmp_path, "blob", "evidence")
    source = """
import os
def check(path):
    failed = []
    for attempt in (lambda: open(path, "a"), lambda: os.unlink(path), lambda: os.chmod(path, 0o666)):
        try:
            attempt()
        except OSError as error:
            failed.append(type(error).__name__)
    return failed
"""
    call = code(source, inputs={"path": Sandbox.path_of("f")}, files={"f": file})
    assert (await sandbox.call(call)).value == ["PermissionError"] * 3
    assert (file.read_text(encoding="utf-8"), file.stat().st_mode & 0o777) == ("evidence", 0o600)


async def test_concurrent_calls_see_their_own_files_only(sandbox: Sandbox, tmp_path: Path) -> None:
    source = "import os\ndef check(path):\n return [os.listdir('/inputs'), open(path).read()]"
    calls = []
    for number in range(12):
        name = f"tenant-{number}"
        file = _file(tmp_path, name, name)
        calls.append(code(source, inputs={"path": Sandbox.path_of(name)}, files={name: file}))
    replies = await asyncio.gather(*(sandbox.call(call) for call in calls))
    assert [reply.value for reply in replies] == [[[f"tenant-{n}"], f"tenant-{n}"] for n in range(12)]


async def test_files_of_a_killed_call_are_gone(sandbox: Sandbox, tmp_path: Path) -> None:
    file = _file(tmp_path, "blob", "evidence")
    ends = {
        "while True: pass": ReasonKind.TIMEOUT,
        "import os; os._exit(1)": ReasonKind.SANDBOX_FAILED,
        "import os\n while True: os.write(4, b'x' * 9999)": ReasonKind.LIMIT_EXCEEDED,
    }
    for body, kind in ends.items():
        call = code(f"def check():\n {body}", timeout=0.3, files={"f": file})
        assert (await outcome(sandbox, call)).kind is kind
    for _ in range(4):
        assert (await sandbox.call(code(LISTED))).value == []


async def test_missing_file_is_unreadable_evidence_and_the_next_call_is_served(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    there = _file(tmp_path, "there", "x")
    end = await outcome(sandbox, code(LISTED, files={"a": there, "b": tmp_path / "missing"}))
    assert end.kind is ReasonKind.EVIDENCE_UNREADABLE
    assert str(tmp_path) not in end.reason
    for _ in range(4):
        assert (await sandbox.call(code(LISTED))).value == []


async def test_what_a_call_changes_in_its_interpreter_is_gone_for_the_next(sandbox: Sandbox) -> None:
    change = """
import builtins, json, os, random, sys
def check():
    builtins.left = os.environ["LEFT"] = sys.modules["left"] = "left"
    json.loads = random.seed = None
    return "changed"
"""
    look = """
import builtins, json, os, random, sys
def check():
    kept = [hasattr(builtins, "left"), dict(os.environ), "left" in sys.modules]
    return [*kept, json.loads('1'), callable(random.seed)]
"""
    for _ in range(4):
        assert (await sandbox.call(code(change))).value == "changed"
        assert (await sandbox.call(code(look))).value == [False, {}, False, 1, True]


MEMORY = """
import gc, os, sys
def check(first, second):
    frame = sys._getframe()
    while "ctypes" not in frame.f_globals:
        frame = frame.f_back
    ctypes = frame.f_globals["ctypes"]
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    reading, writing = os.pipe()
    first, second, seen, found = first.encode(), second.encode(), set(), 0

    def pages(place, step):
        # The kernel copies from the address, or says that nothing is there.
        while place not in seen and libc.write(writing, ctypes.c_void_p(place), 4096) == 4096:
            seen.add(place)
            yield os.read(reading, 4096)
            place += step * 4096

    anchors = [libc.sbrk(0) - 1, *map(id, gc.get_objects()), *map(id, sys.modules.values()), id(first)]
    for anchor in anchors:
        start = anchor & ~0xFFF
        for place, step in ((start, 1), (start - 4096, -1)):
            for page in pages(place, step):
                for part in page.split(first)[1:]:
                    found += part.startswith(second)
    return [len(seen), found]
"""


async def test_evidence_of_an_earlier_call_is_not_in_memory(sandbox: Sandbox) -> None:
    first, second = "m4rk3r-" + "0123456789abcdef", "fedcba9876543210" * 2
    # Looking for it in its own call finds it: the search can find something.
    own = MEMORY.replace("for anchor in", "kept = first + second\n    for anchor in")
    seen, found = (await sandbox.call(code(own, inputs={"first": first, "second": second}))).value
    assert seen > 1000
    assert found > 0
    for _ in range(4):
        text = (first + second) * 100
        await sandbox.call(code("def check(text): return len(text)", inputs={"text": text}))
        seen, found = (await sandbox.call(code(MEMORY, inputs={"first": first, "second": second}))).value
        assert seen > 1000
        assert found == 0
