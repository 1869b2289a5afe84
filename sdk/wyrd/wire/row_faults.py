"""Where in a batch a value stands, and what a value that does not fit is told.

Conversion works on whole columns; these places are asked only when something is wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from wyrd.errors import Code, WyrdError

_TOLD = 200


@dataclass(frozen=True)
class VariantLimits:
    """How deeply a free-form value may be nested, and how many bytes of JSON it may have."""

    depth: int = 64
    bytes: int = 8 * 1024 * 1024


LIMITS: Final = VariantLimits()


class Place:
    """The values of one column of a batch, in order: value `i` belongs to row `i`."""

    def __init__(self, name: str, limits: VariantLimits = LIMITS) -> None:
        self.name = name
        self.limits = limits

    def at(self, index: int) -> tuple[int, str]:
        """The row of a value, and its path from there: `(3, "customer.name")`."""
        return index, self.name

    def member(self, name: str) -> Place:
        """The values of a member of these structs, one for each."""
        return _Members(self, name)

    def items(self, offsets: Callable[[], Sequence[int]]) -> Place:
        """The items of these lists, one list after the other; list `i` starts at `offsets()[i]`."""
        return _Items(self, offsets)


class _Members(Place):
    def __init__(self, parent: Place, name: str) -> None:
        super().__init__(name, parent.limits)
        self.parent = parent

    def at(self, index: int) -> tuple[int, str]:
        row, path = self.parent.at(index)
        return row, f"{path}.{self.name}"


class _Items(Place):
    def __init__(self, parent: Place, offsets: Callable[[], Sequence[int]]) -> None:
        super().__init__("", parent.limits)
        self.parent = parent
        self.offsets = offsets

    def at(self, index: int) -> tuple[int, str]:
        offsets = self.offsets()
        owner = bisect_right(offsets, index) - 1
        row, path = self.parent.at(owner)
        return row, f"{path}[{index - offsets[owner]}]"


def misfit(place: Place, index: int, why: str) -> WyrdError:
    """`WYRD_SPEC_400_VALIDATION` with details field (`rows[3].customer.name`), row and reason."""
    row, path = place.at(index)
    field = f"rows[{row}].{path}"[:_TOLD]
    return WyrdError(Code.SPEC_400_VALIDATION, f"{field} {why}", field=field, row=row, reason=why)


def undeclared(name: Any, row: int, parent: str = "") -> WyrdError:
    """`WYRD_VALA_400_BIFROST_UNDECLARED_FIELD` with details field and row."""
    field = (f"{parent}.{name}" if parent else str(name))[:_TOLD]
    return WyrdError(
        Code.VALA_400_BIFROST_UNDECLARED_FIELD,
        f"row {row} has {field}, which its table does not declare",
        field=field,
        row=row,
    )


def bad_variant(place: Place, index: int, code: Code, why: str, **details: Any) -> WyrdError:
    """A `WYRD_VALA_*_VARIANT_*` with details field and row beside those given."""
    row, field = place.at(index)
    return WyrdError(code, f"row {row}: {field[:_TOLD]} {why}", field=field[:_TOLD], row=row, **details)


class Misfit(Exception):
    """Why a value is not one of its type: a clause such as "is text, not an integer"."""


def _said(value: Any) -> str:
    """What a value is, in JSON's words, never the value itself."""
    for types, word in (
        (bool, "a boolean"),
        (str, "text"),
        (int, "an integer"),
        (float, "a number"),
        (dict, "an object"),
        (list | tuple, "an array"),
        (datetime, "a date and time"),
        (date, "a date"),
        (bytes, "bytes"),
    ):
        if isinstance(value, types):
            return word
    return f"a {type(value).__name__}"


def not_a(what: str, value: Any) -> Misfit:
    return Misfit(f"is {_said(value)}, not {what}")
