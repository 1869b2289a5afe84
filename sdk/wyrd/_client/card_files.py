"""Files that belong to Cards: a baseline's data, a model's weights, an Artifact's contents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wyrd._client.flow import FileBody
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import digest_base64

CardFiles = Mapping[str, "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"]
"""By `space/Kind/name` of a Card that is declared: one path or several. A file goes under its own name, a
folder brings every file in it under its path there."""

_CHUNK = 1 << 20


def measured(files: CardFiles) -> dict[str, dict[str, FileBody]]:
    """The files of each Card by their relative path, hashed. Reads the disk; raises LOADER_400_IO."""
    found: dict[str, dict[str, FileBody]] = {}
    for card, given in files.items():
        paths = [given] if isinstance(given, str | os.PathLike) else list(given)
        found[card] = {name: _hashed(place) for top in paths for name, place in _named(Path(top))}
        if not found[card]:
            raise WyrdError(Code.SPEC_400_VALIDATION, f"there is no file for {card}", field=f"files.{card}")
    return found


def attach(submissions: Sequence[dict[str, Any]], bodies: Mapping[str, Mapping[str, FileBody]]) -> None:
    """Name the files in the submissions of their Cards."""
    by_name = {
        f"{one['metadata']['space']}/{one['kind']}/{one['metadata']['name']}": one for one in submissions
    }
    for card, files in bodies.items():
        if card not in by_name:
            known = ", ".join(sorted(by_name))
            raise WyrdError(
                Code.SPEC_400_VALIDATION,
                f"there are files for {card}, which is not declared here; declared are {known}",
                field=f"files.{card}",
            )
        by_name[card]["artifacts"] = [
            {"relative_path": name, "sha256": digest_base64(body.sha256), "size_bytes": body.size}
            for name, body in sorted(files.items())
        ]


def _named(top: Path) -> Iterator[tuple[str, Path]]:
    if top.is_dir():
        for place in sorted(top.rglob("*")):
            if place.is_file():
                yield place.relative_to(top).as_posix(), place
    else:
        yield top.name, top


def _hashed(path: Path) -> FileBody:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise WyrdError(
            Code.LOADER_400_IO, f"{path} cannot be read: {error.strerror or error}", path=str(path)
        ) from None
    return FileBody(path, size, digest.hexdigest())
