"""SemVer 2.0 as the registry needs it: reading, ordering in SQL, bumping, and ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from wyrd.errors import Code, WyrdError

_NUMBER = r"(0|[1-9][0-9]*)"
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIERS}))?(?:\+({_IDENTIFIERS}))?\Z", re.ASCII
)
_SCOPE = re.compile(rf"{_NUMBER}(?:\.{_NUMBER})?\Z", re.ASCII)
_IDENTIFIERS_ONLY = re.compile(rf"{_IDENTIFIERS}\Z", re.ASCII)
_MAX_NUMBER = 2**64 - 1
_MAX_LENGTH = 255


def refused(detail: str, field: str = "metadata.version") -> WyrdError:
    """`WYRD_REGISTRY_400_INVALID_VERSION_BLOCK` about one field."""
    return WyrdError(Code.REGISTRY_400_INVALID_VERSION_BLOCK, detail, field=field)


def _numeric(identifier: str) -> bool:
    return identifier.isascii() and identifier.isdigit()


def _well_formed(identifiers: str) -> bool:
    """Dot-separated identifiers, the numeric ones without leading zeros."""
    return bool(_IDENTIFIERS_ONLY.match(identifiers)) and not any(
        _numeric(part) and len(part) > 1 and part[0] == "0" for part in identifiers.split(".")
    )


@dataclass(frozen=True, slots=True)
class Version:
    """One exact version. `pre` and `build` are empty where the text has none."""

    major: int
    minor: int
    patch: int
    pre: str = ""
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """The version a text names, or None: numbers over 64 bits and texts over 255 characters too."""
        found = _VERSION.match(text) if len(text) <= _MAX_LENGTH else None
        if found is None:
            return None
        major, minor, patch = (int(found[index]) for index in (1, 2, 3))
        pre, build = found[4] or "", found[5] or ""
        if max(major, minor, patch) > _MAX_NUMBER or (pre and not _well_formed(pre)):
            return None
        return cls(major, minor, patch, pre, build)

    def __str__(self) -> str:
        pre = f"-{self.pre}" if self.pre else ""
        build = f"+{self.build}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"

    @property
    def release(self) -> Version:
        return Version(self.major, self.minor, self.patch)

    @property
    def precedence(self) -> str:
        """Text whose byte order is SemVer precedence; build metadata does not take part.

        Numbers are padded. A release ends in `~`, after every pre-release. Pre-release
        identifiers end in `!`, below every character they may hold, so that a shorter list sorts
        first; numeric ones start with `0` and their length, alphanumeric ones with `1`.
        """
        numbers = f"{self.major:020d}{self.minor:020d}{self.patch:020d}"
        if not self.pre:
            return numbers + "~"
        identifiers = (
            f"0{len(part):03d}{part}!" if _numeric(part) else f"1{part}!" for part in self.pre.split(".")
        )
        return numbers + "-" + "".join(identifiers)


@dataclass(frozen=True, slots=True)
class Scope:
    """What an unpinned Card may become: any version, one major line (`1`) or one minor line (`1.2`)."""

    major: int | None = None
    minor: int | None = None

    @classmethod
    def parse(cls, text: str | None) -> Scope | None:
        """None when the text is not a scope; no text is the scope of every version."""
        if text is None:
            return cls()
        found = _SCOPE.match(text)
        if found is None:
            return None
        major, minor = int(found[1]), None if found[2] is None else int(found[2])
        return None if max(major, minor or 0) > _MAX_NUMBER else cls(major, minor)

    def holds(self, version: Version) -> bool:
        return self.major in (None, version.major) and self.minor in (None, version.minor)

    def __str__(self) -> str:
        return ".".join(str(part) for part in (self.major, self.minor) if part is not None)


@dataclass(frozen=True, slots=True)
class Bump:
    """How the next version differs: `part` is major, minor, patch, pre, build or pre_build."""

    part: str = "patch"
    pre: str = ""
    build: str = ""

    def __post_init__(self) -> None:
        for field, text in (("pre", self.pre), ("build", self.build)):
            if text and not (_well_formed(text) if field == "pre" else _IDENTIFIERS_ONLY.match(text)):
                raise refused(f"{text[:80]!r} is not a SemVer {field} identifier", f"metadata.bump.{field}")


def next_version(bump: Bump, scope: Scope, highest: Version | None) -> Version:
    """The version that a bump makes of the highest one in its scope.

    * Nothing there yet: the scope's first version (`1.0.0` of scope 1); without a scope `1.0.0`
      for major and `0.1.0` for every other bump.
    * A pre-release is completed by the bump that leads to it: patch of `1.2.0-rc.1` is `1.2.0`.
    * `pre` numbers its versions: `rc` of `1.2.3` is `1.2.4-rc.1`, then `1.2.4-rc.2`.
    * `build` keeps the version and replaces its build metadata.

    Raises `WYRD_REGISTRY_400_INVALID_VERSION_BLOCK` when the result lies outside the scope or a
    number leaves 64 bits.
    """
    if highest is None:
        first = _first(bump, scope)
        made = replace(first, pre=f"{bump.pre}.1" if bump.pre else "", build=bump.build)
    else:
        made = _BUMPS[bump.part](highest, bump)
    if not scope.holds(made):
        raise refused(f"a {bump.part} bump of {highest} leaves the scope {scope}", "metadata.bump")
    if max(made.major, made.minor, made.patch) > _MAX_NUMBER or len(str(made)) > _MAX_LENGTH:
        raise refused(f"no version follows {highest}", "metadata.bump")
    return made


def _first(bump: Bump, scope: Scope) -> Version:
    if scope.major is not None:
        return Version(scope.major, scope.minor or 0, 0)
    return Version(1, 0, 0) if bump.part == "major" else Version(0, 1, 0)


def _major(of: Version, _: Bump) -> Version:
    completes = of.pre and of.minor == of.patch == 0
    return of.release if completes else Version(of.major + 1, 0, 0)


def _minor(of: Version, _: Bump) -> Version:
    completes = of.pre and of.patch == 0
    return of.release if completes else Version(of.major, of.minor + 1, 0)


def _patch(of: Version, _: Bump) -> Version:
    return of.release if of.pre else Version(of.major, of.minor, of.patch + 1)


def _pre(of: Version, bump: Bump) -> Version:
    stem, _, count = of.pre.rpartition(".")
    if stem == bump.pre and _numeric(count):
        return replace(of, pre=f"{stem}.{int(count) + 1}", build="")
    started = replace(of, pre=f"{bump.pre}.1", build="")
    if of.pre and started.precedence > of.precedence:
        return started
    return replace(started, patch=of.patch + 1)


def _build(of: Version, bump: Bump) -> Version:
    return replace(of, build=bump.build)


def _pre_build(of: Version, bump: Bump) -> Version:
    return replace(_pre(of, bump), build=bump.build)


_BUMPS = {
    "major": _major,
    "minor": _minor,
    "patch": _patch,
    "pre": _pre,
    "build": _build,
    "pre_build": _pre_build,
}
