"""`!file`: where it may stand, and the texts it brings in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from wyrd.cards.decode import Path
from wyrd.cards.workspace import PathRefused, Workspace, read_file
from wyrd.cards.yaml_reader import FileTag
from wyrd.errors import Code


def tag_may_stand(kind: str, path: Path) -> bool:
    """Whether `!file` may stand at the place in a spec of that kind: inside an inline body only."""
    if kind == "Agent":
        return len(path) > 1 and path[0] == "prompt"
    if kind != "Verifier":
        return False
    match path:
        case ("steps", int(), "action", *rest):
            pass
        case ("requirements", int(), "check", *rest):
            pass
        case ("steps", int(), "requirements", int(), "check", *rest):
            pass
        case _:
            return False
    return rest == ["source", "inline"] or (
        len(rest) > 1 and rest[0] == "agent" and rest != ["agent", "prompt"]
    )


def file_text(tag: FileTag, base: FilePath, workspace: Workspace) -> str:
    """The text that a tag stands for. Raises `PathRefused` with the code of the fault."""
    if tag.target is None:
        raise PathRefused(Code.LOADER_400_INVALID_ENVELOPE, "!file takes a path as text")
    real = workspace.resolve(base, tag.target)
    data = read_file(real)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        said = f"{tag.target[:200]!r} is not UTF-8 text (byte {error.start})"
        raise PathRefused(Code.LOADER_400_IO, said) from None


def put(spec: Any, path: Path, value: Any) -> None:
    """Set a place inside plain data."""
    holder = spec
    for part in path[:-1]:
        holder = holder[part]
    if isinstance(holder, Mapping | list):
        holder[path[-1]] = value  # type: ignore[index]
