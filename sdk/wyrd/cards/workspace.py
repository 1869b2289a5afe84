"""The workspace of a Card tree: its root, the defaults of wyrd.toml, and paths kept inside."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wyrd.cards.card_ref import KINDS
from wyrd.cards.decode import DecodeError, decode_metadata
from wyrd.cards.yaml_reader import MAX_FILE_BYTES
from wyrd.errors import Code

CONFIG_NAME: Final = "wyrd.toml"
_DEFAULTED: Final = ("space", "labels", "annotations")


class PathRefused(Exception):
    """A path cannot be used; `code` says why, the message in words."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class ConfigRefused(ValueError):
    """wyrd.toml cannot be used; `member` is the entry at fault, when there is one."""

    def __init__(self, message: str, member: str | None = None) -> None:
        super().__init__(message)
        self.member = member


@dataclass(frozen=True)
class Workspace:
    """`root` is a real directory; `defaults` fill what a Card's metadata leaves out, by kind."""

    root: Path
    config: Path | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    by_kind: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def fill(self, kind: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """The metadata with defaults under it; labels and annotations are merged key by key."""
        filled = dict(metadata)
        for layer in (self.by_kind.get(kind, {}), self.defaults):
            if filled.get("space") is None and "space" in layer:
                filled["space"] = layer["space"]
            for member in ("labels", "annotations"):
                own = filled.get(member)
                if member in layer and (own is None or isinstance(own, Mapping)):
                    filled[member] = {**layer[member], **(own or {})}
        return filled

    def resolve(self, base: Path, text: str) -> Path:
        """The real file that a path authored in directory `base` names. Raises `PathRefused`.

        Relative paths are joined and normalised as text; neither that nor the real file behind
        links may lie outside the root.
        """
        if "\0" in text:
            raise PathRefused(Code.LOADER_400_IO, "the path holds a NUL character")
        joined = Path(os.path.normpath(os.path.join(base, text)))
        real = Path(os.path.realpath(joined))
        outside = not (os.path.isabs(text) or joined.is_relative_to(self.root))
        if outside or not real.is_relative_to(self.root):
            raise PathRefused(Code.LOADER_400_PATH_ESCAPE, f"{text[:200]!r} lies outside {self.root}")
        return real


def read_file(path: Path) -> bytes:
    """The bytes of a regular file. Raises `PathRefused`: IO, or INVALID_ENVELOPE for a directory."""
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a writer that may never come.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PathRefused(Code.LOADER_400_IO, f"{path}: {reason}") from None
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise PathRefused(Code.LOADER_400_INVALID_ENVELOPE, f"{path} is a directory")
        if not stat.S_ISREG(mode):
            raise PathRefused(Code.LOADER_400_IO, f"{path} is not a regular file")
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PathRefused(Code.LOADER_400_IO, f"{path}: {error.strerror}") from None
    finally:
        os.close(handle)
    if len(data) > MAX_FILE_BYTES:
        raise PathRefused(Code.LOADER_400_IO, f"{path} is over {MAX_FILE_BYTES} bytes")
    return data


def find_workspace(directory: Path) -> Workspace:
    """The workspace of a target's directory. Raises `ConfigRefused` with the file's fault."""
    directory = Path(os.path.realpath(directory))
    for candidate in (directory, *directory.parents):
        config = candidate / CONFIG_NAME
        if config.is_file():
            defaults, by_kind = _read_config(config)
            return Workspace(candidate, config, defaults, by_kind)
    return Workspace(directory)


def _read_config(config: Path) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]:
    try:
        document = tomllib.loads(read_file(config).decode("utf-8"))
    except PathRefused as error:
        raise ConfigRefused(str(error)) from None
    except UnicodeDecodeError:
        raise ConfigRefused(f"{config} is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        # Not only TOMLDecodeError: an integer of too many digits is a bare ValueError.
        raise ConfigRefused(f"{config}: {error}") from None
    unknown = [name for name in document if name not in ("defaults", "kind")]
    if unknown:
        raise ConfigRefused(f"{config}: {unknown[0]!r} is not known; there are [defaults] and [kind.<Kind>]")
    defaults = _layer(config, "defaults", document.get("defaults", {}))
    kinds = document.get("kind", {})
    if not isinstance(kinds, Mapping):
        raise ConfigRefused(f"{config}: kind must hold tables such as [kind.Verifier]")
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigRefused(f"{config}: kind.{kind} is not a kind of Card")
    return defaults, {kind: _layer(config, f"kind.{kind}", layer) for kind, layer in kinds.items()}


def _layer(config: Path, name: str, layer: Any) -> Mapping[str, Any]:
    if not isinstance(layer, Mapping):
        raise ConfigRefused(f"{config}: {name} must be a table")
    for member in layer:
        if member not in _DEFAULTED:
            said = f"{config}: {name}.{member} cannot be defaulted; only space, labels, annotations"
            raise ConfigRefused(said, member)
    try:
        decode_metadata({"name": "checked-alone", **layer})
    except DecodeError as error:
        first = error.faults[0]
        raise ConfigRefused(f"{config}: {name}.{first.field}: {first.message}") from None
    return layer
