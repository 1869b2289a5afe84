"""A declaration as it was sent, read and put in order before anything is stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from cards.references import Identity, identity_of, named_by
from cards.versions import Bump, Scope, Version, refused
from wyrd.cards import Kind, Metadata, check_submissions, decode_metadata, decode_spec
from wyrd.cards.envelope import Spec
from wyrd.cards.links import links
from wyrd.cards.submitted import Resolve
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import ArtifactFile, Submission, digest_hex

MAX_PATH_BYTES = 1024

_TOLD = 100

_KEY = re.compile(r"[\x21-\x7e]{8,256}\Z")
_SEGMENT = re.compile(r"[^/\\\x00-\x1f\x7f]+\Z")
_ARTIFACT_HASH = re.compile(r"[0-9A-Za-z+/=:_-]{1,128}\Z")


@dataclass(frozen=True, slots=True)
class DeclaredFile:
    """One file of a Card. `sha256` is hexadecimal."""

    relative_path: str
    sha256: str
    size_bytes: int
    content_type: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Incoming:
    """One submission, decoded. `version` is set when it is pinned, else `scope` and `bump` choose it."""

    kind: Kind
    metadata: Metadata
    spec: Spec
    files: tuple[DeclaredFile, ...]
    version: Version | None
    scope: Scope
    bump: Bump

    @property
    def space(self) -> str:
        return self.metadata.space

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def label(self) -> str:
        """How people know it: `space/Kind/name@version`, without a version while it has none."""
        version = f"@{self.version}" if self.version is not None else ""
        return f"{self.space}/{self.kind}/{self.name}{version}"

    @property
    def identity(self) -> Identity:
        """Of a pinned Card; an unpinned one has none yet."""
        return self.kind, self.space, self.name, str(self.version or "")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one call declares: its Cards, dependencies first, and which of them is the root."""

    cards: tuple[Incoming, ...]
    root: Incoming


def checked_key(key: str | None) -> str:
    """The Idempotency-Key: 8 to 256 visible ASCII characters.

    Raises `WYRD_REGISTRY_400_IDEMPOTENCY_KEY_REQUIRED` or `…_IDEMPOTENCY_KEY_INVALID`.
    """
    if key is None:
        raise WyrdError(
            Code.REGISTRY_400_IDEMPOTENCY_KEY_REQUIRED,
            "send an Idempotency-Key header",
            field="idempotency-key",
        )
    if not _KEY.match(key):
        raise WyrdError(
            Code.REGISTRY_400_IDEMPOTENCY_KEY_INVALID,
            "an Idempotency-Key has 8 to 256 visible ASCII characters",
            field="idempotency-key",
        )
    return key


def check_declaration(submissions: Sequence[Submission], opened: Resolve) -> None:
    """Put a declaration under every rule of the Card language; `opened` gives stored specs.

    Raises the first fault under its own code, with the whole report in details.diagnostics.
    """
    report = check_submissions(
        [one.model_dump(mode="json", by_alias=True) for one in submissions], resolve=opened
    )
    if report.ok:
        return
    first = report.errors[0]
    details: dict[str, Any] = dict(first.context or {})
    details["field"] = f"{first.path}.{first.field}" if first.field else first.path
    details["diagnostics"] = [one.to_document() for one in report.diagnostics[:_TOLD]]
    raise WyrdError(first.code, first.message, **details)


def read_submissions(submissions: Sequence[Submission], max_file_bytes: int) -> Declaration:
    """Decode what `check_declaration` accepted and put dependencies before what needs them.

    Errors: `WYRD_REGISTRY_400_INVALID_VERSION_BLOCK`, `WYRD_REGISTRY_400_INVALID_ARTIFACT_PATH`,
    `WYRD_STORAGE_400_ARTIFACT_TOO_LARGE`, `WYRD_LOADER_400_INVALID_ENVELOPE` (artifact members).
    """
    read = [_read(index, one, max_file_bytes) for index, one in enumerate(submissions)]
    return Declaration(tuple(_ordered(read)), read[-1])


def _read(index: int, submission: Submission, max_file_bytes: int) -> Incoming:
    place = f"submissions[{index}]"
    metadata = decode_metadata(submission.metadata)
    if metadata.artifact_hash is not None and not _ARTIFACT_HASH.match(metadata.artifact_hash):
        raise WyrdError(
            Code.LOADER_400_INVALID_ENVELOPE,
            "artifact_hash has at most 128 characters of base64 or hexadecimal",
            field=f"{place}.metadata.artifact_hash",
        )
    version, scope, bump = _version_block(metadata)
    kind = cast(Kind, submission.kind)
    return Incoming(
        kind,
        metadata,
        decode_spec(kind, submission.spec),
        _files(submission.artifacts, f"{place}.artifacts", max_file_bytes),
        version,
        scope,
        bump,
    )


def _version_block(metadata: Metadata) -> tuple[Version | None, Scope, Bump]:
    version = None if metadata.version is None else Version.parse(metadata.version)
    if version is not None:
        if metadata.bump is not None:
            raise refused("an exact version takes no bump", "metadata.bump")
        return version, Scope(), Bump()
    scope = Scope.parse(metadata.version)
    if scope is None:
        raise refused(f"{str(metadata.version)[:80]!r} is neither a version nor a scope")
    return None, scope, _bump(metadata.bump)


def _bump(given: Any) -> Bump:
    match given:
        case None:
            return Bump()
        case "major" | "minor" | "patch":
            return Bump(given)
        case {"pre": {"identifier": str(pre), **rest}, **others} if pre and not rest and not others:
            return Bump("pre", pre=pre)
        case {"build": {"metadata": str(build), **rest}, **others} if build and not rest and not others:
            return Bump("build", build=build)
        case {"pre_build": {"pre": str(pre), "build": str(build), **rest}, **others} if (
            pre and build and not rest and not others
        ):
            return Bump("pre_build", pre=pre, build=build)
    raise refused(
        "a bump is major, minor, patch, or one of {pre}, {build} and {pre_build} with their members",
        "metadata.bump",
    )


def _files(artifacts: Sequence[ArtifactFile], place: str, max_file_bytes: int) -> tuple[DeclaredFile, ...]:
    files: dict[str, DeclaredFile] = {}
    for index, artifact in enumerate(artifacts):
        path = artifact.relative_path
        if not is_artifact_path(path) or path in files:
            fault = "occurs twice" if path in files else "is not a relative path of ordinary segments"
            raise WyrdError(
                Code.REGISTRY_400_INVALID_ARTIFACT_PATH,
                f"{path[:200]!r} {fault}",
                field=f"{place}[{index}].relative_path",
            )
        if artifact.size_bytes > max_file_bytes:
            raise WyrdError(
                Code.STORAGE_400_ARTIFACT_TOO_LARGE,
                f"{path} has {artifact.size_bytes} bytes, over the limit of {max_file_bytes}",
                actual=artifact.size_bytes,
                limit=max_file_bytes,
            )
        content_type = artifact.content_type
        if content_type is not None and not (content_type.isascii() and content_type.isprintable()):
            raise WyrdError(
                Code.LOADER_400_INVALID_ENVELOPE,
                "a content type is printable ASCII",
                field=f"{place}[{index}].content_type",
            )
        files[path] = DeclaredFile(path, digest_hex(artifact.sha256), artifact.size_bytes, content_type)
    return tuple(files[path] for path in sorted(files))


def is_artifact_path(path: str) -> bool:
    """Whether the text is `a/b/c`: at most 1,024 bytes, no empty, `.` or `..` segment, no backslash."""
    if len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        return False
    return all(_SEGMENT.match(part) and part not in (".", "..") for part in path.split("/"))


def _ordered(read: list[Incoming]) -> list[Incoming]:
    """Dependencies first; otherwise as they were sent. There is no ring: the language refuses one."""
    pinned = {incoming.identity: incoming for incoming in read if incoming.version is not None}
    ordered: dict[int, Incoming] = {}
    # A stack of its own: a long chain of Cards must not exhaust Python's.
    stack = [(incoming, False) for incoming in reversed(read)]
    while stack:
        incoming, entered = stack.pop()
        if id(incoming) in ordered:
            continue
        if entered:
            ordered[id(incoming)] = incoming
            continue
        stack.append((incoming, True))
        named = (pinned.get(identity_of(named_by(link))) for link in links(incoming.spec))
        stack.extend((target, False) for target in named if target is not None)
    return list(ordered.values())
