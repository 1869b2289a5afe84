"""The `filter` of the Card list: conditions over a Card's fields, labels and annotations.

    kind = "Verifier" and (labels.team in ["support", "care"] or not version < "2.0.0")

* fields: card_uid, kind, space, name, version, spec_hash, artifact_hash, status, created_at,
  updated_at, `labels.<key>` and `annotations.<key>`;
* operators: `=`, `!=`, `<`, `<=`, `>`, `>=`, `in [...]`, `not in [...]`, and `exists` after a field;
* values: text in double quotes, with JSON's escapes;
* `not` binds tighter than `and`, `and` tighter than `or`; words in any letter case.

Versions compare by SemVer order, times as RFC 3339 instants, all else as text by code point. What
a Card does not have is unequal to every value. The published clients check this syntax before
they send it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ColumnElement, and_, false, func, not_, or_

from cards.versions import Version
from store.card_tags import tag_value
from store.tables.cards import cards
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonRefused, strict_loads

MAX_LENGTH = 2048
MAX_CONDITIONS = 64
MAX_NESTING = 16

_TOKEN = re.compile(
    r"\s*(?:(?P<word>(?:labels|annotations|attributes)\.[A-Za-z0-9][A-Za-z0-9._/-]*|[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<op><=|>=|!=|=|<|>)|(?P<mark>[()\[\],])|(?P<value>\"(?:[^\"\\]|\\.)*\"))"
)
_COMPARISONS: dict[str, Callable[[Any, Any], ColumnElement[bool]]] = {
    "=": lambda column, value: column == value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}
_TEXTS = ("kind", "space", "name", "version", "spec_hash", "artifact_hash", "status")
_INSTANTS = ("created_at", "updated_at")
_COLUMNS: dict[str, Any] = {
    "card_uid": cards.c.uid,
    **{name: cards.c[name] for name in (*_TEXTS, *_INSTANTS)},
}
_TAGS = ("labels", "annotations")
_RESERVED = frozenset(("and", "or", "not", "in", "exists"))


def compile_filter(text: str) -> ColumnElement[bool]:
    """The SQL condition of a filter, its values bound as parameters.

    Raises `WYRD_QUERY_400_INVALID_SYNTAX` (details.position), `WYRD_QUERY_400_INVALID_FIELD` and
    `WYRD_QUERY_400_TOO_COMPLEX`.
    """
    if len(text) > MAX_LENGTH:
        raise _too_complex(f"a filter may have {MAX_LENGTH} characters")
    return _Reader(text).read()


class _Reader:
    """Recursive descent over the tokens; `at` is the token in hand."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.conditions = 0
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
        if self._kind() != "word" or self.tokens[self.at][1].lower() in _RESERVED:
            raise self._unexpected("a field")
        field = self._take()
        column = _column(field)
        if self._taken("exists"):
            self._count()
            present: ColumnElement[bool] = column.is_not(None)
            return present
        if self._kind() == "op":
            return self._compared(field, column, self._take())
        negated = self._taken("not")
        if not self._taken("in"):
            raise self._unexpected("'in'" if negated else "an operator")
        self._expect("[")
        parts = [self._compared(field, column, "=")]
        while self._taken(","):
            parts.append(self._compared(field, column, "="))
        self._expect("]")
        return not_(or_(*parts)) if negated else or_(*parts)

    def _compared(self, field: str, column: Any, op: str) -> ColumnElement[bool]:
        position = self._position()
        value: Any = self._value()
        if field in _INSTANTS:
            value = _instant(value, position)
        elif field == "version" and op not in ("=", "!="):
            version = Version.parse(value)
            if version is None:
                raise _refused(f"{value[:80]!r} is not a full version", position)
            column, value = cards.c.precedence, version.precedence
        if op == "!=":
            return not_(_known(column == value))
        return _known(_COMPARISONS[op](column, value))

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
            raise self._unexpected("a value in double quotes")
        self._count()
        return self._take()

    def _count(self) -> None:
        self.conditions += 1
        if self.conditions > MAX_CONDITIONS:
            raise _too_complex(f"a filter may hold {MAX_CONDITIONS} conditions")

    def _unexpected(self, wanted: str) -> WyrdError:
        kind, text, position = self.tokens[self.at]
        found = "the end" if kind == "end" else repr(text[:40])
        return _refused(f"expected {wanted}, found {found} at character {position + 1}", position)


def _column(field: str) -> Any:
    """The SQL of a field. Raises `WYRD_QUERY_400_INVALID_FIELD`."""
    group, dot, key = field.partition(".")
    if dot and group in _TAGS:
        return tag_value(group, key)
    found = _COLUMNS.get(field)
    if found is None:
        raise WyrdError(
            Code.QUERY_400_INVALID_FIELD,
            f"{field[:80]!r} is not a field of a Card",
            field="filter",
            name=field[:80],
            known=[*sorted(_COLUMNS), "labels.<key>", "annotations.<key>"],
        )
    return found


def _known(comparison: ColumnElement[bool]) -> ColumnElement[bool]:
    """False where SQL would answer unknown, so that `not` makes it true."""
    return func.coalesce(comparison, false(), type_=Boolean)


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
        if kind == "value":
            content = _unquoted(content, found.start(kind))
        tokens.append((kind, content, found.start(kind)))
        at = found.end()
    tokens.append(("end", "", end))
    return tokens


def _unquoted(literal: str, position: int) -> str:
    try:
        value: str = strict_loads(literal)
    except JsonRefused as refused:
        raise _refused(f"the text at character {position + 1}: {refused.reason}", position) from None
    if "\0" in value:
        raise _refused("a value may not hold the NUL character", position)
    return value


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
