"""A process's own temporary folder: inputs of running calls, a staged runtime, files that blocks read.

It goes when its owner closes. A process that was killed cannot tidy up, so the next one removes every
folder whose lock nobody holds any more: evidence does not outlive the process that judged it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

_PREFIX = "wyrd-work-"


def reachable(path: Path) -> bool:
    """Whether any user may walk to `path` and read it, judged by the mode bits of it and its parents."""
    real = path.resolve()
    mode = real.stat().st_mode
    wanted = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    if mode & wanted != wanted:
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in real.parents)


def _parent(others: bool) -> Path:
    """A place for temporary files; `others` asks that an unprivileged user can walk to it."""
    for candidate in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")):
        if candidate.is_dir() and os.access(candidate, os.W_OK | os.X_OK):
            real = candidate.resolve()
            if not others or all(place.stat().st_mode & stat.S_IXOTH for place in (real, *real.parents)):
                return real
    raise OSError("no folder for temporary files can be reached by an unprivileged user")


def _lock(path: Path) -> int | None:
    """A descriptor that holds the folder's lock, or None while a living process holds it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _sweep(parent: Path) -> None:
    for entry in parent.glob(f"{_PREFIX}*"):
        try:
            if entry.lstat().st_uid != os.geteuid() or not stat.S_ISDIR(entry.lstat().st_mode):
                continue
            descriptor = _lock(entry)
        except OSError:
            continue
        if descriptor is not None:
            shutil.rmtree(entry, ignore_errors=True)
            os.close(descriptor)


class Folder:
    """One process's folder. Others on the host may walk through it to names they cannot guess or list."""

    def __init__(self, group: int | None = None) -> None:
        """`group` is that of an unprivileged user who must reach what is inside (the one behind the
        sandbox's wall); None when only our own user reads it."""
        parent = _parent(others=group is not None)
        _sweep(parent)
        self._group = group
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            descriptor = _lock(self.path)
            # Another process may have swept it between its making and its lock.
            if descriptor is not None and self.path.exists():
                self._descriptor = descriptor
                break
            if descriptor is not None:
                os.close(descriptor)
        if group is not None:
            self.path.chmod(0o711)

    def within_reach(self, path: Path) -> bool:
        """Whether the user behind the wall can read `path` where it is."""
        return self._group is None or reachable(path)

    def new(self, purpose: str) -> Path:
        """An empty folder that we write and the user behind the wall reads."""
        path = self.path / f"{purpose}-{secrets.token_hex(16)}"
        path.mkdir(mode=0o700)
        if self._group is not None:
            os.chown(path, -1, self._group)
            path.chmod(0o750)
        return path

    def remove(self) -> None:
        """Delete it with everything inside."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
