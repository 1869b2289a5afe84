"""The Cards around one Card: who its links name, and what they hold when that is known."""

from __future__ import annotations

from collections.abc import Mapping

from wyrd.cards.agent import AgentSpec
from wyrd.cards.card_ref import Link
from wyrd.cards.envelope import Spec
from wyrd.cards.loaded import Identity, LoadedCard, link_identity
from wyrd.cards.prompt import PromptSpec


class Neighbours:
    """What the links of one Card name. `specs` holds every Card known here, by identity."""

    def __init__(self, specs: Mapping[Identity, Spec], by_path: Mapping[str, Identity] | None = None) -> None:
        self._specs = specs
        self._by_path = by_path or {}

    def identity(self, link: Link) -> Identity | None:
        """Kind, space, name, version of the Card that a link names; None for an unresolved path."""
        return self._by_path.get(link) if isinstance(link, str) else link_identity(link, None)

    def kind(self, link: Link) -> str | None:
        who = self.identity(link)
        return None if who is None else who[0]

    def spec(self, link: Link) -> Spec | None:
        """The named Card's spec, when it is known here."""
        who = self.identity(link)
        return None if who is None else self._specs.get(who)

    def agent(self, link: Link) -> AgentSpec | None:
        found = self.spec(link)
        return found if isinstance(found, AgentSpec) else None

    def prompt(self, link: Link) -> PromptSpec | None:
        found = self.spec(link)
        return found if isinstance(found, PromptSpec) else None


def neighbours_of(card: LoadedCard, specs: Mapping[Identity, Spec]) -> Neighbours:
    """The neighbours of a Card read from files; its paths lead to its children."""
    by_path = {
        link.value: card.children[link.path].identity
        for link in card.links
        if isinstance(link.value, str) and link.path in card.children
    }
    return Neighbours(specs, by_path)
