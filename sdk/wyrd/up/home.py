"""The home folder of an embedded stack, and the lock that gives it to one `wyrd up`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonRefused, canonical_json, strict_loads


def chosen_home(argument: Path | None) -> Path:
    """Argument, `WYRD_HOME`, then `./.wyrd`; absolute."""
    return Path(argument or os.environ.get("WYRD_HOME") or ".wyrd").absolute()


class Home:
    """The folder, made private when it is made, and held by an exclusive lock while in use.

    Two servers on one database file would start happily and lose data, so the lock is ours. It
    goes with the process, however that ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / "logs"
        self.dev_key = path / "dev-key"
        self.temporal_db = path / "temporal.db"
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Take the lock. SPEC_409_CONFLICT when another `wyrd up` has it."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logs.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileExistsError), (self.path / ".gitignore").open("x", encoding="utf-8") as file:
            file.write("*\n")
        lock = os.open(self.path / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _locked(lock):
            holder = _holder(lock)
            os.close(lock)
            who = f" by process {holder['pid']}" if "pid" in holder else ""
            where = f" at {holder['api']}" if "api" in holder else ""
            raise WyrdError(
                Code.SPEC_409_CONFLICT,
                f"{self.path} is in use{who}{where}; stop it, or choose another --home",
                field="home",
                home=str(self.path),
                **holder,
            )
        self._lock = lock
        self.note({})
        return self

    def note(self, facts: dict[str, str]) -> None:
        """Leave in the lock file who holds it, for the message of the next one who wants it."""
        assert self._lock is not None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, canonical_json({"pid": os.getpid(), **facts}), 0)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None


def _locked(lock: int) -> bool:
    if sys.platform == "win32":
        raise WyrdError(Code.CLIENT_400_CONFIG_INVALID, "wyrd up runs on Linux and macOS", field="platform")
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(lock: int) -> dict[str, object]:
    try:
        found = strict_loads(os.pread(lock, 4096, 0))
    except JsonRefused:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if key in ("pid", "api")}
