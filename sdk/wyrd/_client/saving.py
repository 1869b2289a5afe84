"""A file that arrives piece by piece: onto the disk, counted and hashed on the way."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Save:
    """Write the unread body of a streamed answer (`Reply.rest`) to a file, which is then on the disk.

    The outcome is the SHA-256, hexadecimal. `TooLong` is thrown in when there are more than `size` bytes,
    `Unanswered` when the peer breaks off.
    """

    rest: Any
    path: Path
    size: int


class TooLong(Exception):
    """More came than was announced."""


class Saving:
    """The open file of a `Save`; one thread at a time."""

    def __init__(self, save: Save) -> None:
        self._save = save
        self._digest = hashlib.sha256()
        self._size = 0
        self._file = save.path.open("wb")

    def write(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._save.size:
            raise TooLong
        self._digest.update(piece)
        self._file.write(piece)

    def finish(self) -> str:
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._digest.hexdigest()

    def close(self) -> None:
        self._file.close()
