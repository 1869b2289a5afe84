"""The exact Cards behind a root Service, and what each view of them has bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from wyrd._client.envelope import CardEnvelope
from wyrd._client.flow import Flow
from wyrd._client.registry import fetch
from wyrd.errors import Code, WyrdError
from wyrd.wire.refs import CardRef


def _broken(detail: str, **details: Any) -> WyrdError:
    return WyrdError(Code.SDK_400_INVALID_STATE_BUNDLE, detail, **details)


def exact_ref(value: Any, where: str) -> CardRef:
    """A stored reference with its uid; SDK_400_INVALID_STATE_BUNDLE when it is anything else."""
    try:
        ref = CardRef.model_validate(dict(value) if isinstance(value, Mapping) else value)
    except ValidationError:
        ref = None
    if ref is None or ref.uid is None:
        raise _broken(f"{where} is not an exact reference", field=where)
    return ref


@dataclass(frozen=True, slots=True)
class View:
    """What a run looks at: the Service itself (`alias` None) or one component."""

    alias: str | None
    card: CardEnvelope
    bound: tuple[CardEnvelope, ...]
    """The Verifiers bound to the subject, each exact version once."""

    def verifier(self, name: str) -> CardEnvelope:
        """The bound Verifier of that name, `name@version` or `space/name@version`.

        SDK_404_UNKNOWN_VERIFIER when none is bound, SPEC_400_VALIDATION when several are.
        """
        found = [card for card in self.bound if matches(card.card_ref, name)]
        if len(found) == 1:
            return found[0]
        whose = self.alias or self.card.card_ref.name
        if not found:
            bound = [card.card_ref.name for card in self.bound]
            raise WyrdError(
                Code.SDK_404_UNKNOWN_VERIFIER,
                f"no Verifier {name!r} is bound to {whose}; bound: {', '.join(bound) or 'none'}",
                verifier=name,
                alias=self.alias,
                verifiers=bound,
            )
        choices = [card.card_ref.pinned for card in found]
        raise WyrdError(
            Code.SPEC_400_VALIDATION,
            f"{whose} has several Verifiers named {name!r}; choose by space/name@version",
            field="verifier",
            choices=choices,
        )


def matches(ref: CardRef, text: str) -> bool:
    """Whether a text names that Verifier: by name, `name@version`, `space/name@version` or in full."""
    return text in (
        ref.name,
        f"{ref.name}@{ref.version}",
        f"{ref.space}/{ref.name}@{ref.version}",
        ref.pinned,
        str(ref),
    )


@dataclass(frozen=True, slots=True)
class Graph:
    """A root Service with every Card it refers to, by UID."""

    root: CardEnvelope
    cards: Mapping[str, CardEnvelope]
    components: Mapping[str, CardEnvelope]
    """Alias to Card, in declared order."""
    _verifiers: Mapping[str | None, tuple[CardEnvelope, ...]]

    def view(self, alias: str | None) -> View:
        """SDK_404_UNKNOWN_ALIAS for an alias the Service does not declare."""
        card = self.root if alias is None else self.card(alias)
        return View(alias, card, self._verifiers[alias])

    def card(self, alias: str) -> CardEnvelope:
        found = self.components.get(alias)
        if found is None:
            known = ", ".join(self.components) or "none"
            raise WyrdError(
                Code.SDK_404_UNKNOWN_ALIAS,
                f"{self.root.card_ref.name} has no component {str(alias)!r}; it has {known}",
                alias=str(alias),
                aliases=list(self.components),
            )
        return found

    def card_of_kind(self, alias: str, kind: str) -> CardEnvelope:
        """SDK_400_CARD_KIND_MISMATCH when the alias names a Card of another kind."""
        found = self.card(alias)
        if found.kind != kind:
            raise WyrdError(
                Code.SDK_400_CARD_KIND_MISMATCH,
                f"{alias!r} is of kind {found.kind}, not {kind}",
                alias=alias,
                expected_kind=kind,
                kind=found.kind,
            )
        return found

    def verifier(self, alias: str) -> CardEnvelope:
        """A Verifier by name: Verifiers are no components, so any that a Card here binds counts."""
        found = {
            card.uid: card
            for bound in self._verifiers.values()
            for card in bound
            if matches(card.card_ref, alias)
        }
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            raise WyrdError(
                Code.SPEC_400_VALIDATION,
                f"several Verifiers are named {alias!r}; choose by space/name@version",
                field="alias",
                choices=[card.card_ref.pinned for card in found.values()],
            )
        return self.card_of_kind(alias, "Verifier")


def build(root: CardEnvelope, cards: Mapping[str, CardEnvelope]) -> Graph:
    """Check the graph and find each view's Verifiers. SDK_400_INVALID_STATE_BUNDLE when it has holes."""
    if root.kind != "Service":
        raise WyrdError(
            Code.SDK_400_CARD_KIND_MISMATCH,
            f"a state is declared from a Service, not a {root.kind}",
            expected_kind="Service",
            kind=root.kind,
        )
    components: dict[str, CardEnvelope] = {}
    verifiers: dict[str | None, tuple[CardEnvelope, ...]] = {
        None: _bound(root.spec, "spec", cards),
    }
    for index, component in enumerate(root.spec.get("components") or ()):
        where = f"spec.components[{index}]"
        alias = component.get("alias") if isinstance(component, Mapping) else None
        if not isinstance(alias, str):
            raise _broken(f"{where} has no alias", field=where)
        card = _held(exact_ref(component.get("ref"), f"{where}.ref"), cards)
        components[alias] = card
        own = _bound(component, where, cards)
        if card.kind == "Agent":
            own = (*own, *_bound(card.spec, f"{where}.ref", cards))
        verifiers[alias] = tuple({card.uid: card for card in own}.values())
    return Graph(root, dict(cards), components, verifiers)


def _held(ref: CardRef, cards: Mapping[str, CardEnvelope]) -> CardEnvelope:
    found = cards.get(ref.uid or "")
    if found is None:
        raise _broken(f"{ref.pinned} is referred to but not in the graph", card_ref=str(ref))
    return found


def _bound(
    holder: Mapping[str, Any], where: str, cards: Mapping[str, CardEnvelope]
) -> tuple[CardEnvelope, ...]:
    return tuple(_held(ref, cards) for ref in bound_refs(holder, where))


def bound_refs(holder: Mapping[str, Any], where: str) -> Iterator[CardRef]:
    """The Verifiers that a spec or a component lists under `verified_by`."""
    for index, binding in enumerate(holder.get("verified_by") or ()):
        place = f"{where}.verified_by[{index}].verifier"
        yield exact_ref(binding.get("verifier") if isinstance(binding, Mapping) else None, place)


def load(server_url: str, root: CardRef) -> Flow[Graph]:
    """Fetch the graph of a Service."""
    cards = yield from reach(server_url, root)
    return build(cards[root.uid or ""], cards)


def reach(server_url: str, root: CardRef) -> Flow[dict[str, CardEnvelope]]:
    """Fetch the root and every Card reachable from it, each once; by UID, the root first."""
    if root.uid is None:
        raise _broken("the root has no uid", card_ref=str(root))
    cards: dict[str, CardEnvelope] = {}
    waiting = [root]
    while waiting:
        ref = waiting.pop(0)
        assert ref.uid is not None
        if ref.uid in cards:
            continue
        card = yield from fetch(server_url, ref.kind, ref.uid)
        if card.uid != ref.uid:
            raise _broken(f"asked for {ref} and got {card.card_ref}", card_ref=str(ref))
        cards[card.uid] = card
        waiting.extend(ref for ref, _ in outbound(card))
    return cards


def outbound(card: CardEnvelope) -> Iterator[tuple[CardRef, str | None]]:
    """The exact Cards that a Card refers to, with the alias it gives them."""
    for index, target in enumerate(card.relationships.get("outbound_refs") or ()):
        where = f"relationships.outbound_refs[{index}].ref"
        known = target if isinstance(target, Mapping) else {}
        alias = known.get("alias")
        yield exact_ref(known.get("ref"), where), alias if isinstance(alias, str) else None
