"""Following a reference into a JSON value: one place under `path`, or the items of an `each`.

A place that does not exist is missing evidence, never null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.failure import BlockFailure, ReasonKind
from wyrd.cards.references import WILDCARD, Reference, Selector

ReadRoot = Callable[[Reference], Any]
"""The value that a reference starts from, before its selectors: a slot's, a step's output or status.

Raises `BlockFailure` where there is none (missing slot, failed or skipped step)."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item that an `each` ranges over: where it stands, and its value or why it has none."""

    path: str
    value: Any = None
    failure: BlockFailure | None = None


def value_at(reference: Reference, read: ReadRoot) -> Any:
    """What a reference without wildcards reads. Raises `BlockFailure`."""
    return select(read(reference), reference.selectors, root_text(reference))


def items_of(reference: Reference, read: ReadRoot) -> Iterator[Item]:
    """What the reference of an `each` ranges over. Raises `BlockFailure` where its root has no value."""
    return spread(read(reference), reference.selectors, root_text(reference))


def root_text(reference: Reference) -> str:
    """The reference as written, without its selectors."""
    if reference.root == "inputs":
        return f"inputs.{reference.name}"
    return f"steps.{reference.name}.output" if reference.selectors else reference.text


def select(value: Any, selectors: Sequence[Selector], at: str = "") -> Any:
    """The value at the end of the selectors, none of them a wildcard.

    `at` names `value` itself in messages ("inputs.ticket"). Raises `BlockFailure` with
    MISSING_EVIDENCE that names the first place which does not exist.
    """
    for selector in selectors:
        value = _child(value, selector, at)
        at = _extend(at, selector)
    return value


def spread(value: Any, selectors: Sequence[Selector], at: str = "") -> Iterator[Item]:
    """The items of an `each`, in order: the elements that the last wildcard ranges over, each
    followed to the end of the selectors.

    Without any wildcard the value at the end of the path must itself be an array, and its
    elements are meant. An array that is missing or of another type is one item that failed.
    """
    every = tuple(selectors) if WILDCARD in selectors else (*selectors, WILDCARD)
    return _spread(value, every, at)


def _spread(value: Any, selectors: tuple[Selector, ...], at: str) -> Iterator[Item]:
    wildcard = selectors.index(WILDCARD)
    head, tail = selectors[:wildcard], selectors[wildcard + 1 :]
    here = _path(at, head)
    try:
        array = select(value, head, at)
    except BlockFailure as failure:
        yield Item(here, failure=failure)
        return
    if type(array) is not list:
        reason = f"each needs an array at {here}, got {_a(array)}"
        yield Item(here, failure=BlockFailure(ReasonKind.TYPE_MISMATCH, reason))
        return
    nested = WILDCARD in tail
    for index, element in enumerate(array):
        place = f"{here}[{index}]"
        if nested:
            yield from _spread(element, tail, place)
        elif tail:
            yield _followed(element, tail, place)
        else:
            yield Item(place, element)


def _followed(element: Any, tail: tuple[Selector, ...], place: str) -> Item:
    path = _path(place, tail)
    try:
        return Item(path, select(element, tail, place))
    except BlockFailure as failure:
        return Item(path, failure=failure)


def _path(at: str, selectors: Sequence[Selector]) -> str:
    for selector in selectors:
        at = _extend(at, selector)
    return at


def _extend(at: str, selector: Selector) -> str:
    return f"{at}.{selector}" if isinstance(selector, str) else f"{at}[{selector}]"


def _child(value: Any, selector: Selector, at: str) -> Any:
    if isinstance(selector, str):
        if type(value) is not dict:
            raise _missing(at, selector, f"{at} is {_a(value)}, not an object")
        if selector not in value:
            raise _missing(at, selector, f"{at} has no such member")
        return value[selector]
    if not isinstance(selector, int):
        raise TypeError("a wildcard selects items, not a value")
    if type(value) is not list:
        raise _missing(at, selector, f"{at} is {_a(value)}, not an array")
    if selector >= len(value):
        raise _missing(at, selector, f"{at} has {len(value)} items")
    return value[selector]


def _missing(at: str, selector: Selector, why: str) -> BlockFailure:
    return BlockFailure(ReasonKind.MISSING_EVIDENCE, f"{_extend(at, selector)} is missing: {why}")


_NAMES = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def _a(value: Any) -> str:
    return _NAMES.get(type(value), "no JSON value")
