"""Putting a folder in its place whole: built beside its target, on the disk, then renamed."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from wyrd.errors import Code, WyrdError
from wyrd.wire.bundle import API_VERSION, MANIFEST

_ATTEMPTS = 10


@contextmanager
def disk() -> Iterator[None]:
    """LOADER_400_IO with the path for what the disk refuses."""
    try:
        yield
    except OSError as error:
        path = error.filename
        raise WyrdError(
            Code.LOADER_400_IO,
            f"{path}: {error.strerror or error}" if path else str(error),
            path=str(path) if path else None,
        ) from error


class Publication:
    """A bundle on its way to `target`, in a hidden folder beside it until `publish`.

    The target may be absent, an empty folder, or a bundle, which is replaced. Anything else is
    refused (CLIENT_400_CONFIG_INVALID), so that a mistyped path costs nobody their files.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        with disk():
            self.target = Path(os.path.realpath(target))
            _refuse_foreign(self.target)
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self.folder = self._beside("new")
            self.folder.mkdir()

    def _beside(self, what: str) -> Path:
        return self.target.parent / f".{self.target.name}.{what}-{uuid.uuid4().hex[:12]}"

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files by their paths inside the bundle."""
        with disk():
            for path, content in files.items():
                place = self.place(path)
                with place.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())

    def place(self, path: str) -> Path:
        """Where that file goes; its folders are made."""
        with disk():
            found = self.folder / path
            found.parent.mkdir(parents=True, exist_ok=True)
            return found

    def publish(self) -> None:
        """Make it the target. A reader sees the old bundle or the new one, and never a mixture."""
        with disk():
            for folder, _, _ in os.walk(self.folder):
                _sync(Path(folder))
            for _ in range(_ATTEMPTS):
                if self._placed():
                    _sync(self.target.parent)
                    return
        raise WyrdError(
            Code.LOADER_400_IO, f"{self.target} is being replaced by others", path=str(self.target)
        )

    def _placed(self) -> bool:
        """Rename it into place; False when somebody else has put something there meanwhile."""
        old: Path | None = self._beside("old")
        assert old is not None
        try:
            _refuse_foreign(self.target)
            self.target.rename(old)
        except FileNotFoundError:
            old = None
        try:
            self.folder.rename(self.target)
        except OSError as error:
            if old is not None:
                with suppress(OSError):
                    old.rename(self.target)
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                return False
            raise
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
        return True

    def discard(self) -> None:
        """Leave nothing behind of a bundle that was not published."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _refuse_foreign(target: Path) -> None:
    try:
        with os.scandir(target) as entries:
            if next(entries, None) is None:
                return
    except FileNotFoundError:
        return
    except NotADirectoryError:
        pass
    else:
        with suppress(OSError), (target / MANIFEST).open("rb") as file:
            if API_VERSION.encode() in file.read(4096):
                return
    raise WyrdError(
        Code.CLIENT_400_CONFIG_INVALID,
        f"{target} is neither empty nor a bundle; choose another folder",
        field="output_dir",
        path=str(target),
    )


def _sync(folder: Path) -> None:
    if os.name == "nt":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
