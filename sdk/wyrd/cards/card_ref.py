"""How one Card names another: by path, by sibling, or by exact reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Tag, ValidationError

from wyrd.cards.identifiers import ExactVersion, Name
from wyrd.cards.shapes import TAG, Lenient, chosen_by, fault
from wyrd.wire.ids import is_uuid7

Kind = Literal[
    "Data",
    "Model",
    "Experiment",
    "Prompt",
    "Agent",
    "Verifier",
    "Service",
    "Policy",
    "Mcp",
    "Audit",
    "Artifact",
    "Trigger",
    "Operator",
    "Source",
]
KINDS: tuple[Kind, ...] = (
    "Data",
    "Model",
    "Experiment",
    "Prompt",
    "Agent",
    "Verifier",
    "Service",
    "Policy",
    "Mcp",
    "Audit",
    "Artifact",
    "Trigger",
    "Operator",
    "Source",
)
"""Every kind that can be declared, in the order that ties between Cards are broken."""

DEFAULT_SPACE = "default"


def _uid(text: str) -> str:
    if not is_uuid7(text):
        raise fault("a uid is a UUIDv7")
    return text.lower()


Uid = Annotated[str, AfterValidator(_uid)]

_TEXT = re.compile(r"([^/@#]+)/([^/@#]+)/([^/@#]+)@([^/@#]+)(?:#([^/@#]+))?")


class CardRef(Lenient):
    """One exact Card version: `space/Kind/name@version`, with `#uid` once the registry knows it."""

    kind: Kind
    name: Name
    version: ExactVersion
    space: Name = DEFAULT_SPACE
    uid: Uid | None = None

    @classmethod
    def parse(cls, text: str) -> CardRef:
        """Read the text form. Raises ValueError when it is not one."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"{text[:120]!r} is not a reference like space/Kind/name@1.0.0")
        space, kind, name, version, uid = found.groups()
        try:
            return cls.model_validate(
                {"kind": kind, "name": name, "version": version, "space": space, "uid": uid}
            )
        except ValidationError:
            raise ValueError(f"{text[:120]!r} is not a reference like space/Kind/name@1.0.0") from None

    def __str__(self) -> str:
        tail = f"#{self.uid}" if self.uid is not None else ""
        return f"{self.space}/{self.kind}/{self.name}@{self.version}{tail}"

    @property
    def pinned(self) -> CardRef:
        """The same reference without its uid: what identifies a version before it is stored."""
        return self if self.uid is None else self.model_copy(update={"uid": None})


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
