"""Bindings: `verified_by` entries, which attach a Verifier to what it checks."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from wyrd.cards.card_ref import (
    CardRef,
    InlineTag,
    PathTag,
    PureLink,
    RefTag,
    Sibling,
    SiblingTag,
    link_or_inline,
)
from wyrd.cards.operator import AnyOperator
from wyrd.cards.shapes import Strict, chosen_by
from wyrd.cards.trigger import AnyTrigger

TriggerOrLink: TypeAlias = Annotated[
    Annotated[str, PathTag]
    | Annotated[CardRef, RefTag]
    | Annotated[Sibling, SiblingTag]
    | Annotated[AnyTrigger, InlineTag],
    chosen_by("trigger", link_or_inline),
]
OperatorOrLink: TypeAlias = Annotated[
    Annotated[str, PathTag]
    | Annotated[CardRef, RefTag]
    | Annotated[Sibling, SiblingTag]
    | Annotated[AnyOperator, InlineTag],
    chosen_by("operator", link_or_inline),
]


class Binding(Strict):
    """One Verifier bound to a subject, when it runs by itself, and who reacts."""

    verifier: PureLink
    runs_on: TriggerOrLink | None = None
    on_failure: list[OperatorOrLink] = []
    on_verdict_change: list[OperatorOrLink] = []
