"""An engine runs code only after it withstood the self-test; without one, no code runs."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
import seccompy

from activities.folder import Folder, reachable
from activities.sandbox import Sandbox
from activities.sandbox.bubblewrap import Bubblewrap, unprivileged
from activities.sandbox.runtime import Runtime
from engine.failure import ReasonKind
from tests.activities.sandbox.host import code, outcome

OPEN_FILTER = seccompy.Filter(default=seccompy.Action.ALLOW).program


class Blind(Bubblewrap):
    """A wall that does not look at itself, so that the attacks of the self-test must find the hole."""

    def objections(self, facts: dict[str, object]) -> list[str]:
        return []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wall() -> AsyncIterator[Bubblewrap]:
    folder = Folder(unprivileged())
    yield await Bubblewrap.prepare(folder)
    folder.remove()


def without(wall: Bubblewrap, *flags: str, adding: Sequence[str] = ()) -> tuple[str, ...]:
    return (*(flag for flag in wall.wall if flag not in flags), *adding)


def removed(path: Path) -> bool:
    """Remove it; whether it was there."""
    found = path.exists()
    path.unlink(missing_ok=True)
    return found


async def refused(wall: Bubblewrap) -> str:
    """Start with that wall alone, which must not do; why it was refused."""
    sandbox = await Sandbox.start(workers=1, walls=[wall])
    end = await outcome(sandbox, code("def check(): return 1"))
    await sandbox.close()
    assert (sandbox.engine, sandbox.python_version) == ("none", "")
    assert (end.kind, end.reason) == (ReasonKind.SANDBOX_UNAVAILABLE, sandbox.unavailable)
    return sandbox.unavailable


@pytest.mark.asyncio(loop_scope="module")
async def test_prepared_wall_is_accepted(wall: Bubblewrap) -> None:
    sandbox = await Sandbox.start(workers=1, walls=[wall])
    try:
        assert (sandbox.engine, sandbox.unavailable) == ("bubblewrap", "")
        assert sandbox.python_version == sys.version.split()[0]
    finally:
        await sandbox.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("flags", "adding", "objection"),
    [
        (["--unshare-net"], [], "interfaces is"),
        ([], ["--bind", "/tmp", "/tmp"], "/tmp is visible"),
        ([], ["--ro-bind", "/etc", "/etc"], "/etc is visible"),
        ([], ["--proc", "/proc"], "/proc is visible"),
        (["--disable-userns"], [], "namespaces is True"),
    ],
)
async def test_wall_with_one_hole_is_refused_by_what_it_sees_of_itself(
    flags: list[str], adding: list[str], objection: str, wall: Bubblewrap
) -> None:
    weak = dataclasses.replace(wall, wall=without(wall, *flags, adding=adding))
    reason = await refused(weak)
    assert "bubblewrap does not confine" in reason
    assert objection in reason


@pytest.mark.asyncio(loop_scope="module")
async def test_self_test_finds_that_system_calls_are_not_filtered(wall: Bubblewrap) -> None:
    reason = await refused(dataclasses.replace(wall, program=OPEN_FILTER))
    assert "bubblewrap failed its self-test" in reason
    assert "a signal succeeded" in reason


@pytest.mark.asyncio(loop_scope="module")
async def test_self_test_finds_network_files_and_environment_that_leak(wall: Bubblewrap) -> None:
    pwned = Path("/tmp/written")
    holes = ["--bind", "/tmp", "/tmp", "--ro-bind", "/etc", "/etc", "--setenv", "LEAK", "x"]
    members = {field.name: getattr(wall, field.name) for field in dataclasses.fields(wall)}
    members |= {"program": OPEN_FILTER, "wall": without(wall, "--unshare-net", adding=holes)}
    reason = await refused(Blind(**members))
    assert removed(pwned)
    for breach in (
        "a network connection succeeded",
        "a datagram succeeded",
        "a connection reached the host",
        "writing /tmp/written succeeded",
        "reading /etc/passwd succeeded",
    ):
        assert breach in reason


def unlimited(inside: Path, folder: Folder) -> Path:
    """The same code for the inside, but for the line that sets the limits."""
    changed = folder.new("weak")
    (changed / "inside").mkdir(mode=0o755)
    for module in (inside / "inside").iterdir():
        text = module.read_text(encoding="utf-8")
        text = text.replace("resource.setrlimit(limit, (soft, hard))", "pass")
        (changed / "inside" / module.name).write_text(text, encoding="utf-8")
    return changed


@pytest.mark.asyncio(loop_scope="module")
async def test_self_test_finds_that_limits_do_not_hold(wall: Bubblewrap) -> None:
    folder = Folder(unprivileged())
    try:
        weak = dataclasses.replace(wall, inside=unlimited(wall.inside, folder))
        reason = await refused(weak)
    finally:
        folder.remove()
    assert "1 GiB of memory was not stopped" in reason


async def test_without_an_engine_no_code_runs_and_the_reason_is_told(tmp_path: Path) -> None:
    broken = Bubblewrap(Path("/bin/false"), Runtime((), ()), tmp_path, b"")
    gone = Bubblewrap(tmp_path / "no-such-bwrap", Runtime((), ()), tmp_path, b"")
    for wall, said in ((broken, "it ended without a word"), (gone, "no-such-bwrap")):
        assert said in await refused(wall)
    sandbox = await Sandbox.start(walls=[])
    target = tmp_path / "ran"
    end = await outcome(sandbox, code(f"open({str(target)!r}, 'w')\ndef check(): return 1"))
    assert end.kind is ReasonKind.SANDBOX_UNAVAILABLE
    assert not target.exists()


async def test_workers_must_be_at_least_one() -> None:
    with pytest.raises(ValueError):
        await Sandbox.start(workers=0)


_AS_SOMEBODY = """
import asyncio, os, sys
from tests.activities.sandbox.host import code
from activities.sandbox import Sandbox

async def main():
    sandbox = await Sandbox.start(workers=1, allow_wasm=False)
    assert sandbox.engine == "bubblewrap", sandbox.unavailable
    source = "import sys, os, decimal\\ndef check(): return [sys.version.split()[0], os.getuid()]"
    reply = await sandbox.call(code(source))
    assert reply.value == [sys.version.split()[0], 65534], reply
    await sandbox.close()

asyncio.run(main())
"""


_BECOME = """
import os, sys
os.setgroups([])
os.setgid(12345)
os.setuid(12345)
os.execv(sys.argv[1], sys.argv[1:])
"""


def _shared_python() -> Path | None:
    """A Python of this version that any user can start, with the packages this one sees."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (Path(sys.executable), Path("/usr/bin", version), Path("/usr/local/bin", version)):
        if candidate.exists() and reachable(candidate) and reachable(Path(seccompy.__file__)):
            return candidate
    return None


@pytest.mark.parametrize("root", [False, True], ids=["ordinary user", "as we are"])
def test_works_with_a_python_of_the_system_and_as_an_ordinary_user(root: bool) -> None:
    python = _shared_python()
    if python is None:
        pytest.skip("no Python here can be started by another user")
    # Not by `subprocess`, which forks in this process for it: other tests have threads here.
    become = [] if root or os.geteuid() != 0 else [sys.executable, "-I", "-c", _BECOME]
    done = subprocess.run(
        [*become, str(python), "-c", _AS_SOMEBODY],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HOME": "/"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
