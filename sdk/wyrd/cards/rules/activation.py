"""When bound Verifiers run by themselves, and whether what they gather is bound beside them."""

from __future__ import annotations

from collections.abc import Iterator

from wyrd.cards.binding import Binding
from wyrd.cards.card_ref import CardRef, Sibling
from wyrd.cards.decode import Path, dotted
from wyrd.cards.envelope import Spec
from wyrd.cards.loaded import Identity
from wyrd.cards.neighbours import Neighbours
from wyrd.cards.rules.binding_rules import bindings_of
from wyrd.cards.rules.fault import RuleFault
from wyrd.cards.slots import SamplesSlot, SourceSlot
from wyrd.cards.trigger import GroupEndTrigger, ScheduleTrigger, TriggerSpec
from wyrd.cards.verifier import VerifierSpec
from wyrd.errors import Code


def activation_faults(spec: Spec, neighbours: Neighbours) -> Iterator[RuleFault]:
    """Every binding whose Trigger does not fit its Verifier, or whose sources are not bound here."""
    for at, bindings in bindings_of(spec):
        for index, binding in enumerate(bindings):
            verifier = neighbours.spec(binding.verifier)
            if isinstance(verifier, VerifierSpec):
                here: Path = (*at, index)
                yield from _fits(binding, verifier, neighbours, here)
                yield from _peers(spec, verifier, neighbours, here)


def trigger_of(binding: Binding, neighbours: Neighbours) -> TriggerSpec | None:
    """The binding's Trigger, inline or named, when it is known here."""
    if binding.runs_on is None or isinstance(binding.runs_on, TriggerSpec):
        return binding.runs_on
    found = neighbours.spec(binding.runs_on)
    return found if isinstance(found, TriggerSpec) else None


def _fits(binding: Binding, verifier: VerifierSpec, neighbours: Neighbours, at: Path) -> Iterator[RuleFault]:
    trigger = trigger_of(binding, neighbours)
    why = None
    if binding.runs_on is not None and not verifier.reads_window and not verifier.reads_group:
        why = "a Verifier without samples or source slots runs when the application asks, on no Trigger"
    elif isinstance(trigger, ScheduleTrigger) and not verifier.reads_window:
        why = "a schedule runs only a Verifier with samples slots"
    elif isinstance(trigger, GroupEndTrigger) and not verifier.reads_group:
        why = "group_end runs only a Verifier with source slots"
    if why is not None:
        yield _mismatch(why, (*at, "runs_on"))
    elif isinstance(trigger, GroupEndTrigger) and binding.on_failure:
        yield _mismatch("a group reacts through on_verdict_change, not on_failure", (*at, "on_failure"))


def _mismatch(why: str, at: Path) -> RuleFault:
    place = f"spec.{dotted(at)}"
    return RuleFault(
        why, at, place=place, code=Code.SPEC_400_TRIGGER_ACTIVATION_MISMATCH, extra={"field": place}
    )


def _bound(spec: Spec, neighbours: Neighbours) -> dict[str, dict[Identity, CardRef | Sibling | str]]:
    """The Verifiers bound anywhere on this Card, by name."""
    found: dict[str, dict[Identity, CardRef | Sibling | str]] = {}
    for _, bindings in bindings_of(spec):
        for binding in bindings:
            who = neighbours.identity(binding.verifier)
            if who is not None:
                found.setdefault(who[2], {})[who] = binding.verifier
    return found


def _peers(spec: Spec, verifier: VerifierSpec, neighbours: Neighbours, at: Path) -> Iterator[RuleFault]:
    if not verifier.reads_group:
        return
    bound = _bound(spec, neighbours)
    for name, slot in verifier.inputs.items():
        if not isinstance(slot, SourceSlot) or slot.verifier is None:
            continue
        named = bound.get(slot.verifier, {})
        why = None
        if not named:
            why = f"slot {name!r} reads {slot.verifier!r}, which is not bound on this Card"
        elif len(named) > 1:
            why = f"slot {name!r} reads {slot.verifier!r}, and several Verifiers of that name are bound here"
        else:
            peer = neighbours.spec(next(iter(named.values())))
            why = _lacks(name, slot, peer) if isinstance(peer, VerifierSpec) else None
        if why is not None:
            place = f"spec.{dotted((*at, 'verifier'))}"
            yield RuleFault(
                why,
                (*at, "verifier"),
                place=place,
                code=Code.SPEC_400_UNBOUND_VERIFIER_PEER,
                extra={"field": place, "slot": name, "verifier": slot.verifier},
            )


def _lacks(name: str, slot: SourceSlot, peer: VerifierSpec) -> str | None:
    if slot.slot is not None:
        found = peer.inputs.get(slot.slot)
        if found is None:
            return f"slot {name!r} reads {slot.text}, and {slot.verifier!r} has no slot {slot.slot!r}"
        if isinstance(found, SamplesSlot | SourceSlot):
            return f"slot {name!r} reads {slot.text}, which is not evidence of single executions"
        return None
    ids = {one.id for one in peer.requirements}
    ids.update(one.id for step in peer.steps for one in step.requirements)
    if slot.requirement not in ids:
        return (
            f"slot {name!r} reads {slot.text}, and {slot.verifier!r} has no requirement {slot.requirement!r}"
        )
    return None
