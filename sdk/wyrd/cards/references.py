"""References inside a Verifier: what a block reads, as text and as parsed parts.

Grammar: `inputs.<slot>`, `steps.<id>.output | .status`, `steps.<id>.requirements.<id>.outcome |
.reason`, `requirement.id | .statement`. Child selectors (`.field`, `[n]`, `[*]`) may follow a
slot or a step's output; where `[*]` is legal is a rule of the position, not of the grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from wyrd.cards.identifiers import U64, is_block_id, is_slot_name
from wyrd.cards.shapes import fault


class Wildcard(Enum):
    """The type of `WILDCARD`, the selector `[*]`: every element of an array."""

    ALL = "*"

    def __repr__(self) -> str:
        return "[*]"


WILDCARD: Final = Wildcard.ALL

Selector: TypeAlias = str | int | Wildcard
Root = Literal["inputs", "steps", "requirement"]
Facet = Literal["output", "status", "outcome", "reason", "id", "statement"]

_ROOTS: tuple[Root, ...] = ("inputs", "steps", "requirement")
_SELECTOR = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]+)\]|\[(\*)\]")
_HEAD = re.compile(r"[A-Za-z0-9_-]+")
MAX_LENGTH = 4096


class ReferenceMalformed(ValueError):
    """The text is not a reference. The message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One parsed reference. Immutable and hashable; equal when the text is equal.

    `root` and `name` say where it starts (`name` is a slot or step id, or empty for
    `requirement`), `facet` what of a step or requirement is read, `requirement` the id of a
    step's requirement, `selectors` the way inside the value: field names, indexes, `WILDCARD`.
    """

    text: str
    root: Root
    name: str
    facet: Facet | None
    requirement: str | None
    selectors: tuple[Selector, ...]

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read the text. Raises `ReferenceMalformed`, a ValueError."""
        return _parse(text)

    @property
    def has_wildcard(self) -> bool:
        return WILDCARD in self.selectors

    @property
    def is_whole_slot(self) -> bool:
        """Whether it reads one input slot and nothing inside it."""
        return self.root == "inputs" and not self.selectors

    def __str__(self) -> str:
        return self.text

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _validate, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": r"^(inputs|steps|requirement)\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+|\[([0-9]+|\*)\])*$",
            "description": "A reference: inputs.<slot>, steps.<id>.output, requirement.statement, ...",
        }


def _validate(value: Any) -> Reference:
    if isinstance(value, Reference):
        return value
    if not isinstance(value, str):
        raise fault("a reference is text such as inputs.<slot>")
    try:
        return _parse(value)
    except ReferenceMalformed as error:
        raise fault(str(error)) from None


def _parse(text: str) -> Reference:
    if len(text) > MAX_LENGTH:
        raise ReferenceMalformed(f"a reference has at most {MAX_LENGTH} characters")
    root = next((root for root in _ROOTS if text == root or text.startswith(root + ".")), None)
    if root is None:
        raise ReferenceMalformed(f"{text[:80]!r}: the root must be inputs, steps or requirement")
    name, rest = _head(text, len(root))
    if root == "inputs":
        if not is_slot_name(name):
            raise ReferenceMalformed(f"{text[:80]!r}: {name[:80]!r} is not a slot name")
        return Reference(text, root, name, None, None, _selectors(text, rest))
    if root == "requirement":
        if name not in ("id", "statement"):
            raise ReferenceMalformed(f"{text[:80]!r}: only requirement.id and requirement.statement exist")
        _ends(text, rest)
        return Reference(text, root, "", "id" if name == "id" else "statement", None, ())
    return _parse_step(text, name, rest)


def _parse_step(text: str, step: str, at: int) -> Reference:
    if not is_block_id(step):
        raise ReferenceMalformed(f"{text[:80]!r}: {step[:80]!r} is not a step id")
    member, rest = _head(text, at)
    if member == "output":
        return Reference(text, "steps", step, "output", None, _selectors(text, rest))
    if member == "status":
        _ends(text, rest)
        return Reference(text, "steps", step, "status", None, ())
    if member == "requirements":
        requirement, rest = _head(text, rest)
        if not is_block_id(requirement):
            raise ReferenceMalformed(f"{text[:80]!r}: {requirement[:80]!r} is not a requirement id")
        facet, rest = _head(text, rest)
        if facet not in ("outcome", "reason"):
            raise ReferenceMalformed(f"{text[:80]!r}: a step's requirement has .outcome and .reason")
        _ends(text, rest)
        return Reference(text, "steps", step, "outcome" if facet == "outcome" else "reason", requirement, ())
    raise ReferenceMalformed(f"{text[:80]!r}: a step has .output, .status and .requirements")


def _head(text: str, at: int) -> tuple[str, int]:
    if at >= len(text) or text[at] != ".":
        raise ReferenceMalformed(f"{text[:80]!r}: a .name is missing after position {at}")
    found = _HEAD.match(text, at + 1)
    if found is None:
        raise ReferenceMalformed(f"{text[:80]!r}: a name is missing at position {at + 1}")
    return found.group(), found.end()


def _ends(text: str, at: int) -> None:
    if at != len(text):
        raise ReferenceMalformed(f"{text[:80]!r}: nothing may follow position {at}")


def _selectors(text: str, at: int) -> tuple[Selector, ...]:
    found: list[Selector] = []
    while at < len(text):
        match = _SELECTOR.match(text, at)
        if match is None:
            raise ReferenceMalformed(f"{text[:80]!r}: not .field, [n] or [*] at position {at}")
        field, index, _ = match.groups()
        if field is not None:
            found.append(field)
        elif index is None:
            found.append(WILDCARD)
        elif len(index.lstrip("0")) > 20 or int(index) > U64:
            raise ReferenceMalformed(f"{text[:80]!r}: the index is too large")
        else:
            found.append(int(index))
        at = match.end()
    return tuple(found)
