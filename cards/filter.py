"""The `filter` of the Card list: conditions over the fields of an item.

    name starts_with 'support-' and (status = 'active' or not version < '2.0.0')

* fields: card_uid, kind, space, name, version, spec_hash, artifact_hash, status, created_at,
  updated_at;
* operators: `=`, `!=`, `<`, `<=`, `>`, `>=`, `starts_with`, `contains`, `in ('a', 'b')`;
* values: text in single or double quotes, the quote doubled inside it; `artifact_hash = null`;
* `not` binds tighter than `and`, `and` tighter than `or`; words in any letter case.

Versions compare by SemVer order, times as RFC 3339 instants, all else as text by code point.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, not_, or_, true

from cards.versions import Version
from store.tables.cards import cards
from wyrd.errors import Code, WyrdError

MAX_LENGTH = 2048
MAX_VALUES = 64
MAX_NESTING = 16

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<op><=|>=|!=|=|<|>)|(?P<mark>[(),])"
    r"|'(?P<single>(?:[^']|'')*)'|\"(?P<double>(?:[^\"]|\"\")*)\")"
)
_COMPARISONS: dict[str, Callable[[Any, Any], ColumnElement[bool]]] = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}
# Not LIKE: on SQLite it takes letters of either case for the same.
_TEXT_OPERATORS: dict[str, Callable[[Any, str], ColumnElement[bool]]] = {
    "starts_with": lambda column, value: func.substr(column, 1, len(value)) == value,
    "contains": lambda column, value: func.replace(column, value, "") != column if value else true(),
}
_COLUMNS: dict[str, Any] = {
    "card_uid": cards.c.uid,
    **{name: cards.c[name] for name in ("kind", "space", "name", "version", "spec_hash", "status")},
    # Never NULL in a comparison, or `not` would turn false into unknown instead of true.
    "artifact_hash": func.coalesce(cards.c.artifact_hash, ""),
    "created_at": cards.c.created_at,
    "updated_at": cards.c.updated_at,
}
_INSTANTS = ("created_at", "updated_at")


def compile_filter(text: str) -> ColumnElement[bool]:
    """The SQL condition of a filter, its values bound as parameters.

    Raises `WYRD_QUERY_400_INVALID_SYNTAX` (details.position), `WYRD_QUERY_400_INVALID_FIELD` and
    `WYRD_QUERY_400_TOO_COMPLEX`.
    """
    if len(text) > MAX_LENGTH:
        raise _too_complex(f"a filter may have {MAX_LENGTH} characters")
    if "\0" in text:
        raise _refused("a filter may not hold the NUL character", text.index("\0"))
    return _Reader(text).read()


class _Reader:
    """Recursive descent over the tokens; `at` is the token in hand."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.values = 0
        self.nesting = 0

    def read(self) -> ColumnElement[bool]:
        condition = self._either()
        if self._kind() != "end":
            raise self._unexpected("'and', 'or' or the end")
        return condition

    def _either(self) -> ColumnElement[bool]:
        parts = [self._both()]
        while self._taken("or"):
            parts.append(self._both())
        return or_(*parts) if len(parts) > 1 else parts[0]

    def _both(self) -> ColumnElement[bool]:
        parts = [self._one()]
        while self._taken("and"):
            parts.append(self._one())
        return and_(*parts) if len(parts) > 1 else parts[0]

    def _one(self) -> ColumnElement[bool]:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise _too_complex(f"a filter may nest {MAX_NESTING} deep")
        try:
            if self._taken("not"):
                return not_(self._one())
            if self._taken("("):
                condition = self._either()
                self._expect(")")
                return condition
            return self._condition()
        finally:
            self.nesting -= 1

    def _condition(self) -> ColumnElement[bool]:
        if self._kind() != "word":
            raise self._unexpected("a field")
        field = self._take()
        if field not in _COLUMNS:
            raise WyrdError(
                Code.QUERY_400_INVALID_FIELD,
                f"{field[:80]!r} is not a field of a Card item",
                field="filter",
                name=field[:80],
                known=sorted(_COLUMNS),
            )
        return self._comparison(field)

    def _comparison(self, field: str) -> ColumnElement[bool]:
        column = _COLUMNS[field]
        if self._kind() == "op":
            op = self._take()
            if field == "artifact_hash" and op in ("=", "!=") and self._taken("null"):
                absent: ColumnElement[bool] = cards.c.artifact_hash.is_(None)
                return absent if op == "=" else not_(absent)
            return self._compared(field, op)
        if self._taken("in"):
            self._expect("(")
            parts = [self._compared(field, "=")]
            while self._taken(","):
                parts.append(self._compared(field, "="))
            self._expect(")")
            return or_(*parts)
        for op in _TEXT_OPERATORS:
            if self._taken(op):
                if field in _INSTANTS:
                    raise self._unexpected("a comparison: a time is not text")
                return _TEXT_OPERATORS[op](column, self._value())
        raise self._unexpected("an operator")

    def _compared(self, field: str, op: str) -> ColumnElement[bool]:
        position = self._position()
        value = self._value()
        if field in _INSTANTS:
            return _COMPARISONS[op](_COLUMNS[field], _instant(value, position))
        if field == "version":
            version = Version.parse(value)
            if version is None:
                raise _refused(f"{value[:80]!r} is not a full version", position)
            if op in ("=", "!="):
                return _COMPARISONS[op](cards.c.version, value)
            return _COMPARISONS[op](cards.c.precedence, version.precedence)
        return _COMPARISONS[op](_COLUMNS[field], value)

    def _kind(self) -> str:
        return self.tokens[self.at][0]

    def _position(self) -> int:
        return self.tokens[self.at][2]

    def _take(self) -> str:
        text = self.tokens[self.at][1]
        self.at += 1
        return text

    def _taken(self, word: str) -> bool:
        kind, text, _ = self.tokens[self.at]
        if kind in ("word", "mark") and text.lower() == word:
            self.at += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._taken(mark):
            raise self._unexpected(repr(mark))

    def _value(self) -> str:
        if self._kind() != "value":
            raise self._unexpected("a quoted value")
        self.values += 1
        if self.values > MAX_VALUES:
            raise _too_complex(f"a filter may compare with {MAX_VALUES} values")
        return self._take()

    def _unexpected(self, wanted: str) -> WyrdError:
        kind, text, position = self.tokens[self.at]
        found = "the end" if kind == "end" else repr(text[:40])
        return _refused(f"expected {wanted}, found {found} at character {position + 1}", position)


def _tokens(text: str) -> list[tuple[str, str, int]]:
    tokens: list[tuple[str, str, int]] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise _refused(f"cannot read the filter at character {at + 1}", at)
        kind = found.lastgroup or ""
        content = found[kind]
        if kind in ("single", "double"):
            quote = "'" if kind == "single" else '"'
            kind, content = "value", content.replace(quote * 2, quote)
        tokens.append((kind, content, found.start(found.lastgroup or "")))
        at = found.end()
    tokens.append(("end", "", end))
    return tokens


def _instant(text: str, position: int) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise _refused(f"{text[:80]!r} is not an RFC 3339 time with a zone", position)
    return found


def _refused(detail: str, position: int) -> WyrdError:
    return WyrdError(Code.QUERY_400_INVALID_SYNTAX, detail, field="filter", position=position)


def _too_complex(detail: str) -> WyrdError:
    return WyrdError(Code.QUERY_400_TOO_COMPLEX, detail, field="filter")
