"""The bindings that a Service or an Agent declares under `verified_by`, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from store.bindings import Binding, BoundOperator
from store.cards import Cards, StoredCard
from wyrd.wire.canonical import digest
from wyrd.wire.ids import uuid7

_OWNERS = ("Service", "Agent")
_REACTIONS = {"on_failure": "failure", "on_verdict_change": "verdict_change"}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One `verified_by` entry of a stored spec, with where it stands and what it checks."""

    occurrence: str
    subject_uid: str
    alias: str | None
    authored: Mapping[str, Any]


def bindings_of(cards: Cards, owner: StoredCard, spec: Mapping[str, Any], now: datetime) -> list[Binding]:
    """The bindings of a Card that is being stored, Triggers and Operators filled in from their Cards.

    They are active when their owner is. A Card that owns none answers an empty list.
    """
    if owner.kind not in _OWNERS:
        return []
    entries = list(_entries(owner.uid, spec))
    reactions = cards.by_uids(_carded(entries))
    return [_binding(owner, entry, ordinal, reactions, now) for ordinal, entry in enumerate(entries)]


def _entries(owner_uid: str, spec: Mapping[str, Any]) -> Iterator[_Entry]:
    for index, authored in enumerate(spec.get("verified_by", ())):
        yield _Entry(f"spec.verified_by[{index}]", owner_uid, None, authored)
    for number, component in enumerate(spec.get("components", ())):
        for index, authored in enumerate(component.get("verified_by", ())):
            place = f"spec.components[{number}].verified_by[{index}]"
            yield _Entry(place, component["ref"]["uid"], component["alias"], authored)


def _carded(entries: Sequence[_Entry]) -> Iterator[str]:
    """The uids of the Trigger and Operator Cards that entries name."""
    for entry in entries:
        named = [entry.authored.get("runs_on"), *_reactions_of(entry.authored)]
        yield from (one["uid"] for one in named if one and "uid" in one)


def _reactions_of(authored: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for member in _REACTIONS for one in authored.get(member, ())]


def _binding(
    owner: StoredCard, entry: _Entry, ordinal: int, reactions: Mapping[str, StoredCard], now: datetime
) -> Binding:
    verifier = entry.authored["verifier"]
    trigger = entry.authored.get("runs_on")
    trigger_uid = trigger.get("uid") if trigger else None
    operators = [
        _operator(on, authored, reactions)
        for member, on in _REACTIONS.items()
        for authored in entry.authored.get(member, ())
    ]
    return Binding(
        binding_id=uuid7(),
        owner_uid=owner.uid,
        subject_uid=entry.subject_uid,
        verifier_uid=verifier["uid"],
        occurrence=entry.occurrence,
        ordinal=ordinal,
        verifier_space=verifier["space"],
        verifier_name=verifier["name"],
        verifier_version=verifier["version"],
        alias=entry.alias,
        runs_on=reactions[trigger_uid].spec_document if trigger_uid else trigger,
        trigger_uid=trigger_uid,
        operators=tuple(operators),
        active=owner.status == "active",
        created_at=now,
    )


def _operator(on: str, authored: dict[str, Any], reactions: Mapping[str, StoredCard]) -> BoundOperator:
    uid = authored.get("uid")
    if uid is not None:
        return BoundOperator(on, uid, None, reactions[uid].spec_document)
    return BoundOperator(on, None, digest(authored), authored)
