"""Cards as read from files: one Card, and the tree that a target leads to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from pathlib import Path as FilePath
from typing import Any

from wyrd.cards.card_ref import KINDS, CardRef, Kind, Link, Sibling
from wyrd.cards.decode import Path
from wyrd.cards.diagnostics import CheckedCard, Diagnostic
from wyrd.cards.envelope import Metadata, Spec
from wyrd.cards.links import LinkAt, links
from wyrd.cards.workspace import Workspace
from wyrd.cards.yaml_reader import Document

Identity = tuple[str, str, str, str | None]
"""Kind, space, name, version as authored."""


@dataclass(eq=False)
class LoadedCard:
    """One decoded Card. `file` is how messages name its file, `document` knows its positions."""

    kind: Kind
    metadata: Metadata
    spec: Spec
    raw: dict[str, Any]
    file: str
    real: FilePath
    document: Document
    depth: int
    api_version: str | None = None
    children: dict[Path, LoadedCard] = field(default_factory=dict)
    """The Cards that its path references lead to, by place in the spec."""

    @property
    def identity(self) -> Identity:
        return self.kind, self.metadata.space, self.metadata.name, self.metadata.version

    @property
    def checked(self) -> CheckedCard:
        return CheckedCard(self.kind, self.metadata.space, self.metadata.name, self.metadata.version)

    @property
    def links(self) -> list[LinkAt]:
        return links(self.spec)

    def __str__(self) -> str:
        version = "" if self.metadata.version is None else f"@{self.metadata.version}"
        return f"{self.metadata.space}/{self.kind}/{self.metadata.name}{version}"


def identity_of_ref(ref: CardRef) -> Identity:
    return ref.kind, ref.space, ref.name, ref.version


def link_identity(link: Link, child: LoadedCard | None) -> Identity | None:
    """Who a link names; a path names the Card it leads to, if it was loaded."""
    if isinstance(link, CardRef):
        return identity_of_ref(link)
    if isinstance(link, Sibling):
        return identity_of_ref(link.sibling)
    return None if child is None else child.identity


@dataclass
class LoadedTree:
    """Everything a target leads to, dependencies first, the root last among its own."""

    cards: list[LoadedCard]
    root: LoadedCard
    workspace: Workspace
    warnings: list[Diagnostic] = field(default_factory=list)

    def submissions(
        self,
        *,
        artifacts: Mapping[CardRef, Sequence[dict[str, Any]]] | None = None,
        bump: str | dict[str, Any] = "patch",
    ) -> list[dict[str, Any]]:
        """As `wyrd.cards.declaration.to_submissions`."""
        from wyrd.cards.declaration import to_submissions

        return to_submissions(self, artifacts=artifacts, bump=bump)


def edges(cards: Iterable[LoadedCard]) -> dict[LoadedCard, list[LoadedCard]]:
    """Which loaded Cards each one depends on: by path, and by sibling when the sibling is loaded."""
    loaded = list(cards)
    by_identity = {card.identity: card for card in loaded}
    found: dict[LoadedCard, list[LoadedCard]] = {}
    for card in loaded:
        targets = dict.fromkeys(card.children.values())
        for link in card.links:
            if isinstance(link.value, Sibling):
                target = by_identity.get(identity_of_ref(link.value.sibling))
                if target is not None:
                    targets[target] = None
        found[card] = list(targets)
    return found


def dependency_order(waits: dict[LoadedCard, list[LoadedCard]]) -> tuple[list[LoadedCard], list[LoadedCard]]:
    """Cards in ready-queue order, and those that a cycle keeps from ever being ready.

    Ties go by space, kind order, name, then version compared as text.
    """
    left = {card: len(others) for card, others in waits.items()}
    users: dict[LoadedCard, list[LoadedCard]] = {card: [] for card in waits}
    for card, others in waits.items():
        for other in others:
            users[other].append(card)
    cards = list(waits)
    place = {card: index for index, card in enumerate(cards)}

    def key(card: LoadedCard) -> tuple[str, int, str, str, int]:
        _, space, name, version = card.identity
        return space, KINDS.index(card.kind), name, version or "", place[card]

    ready = [key(card) for card, count in left.items() if count == 0]
    heapify(ready)
    order: list[LoadedCard] = []
    while ready:
        card = cards[heappop(ready)[-1]]
        order.append(card)
        for user in users[card]:
            left[user] -= 1
            if left[user] == 0:
                heappush(ready, key(user))
    done = set(order)
    return order, [card for card in cards if card not in done]
