"""Version ranges: `^1.2`, `>=1.0 <2`, `1.x || 3.0.0`.

Comparators side by side, or with commas, must all hold; `||` separates alternatives. A full version
stands for itself, a partial one for its whole line. Pre-releases are ordinary members of a range
here: whether they are listed at all is the caller's `include_prerelease`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, or_, true

from cards.versions import Version
from wyrd.errors import Code, WyrdError

_COMPARATOR = re.compile(r"(\^|~|>=|<=|>|<|=)?\s*([0-9xX*][^\s,|<>=~^]*)(?:\s+|,\s*|$)")
_WILD = ("x", "X", "*")
_LONGEST = 256

_Bound = tuple[str, str]
"""An operator (`>=`, `>`, `<`, `<=`, `=`) and the precedence text it compares with."""


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Alternatives of bounds; an alternative without bounds holds every version."""

    alternatives: tuple[tuple[_Bound, ...], ...]

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Raises `WYRD_QUERY_400_INVALID_SYNTAX` with `field: version_range`."""
        if len(text) > _LONGEST:
            raise WyrdError(
                Code.QUERY_400_TOO_COMPLEX,
                f"a version range may have {_LONGEST} characters",
                field="version_range",
            )
        return cls(tuple(tuple(_bounds(part.strip())) for part in text.split("||")))

    def holds(self, version: Version) -> bool:
        key = version.precedence
        return any(all(_OPERATORS[op](key, bound) for op, bound in part) for part in self.alternatives)

    def condition(self, precedence: ColumnElement[str]) -> ColumnElement[bool]:
        """The same rule over a column of precedence texts."""
        return or_(
            *(
                and_(true(), *(_OPERATORS[op](precedence, bound) for op, bound in part))
                for part in self.alternatives
            )
        )


_OPERATORS = {
    ">=": lambda left, right: left >= right,
    ">": lambda left, right: left > right,
    "<=": lambda left, right: left <= right,
    "<": lambda left, right: left < right,
    "=": lambda left, right: left == right,
}


def _bounds(text: str) -> list[_Bound]:
    if not text:
        raise _refused("a version range may not be empty")
    bounds: list[_Bound] = []
    at = 0
    while at < len(text):
        found = _COMPARATOR.match(text, at)
        if found is None:
            raise _refused(f"{text[at : at + 40]!r} is not a version comparator")
        bounds.extend(_comparator(found[1] or "", found[2]))
        at = found.end()
    return bounds


def _comparator(op: str, text: str) -> list[_Bound]:
    exact = Version.parse(text)
    if exact is not None:
        if op in ("^", "~"):
            return [(">=", exact.precedence), ("<", _start(*_above(op, exact)))]
        return [(op or "=", exact.precedence)]
    line = _line(text)
    if not line:
        if op in ("<", ">"):
            raise _refused(f"{op}{text} holds no version")
        return []
    lower = _start(*line)
    upper = _start(*_line_above(line))
    if op == "^":
        upper = _start(*_caret(line))
    elif op == ">=":
        return [(">=", lower)]
    elif op == "<":
        return [("<", lower)]
    elif op == ">":
        return [(">=", upper)]
    elif op == "<=":
        return [("<", upper)]
    return [(">=", lower), ("<", upper)]


def _line(text: str) -> tuple[int, ...]:
    """The numbers of a partial version: (1,) of `1` and `1.x`, none of `*`."""
    numbers: list[int] = []
    parts = text.split(".")
    for index, part in enumerate(parts):
        if part in _WILD:
            if any(later not in _WILD for later in parts[index:]):
                break
            parts = parts[:index] or ["*"]
            if len(parts) <= 2:
                return tuple(numbers)
            break
        if not (part.isascii() and part.isdigit()) or (len(part) > 1 and part[0] == "0") or len(part) > 19:
            break
        numbers.append(int(part))
    else:
        if len(parts) <= 2:
            return tuple(numbers)
    raise _refused(f"{text[:80]!r} is not a version or the start of one")


def _line_above(line: tuple[int, ...]) -> tuple[int, ...]:
    return (*line[:-1], line[-1] + 1)


def _caret(line: tuple[int, ...]) -> tuple[int, ...]:
    return (line[0] + 1,) if line[0] > 0 or len(line) == 1 else _line_above(line)


def _above(op: str, version: Version) -> tuple[int, ...]:
    if op == "~":
        return version.major, version.minor + 1
    if version.major:
        return (version.major + 1,)
    return (0, version.minor + 1) if version.minor else (0, 0, version.patch + 1)


def _start(*numbers: int) -> str:
    """Just below every pre-release of the line's first version."""
    return "".join(f"{number:020d}" for number in (*numbers, 0, 0)[:3]) + "-"


def _refused(detail: str) -> WyrdError:
    return WyrdError(Code.QUERY_400_INVALID_SYNTAX, detail, field="version_range")
