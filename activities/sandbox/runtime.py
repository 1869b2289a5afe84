"""Which files of the host a Python inside the sandbox needs: its binary, standard library, shared libraries,
zones.

Found by asking, not by guessing: a short-lived Python imports what the sandbox will import and lists what the
loader opened. Works for a Python under /usr, for one under a home folder, and from within a virtual
environment.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from activities.folder import Folder
from wyrd.wire.canonical import JsonRefused, strict_loads

INSIDE = Path(__file__).parent / "inside"
PYTHON = "/python/bin/python3"
LIBRARIES = "/python/lib"
ZONES = "/usr/share/zoneinfo"

_NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"
_STDLIB = f"{LIBRARIES}/{_NAME}"
_NOT_STANDARD = (
    "site-packages",
    "dist-packages",
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
)
_PROBE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Runtime:
    """`binds` are (path on the host, path inside), read-only; `hidden` are folders inside to cover with
    nothing.
    """

    binds: tuple[tuple[Path, str], ...]
    hidden: tuple[str, ...]


def environment(*paths: str | Path) -> dict[str, str]:
    """The whole environment of a Python of ours: hash order fixed, nothing of the host."""
    return {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(str(path) for path in paths)}


def interpreter() -> Path:
    """The real Python binary, not the one of a virtual environment."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def _libraries(python: Path) -> dict[str, Path]:
    command = [
        str(python),
        "-S",
        "-B",
        "-s",
        "-P",
        "-X",
        "utf8",
        "-c",
        "from inside.probe import main; main()",
    ]
    done = subprocess.run(
        command,
        env=environment(INSIDE.parent),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PROBE_SECONDS,
        check=False,
    )
    try:
        found = strict_loads(done.stdout)
    except JsonRefused as refused:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise OSError(
            f"the Python at {python} does not list its libraries: {said or refused.reason}"
        ) from None
    return {name: Path(path) for name, path in found.items()}


def zones() -> Path | None:
    """The time zone database: the system's, or that of the tzdata package."""
    if Path(ZONES, "UTC").exists():
        return Path(ZONES)
    package = importlib.util.find_spec("tzdata")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "zoneinfo"
    return None


def find() -> Runtime:
    """Look at this process's own Python. Blocks for a fraction of a second. Raises OSError."""
    python = interpreter()
    stdlib = Path(os.__file__).resolve().parent
    binds: list[tuple[Path, str]] = [(python, PYTHON), (stdlib, _STDLIB)]
    for name, path in _libraries(python).items():
        if stdlib in path.resolve().parents:
            continue
        # The loader stands where the binary's header says; everything else is looked for by name.
        binds.append((path, str(path) if name.startswith("ld") else f"{LIBRARIES}/{name}"))
    database = zones()
    if database is not None:
        binds.append((database, ZONES))
    hidden = tuple(f"{_STDLIB}/{name}" for name in _NOT_STANDARD if (stdlib / name).is_dir())
    return Runtime(tuple(binds), hidden)


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
    return target


def staged(source: Path, folder: Folder) -> Path:
    """A path to the same file or folder that the user behind the wall can reach; a copy only where needed."""
    real = source.resolve()
    if folder.within_reach(real):
        return real
    target = folder.new("staged") / real.name
    if real.is_dir():
        shutil.copytree(
            real,
            target,
            copy_function=_link_or_copy,
            ignore=lambda _, names: {name for name in names if name in _NOT_STANDARD},
            ignore_dangling_symlinks=True,
        )
        target.chmod(0o755)
    else:
        _link_or_copy(str(real), str(target))
    return target


def placed_inside(folder: Folder) -> Path:
    """A folder that holds a copy of what runs inside, and nothing else of the project."""
    place = folder.new("wyrd")
    (place / INSIDE.name).mkdir()
    (place / INSIDE.name).chmod(0o755)
    for module in INSIDE.glob("*.py"):
        target = place / INSIDE.name / module.name
        shutil.copyfile(module, target)
        target.chmod(0o644)
    return place


def staged_runtime(runtime: Runtime, folder: Folder) -> Runtime:
    """The same runtime with every path reachable by the user behind the wall."""
    binds, copied = [], False
    for source, inside in runtime.binds:
        path = staged(source, folder)
        copied = copied or (inside == _STDLIB and path != source.resolve())
        binds.append((path, inside))
    return Runtime(tuple(binds), () if copied else runtime.hidden)
