"""A declaration as it was sent, read and put in order before anything is stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cards.references import Identity, identity_of, named_by
from cards.versions import Bump, Scope, Version, refused
from wyrd.cards import KINDS, DecodeError, Metadata, decode_metadata, decode_spec
from wyrd.cards.envelope import Spec
from wyrd.cards.links import links
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import ArtifactFile, Submission, digest_hex

MAX_PATH_BYTES = 1024

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


@dataclass(frozen=True, slots=True)
class Incoming:
    """One submission, decoded. `version` is set when it is pinned, else `scope` and `bump` choose it."""

    kind: str
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
        return self.kind, self.space, self.name, str(self.version or "")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one call declares: its Cards, dependencies first, and which of them is the root."""

    cards: tuple[Incoming, ...]
    root: Identity


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


def read_submissions(submissions: Sequence[Submission], max_file_bytes: int) -> Declaration:
    """Decode every submission and put dependencies before what needs them.

    Errors: `WYRD_LOADER_400_INVALID_ENVELOPE` (kind, metadata or spec does not decode),
    `WYRD_REGISTRY_400_INVALID_VERSION_BLOCK`, `…_INVALID_ARTIFACT_PATH`,
    `WYRD_STORAGE_400_ARTIFACT_TOO_LARGE`, `WYRD_SPEC_400_DUPLICATE_SUBMISSION`,
    `WYRD_REGISTRY_400_UNRESOLVED_PATH_REF`, `WYRD_REGISTRY_400_DEPENDENCY_CYCLE`.
    """
    read = [_read(index, one, max_file_bytes) for index, one in enumerate(submissions)]
    seen: set[Identity] = set()
    for index, incoming in enumerate(read):
        if incoming.identity in seen:
            raise WyrdError(
                Code.SPEC_400_DUPLICATE_SUBMISSION,
                f"{incoming.label} is submitted twice",
                field=f"submissions[{index}]",
            )
        seen.add(incoming.identity)
    return Declaration(tuple(_ordered(read)), read[-1].identity)


def _read(index: int, submission: Submission, max_file_bytes: int) -> Incoming:
    place = f"submissions[{index}]"
    try:
        metadata = decode_metadata(submission.metadata)
    except DecodeError as error:
        raise _envelope(f"{place}.metadata", error) from None
    if submission.kind not in KINDS:
        raise WyrdError(
            Code.LOADER_400_INVALID_ENVELOPE,
            f"{submission.kind[:80]!r} is not a kind of Card",
            field=f"{place}.kind",
        )
    try:
        spec = decode_spec(submission.kind, submission.spec)
    except DecodeError as error:
        raise _envelope(f"{place}.spec", error) from None
    if metadata.artifact_hash is not None and not _ARTIFACT_HASH.match(metadata.artifact_hash):
        raise WyrdError(
            Code.LOADER_400_INVALID_ENVELOPE,
            "artifact_hash has at most 128 characters of base64 or hexadecimal",
            field=f"{place}.metadata.artifact_hash",
        )
    version, scope, bump = _version_block(metadata)
    files = _files(submission.artifacts, f"{place}.artifacts", max_file_bytes)
    return Incoming(submission.kind, metadata, spec, files, version, scope, bump)


def _envelope(place: str, error: DecodeError) -> WyrdError:
    first = error.faults[0]
    field = f"{place}.{first.field}" if first.field else place
    return WyrdError(
        Code.LOADER_400_INVALID_ENVELOPE,
        f"{field}: {first.message}",
        field=field,
        errors=[{"field": fault.field, "reason": fault.message} for fault in error.faults[:20]],
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
    """Dependencies first; otherwise as they were sent."""
    by_identity = {incoming.identity: incoming for incoming in read}
    needs = {
        incoming.identity: [
            target
            for target in (identity_of(named_by(link)) for link in links(incoming.spec))
            if target in by_identity
        ]
        for incoming in read
    }
    ordered: list[Incoming] = []
    done: set[Identity] = set()
    for start in needs:
        # Depth first with a stack of its own: a long chain must not exhaust Python's.
        way: dict[Identity, int] = {}
        stack = [start]
        while stack:
            here = stack[-1]
            if here in done:
                stack.pop()
                continue
            at = way.setdefault(here, 0)
            if at == len(needs[here]):
                ordered.append(by_identity[here])
                done.add(here)
                way.pop(here)
                stack.pop()
                continue
            way[here] += 1
            following = needs[here][at]
            if following in way:
                ring = [*list(way)[list(way).index(following) :], following]
                raise WyrdError(
                    Code.REGISTRY_400_DEPENDENCY_CYCLE,
                    "Cards refer to each other in a ring: "
                    + " -> ".join(by_identity[one].label for one in ring),
                    participants=[by_identity[one].label for one in ring[:-1]],
                )
            stack.append(following)
    return ordered
