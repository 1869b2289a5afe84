"""A file that arrives piece by piece: onto the disk, counted and hashed on the way."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wyrd.errors import Code, WyrdError

PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Save:
    """Write the unread body of a streamed answer (`Reply.rest`) to a file, which is then on the disk.

    The outcome is the SHA-256, hexadecimal. More than `size` bytes are REGISTRY_507_ARTIFACT_VERIFY_FAILED;
    `Unanswered` is thrown in when the peer breaks off.
    """

    rest: Any
    path: Path
    size: int


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
            raise WyrdError(
                Code.REGISTRY_507_ARTIFACT_VERIFY_FAILED,
                f"{self._save.path.name} is longer than the {self._save.size} bytes it is declared with",
            )
        self._digest.update(piece)
        self._file.write(piece)

    def finish(self) -> str:
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._digest.hexdigest()

    def close(self) -> None:
        self._file.close()
