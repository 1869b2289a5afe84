"""How one Card names another: by path, by sibling, or by exact reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import Tag, ValidationError

from wyrd.cards.shapes import TAG, Lenient, chosen_by
from wyrd.wire.names import DEFAULT_SPACE as DEFAULT_SPACE
from wyrd.wire.names import KINDS as KINDS
from wyrd.wire.names import Kind as Kind
from wyrd.wire.names import Uid as Uid
from wyrd.wire.refs import CardRef as CardRef


class Sibling(Lenient):
    """`{sibling: {kind, name, version, space}}`: another Card of the same declaration."""

    sibling: CardRef


Link: TypeAlias = CardRef | Sibling | str
"""A reference as authored or stored; a plain string is a path to a Card file."""


def link_form(value: Any) -> str | None:
    """`path`, `ref` or `sibling` when the value is a reference, None when it is not one."""
    if isinstance(value, str):
        return "path"
    if isinstance(value, CardRef):
        return "ref"
    if isinstance(value, Sibling):
        return "sibling"
    if not isinstance(value, Mapping):
        return None
    if "sibling" in value:
        return "sibling" if _reads(Sibling, value) else None
    if "kind" in value and "name" in value and "version" in value:
        return "ref" if _reads(CardRef, value) else None
    return None


def _reads(model: type[CardRef] | type[Sibling], value: Mapping[Any, Any]) -> bool:
    try:
        model.model_validate(value)
    except ValidationError:
        return False
    return True


def link_or_inline(value: Any) -> str | None:
    """As `link_form`, and `inline` for any other mapping or model."""
    form = link_form(value)
    if form is not None:
        return form
    return "inline" if isinstance(value, Mapping) or hasattr(value, "model_fields_set") else None


PathTag = Tag(TAG + "path")
RefTag = Tag(TAG + "ref")
SiblingTag = Tag(TAG + "sibling")
InlineTag = Tag(TAG + "inline")

PureLink = Annotated[
    Annotated[str, PathTag] | Annotated[CardRef, RefTag] | Annotated[Sibling, SiblingTag],
    chosen_by("reference", link_form),
]
"""A position that takes a reference and nothing else."""
