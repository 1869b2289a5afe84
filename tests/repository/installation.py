"""A fresh virtual environment that holds our wheel and exactly what it declares.

Dependencies are links to what is installed beside the tests, found by following the declared
requirements, so nothing is downloaded, and what is not declared is not there.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = "wyrd-temporal"


def closure(requirements: Iterable[Requirement]) -> dict[str, metadata.Distribution]:
    """Every distribution those requirements bring, by normalised name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(requirement, extra) for requirement in requirements for extra in _extras(requirement)]
    seen = set()
    while waiting:
        requirement, extra = waiting.pop()
        name = requirement.name.lower().replace("_", "-").replace(".", "-")
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        distribution = found.setdefault(name, metadata.distribution(requirement.name))
        for line in distribution.requires or []:
            inner = Requirement(line)
            if inner.marker is None or inner.marker.evaluate({"extra": extra}):
                waiting += [(inner, more) for more in _extras(inner)]
    return found


def _extras(requirement: Requirement) -> list[str]:
    return ["", *sorted(requirement.extras)]


class Installation:
    """A virtual environment at `folder`, without pip."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True, with_pip=False)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        self.site = next((folder / "lib").glob("python3.*")) / "site-packages"

    def link(self, distributions: Iterable[metadata.Distribution]) -> None:
        """Have those distributions, and their binaries, as they are where the tests run."""
        for distribution in distributions:
            for file in distribution.files or []:
                here = Path(str(file.locate())).resolve()
                if file.parts[0] == "..":
                    if file.parent.name == "bin" and not _is_script(here):
                        _link(self.bin / file.name, here)
                elif file.parts[0] != "__pycache__":
                    _link(self.site / file.parts[0], Path(str(distribution.locate_file(file.parts[0]))))

    def install(self, wheel: Path) -> set[str]:
        """Install a wheel, nothing else; the names it adds to site-packages, its own record apart."""
        before = {path.name for path in self.site.iterdir()}
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--python", str(self.python)),
                *("install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"),
                str(wheel),
            ],
            check=True,
            capture_output=True,
        )
        after = {path.name for path in self.site.iterdir()}
        return {name for name in after - before if not name.endswith(".dist-info")}


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def _link(link: Path, target: Path) -> None:
    if not link.is_symlink() and not link.exists():
        link.symlink_to(target.resolve())
