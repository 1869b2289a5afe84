"""What an application hands in as evidence besides JSON: a file, or a file of an Artifact."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from wyrd._client.flow import FileBody
from wyrd.errors import Code, WyrdError
from wyrd.wire.refs import CardRef

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Largest file the server takes where the slot sets no smaller `max_bytes`."""

_CHUNK = 1 << 20


def invalid(slot: str, reason: str) -> WyrdError:
    """The refusal of one input, the same document the server would answer."""
    path = f"inputs.{slot}"
    return WyrdError(Code.VERIFICATION_400_INPUT_INVALID, f"{path}: {reason}", path=path, reason=reason)


def too_large(slot: str, limit: int) -> WyrdError:
    path = f"inputs.{slot}"
    reason = f"the file is over {limit} bytes"
    return WyrdError(
        Code.VERIFICATION_413_INPUT_TOO_LARGE, f"{path}: {reason}", path=path, reason=reason, max_bytes=limit
    )


@dataclass(frozen=True, slots=True, init=False)
class File:
    """A file as evidence: a path, or the bytes themselves. Reads nothing until it is used.

    `format` (pdf, markdown, …) comes from the name when it is not given, else from a slot that has
    only one; `filename` is the name recorded with the evidence.
    """

    source: str | os.PathLike[str] | bytes
    format: str | None = None
    filename: str | None = None

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        *,
        format: str | None = None,
        filename: str | None = None,
    ) -> None:
        if not isinstance(source, str | os.PathLike | bytes):
            raise WyrdError(Code.SPEC_400_VALIDATION, "File takes a path or bytes", field="source")
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "filename", filename)

    @property
    def name(self) -> str | None:
        """The base name recorded with the evidence, if there is one."""
        if self.filename is not None:
            return PurePath(self.filename).name or None
        return None if isinstance(self.source, bytes) else Path(os.fspath(self.source)).name or None

    def format_for(self, slot: str, accepted: tuple[str, ...]) -> str:
        """The canonical format, one of the slot's. Raises VERIFICATION_400_INPUT_INVALID."""
        from wyrd.cards.media import canonical_format, foreign_ending, format_of_name

        if self.format is not None:
            found = canonical_format(self.format)
            if found is None:
                raise invalid(slot, f"{self.format[:80]!r} is not a media format")
        else:
            found = format_of_name(self.name) if self.name else None
            if found is None and (ending := foreign_ending(self.name or "", accepted)) is not None:
                raise invalid(slot, f"the slot takes {', '.join(accepted)}, and {ending} is none of that")
            if found is None and len(accepted) == 1:
                found = accepted[0]
            if found is None:
                raise invalid(slot, f"the file's format is not clear; the slot takes {', '.join(accepted)}")
        if found not in accepted:
            raise invalid(slot, f"the slot takes {', '.join(accepted)}, not {found}")
        return found

    def measured(self, slot: str, max_bytes: int) -> FileBody:
        """Hash the content once, in pieces. Reads the disk: run it where blocking is fine.

        Raises VERIFICATION_400_INPUT_INVALID (unreadable, not a regular file) and
        VERIFICATION_413_INPUT_TOO_LARGE.
        """
        if isinstance(self.source, bytes):
            if len(self.source) > max_bytes:
                raise too_large(slot, max_bytes)
            return FileBody(self.source, len(self.source), hashlib.sha256(self.source).hexdigest())
        path = Path(os.fspath(self.source))
        digest, size = hashlib.sha256(), 0
        try:
            status = path.stat()
            # A FIFO or a device would block for ever or never end.
            if not stat.S_ISREG(status.st_mode):
                raise invalid(slot, f"{path} is not a regular file")
            if status.st_size > max_bytes:
                raise too_large(slot, max_bytes)
            with path.open("rb") as file:
                while piece := file.read(_CHUNK):
                    size += len(piece)
                    if size > max_bytes:
                        raise too_large(slot, max_bytes)
                    digest.update(piece)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise invalid(slot, f"{path} cannot be read: {reason}") from None
        return FileBody(path, size, digest.hexdigest())


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """A file of a declared Artifact Card as evidence; `path` may be left out when it has one file.

    `card_ref` is a CardRef or its text form `space/Artifact/name@version`.
    """

    card_ref: CardRef | str
    path: str | None = None

    def declaration(self, slot: str) -> dict[str, Any]:
        """The wire form. Raises VERIFICATION_400_INPUT_INVALID for a reference that is none."""
        try:
            ref = CardRef.parse(str(self.card_ref))
        except ValueError as error:
            raise invalid(slot, str(error)) from None
        if ref.kind != "Artifact":
            raise invalid(slot, f"{ref.kind} is not an Artifact")
        found: dict[str, Any] = {"kind": "artifact", "artifact": ref.document()}
        if self.path is not None:
            found["path"] = self.path
        return found
