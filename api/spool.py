"""A queue on local disk that survives the process: lines appended and synced, whole files removed."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from wyrd.wire.ids import uuid7

_SUFFIX = ".jsonl"


class Segment:
    """One file of lines. Its writer holds a lock on it, which ends with the writer's process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{uuid7()}{_SUFFIX}"
        self._file: BinaryIO = self.path.open("ab")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        if not os.fstat(self._file.fileno()).st_nlink:
            # Another process took the empty file as left behind before the lock was there.
            raise OSError(errno.EAGAIN, "the file was taken up by another process")
        # The name must survive a crash of the machine as surely as the lines do.
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)

    def append(self, lines: Sequence[bytes]) -> None:
        """Write the lines; on return they are on the disk."""
        self._file.write(b"".join(line + b"\n" for line in lines))
        self._file.flush()
        os.fdatasync(self._file.fileno())

    def remove(self) -> None:
        """The lines are kept elsewhere now."""
        self.path.unlink(missing_ok=True)
        self._file.close()

    def leave(self) -> None:
        """Let the file be taken up as something left behind."""
        self._file.close()


def left_behind(folder: Path) -> list[Path]:
    """Files whose writer is gone, the oldest first."""
    return [path for path in sorted(folder.glob(f"*{_SUFFIX}")) if not _locked(path)]


def read_lines(path: Path) -> list[bytes]:
    """The whole lines of a file; what follows the last line end was cut off by a crash."""
    with contextlib.suppress(FileNotFoundError):
        return [line for line in path.read_bytes().split(b"\n")[:-1] if line]
    return []


def _locked(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
    return True
