"""Who a verification is about: the Verifier, its subject, and the bindings that join them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from cards.blocks import not_ready
from cards.graph import graph_of, require_readable
from store.bindings import Binding, Bindings
from store.caller import Tenant
from store.cards import Cards, StoredCard
from store.groups import GroupBinding
from wyrd.cards.slots import SourceSlot
from wyrd.cards.trigger import GroupEndTrigger
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import is_uuid7
from wyrd.wire.refs import CardRef

NEVER_SUBJECTS = frozenset({"Verifier", "Trigger", "Operator", "Audit", "Source"})
"""Kinds that nothing can be bound to: no component of a Service, and no owner of bindings."""


@dataclass(frozen=True, slots=True)
class Target:
    """One exact Verifier bound to one exact subject.

    `spec` is the Verifier's. `bindings` are every active one that matches, the nearest owner
    first; `owners` names their owners by uid. The result carries the first binding's id and owner,
    the Operators of all of them react. `groups` are the group_end bindings of those owners that
    gather this Verifier's evidence.
    """

    verifier: CardRef
    spec: dict[str, Any]
    subject: CardRef
    bindings: tuple[Binding, ...]
    owners: Mapping[str, CardRef]
    groups: tuple[GroupBinding, ...] = ()

    @property
    def owner(self) -> CardRef:
        return self.owners[self.bindings[0].owner_uid]


def resolve_target(
    connection: Connection, tenant: Tenant, verifier_uid: str, subject_uid: str, caller_card_uid: str | None
) -> Target:
    """Find what `verify` and `submit` name.

    Errors: `WYRD_VERIFICATION_404_TARGET_NOT_FOUND` (unknown, deleted or another tenant's),
    `WYRD_VERIFICATION_400_INVALID_TARGET` (a UID of another kind),
    `WYRD_PERMISSION_403_DENIED_RBAC` (outside the graph of a Card-bound caller),
    `WYRD_VERIFICATION_404_BINDING_NOT_FOUND`, and `WYRD_VERIFICATION_409_VERIFIER_NOT_READY`
    (an artifact that the Verifier needs has not arrived).
    """
    cards = Cards(connection, tenant)
    uids = [uid.lower() for uid in (verifier_uid, subject_uid) if is_uuid7(uid)]
    found = cards.by_uids(uids)
    verifier = _existing(found, verifier_uid.lower(), "verifier_card_uid")
    subject = _existing(found, subject_uid.lower(), "card_uid")
    if verifier.kind != "Verifier":
        raise _invalid("verifier_card_uid", f"names a {verifier.kind}, not a Verifier")
    if subject.kind in NEVER_SUBJECTS:
        raise _invalid("card_uid", f"names a {subject.kind}, which nothing is bound to")
    graph = None if caller_card_uid is None else graph_of(connection, tenant, caller_card_uid)
    require_readable(graph, verifier.uid)
    require_readable(graph, subject.uid)
    bindings = [
        binding
        for binding in Bindings(connection, tenant).between(verifier.uid, subject.uid)
        if graph is None or binding.owner_uid in graph
    ]
    if not bindings:
        raise WyrdError(
            Code.VERIFICATION_404_BINDING_NOT_FOUND,
            f"no active binding joins {verifier.ref.pinned} to {subject.ref.pinned}",
            verifier=str(verifier.ref),
            subject=str(subject.ref),
        )
    _require_ready(cards, verifier)
    bindings.sort(key=lambda binding: binding.owner_uid, reverse=True)
    bindings.sort(key=lambda binding: _distance(binding, caller_card_uid))
    owners = cards.by_uids(binding.owner_uid for binding in bindings)
    return Target(
        verifier.ref,
        verifier.spec_document,
        subject.ref,
        tuple(bindings),
        {uid: owner.ref for uid, owner in owners.items()},
        tuple(_groups(connection, tenant, verifier.ref.name, owners)),
    )


def _groups(
    connection: Connection, tenant: Tenant, verifier_name: str, owners: Iterable[str]
) -> Iterator[GroupBinding]:
    """The active group_end bindings of those owners whose source slots name that Verifier."""
    repository, cards = Bindings(connection, tenant), Cards(connection, tenant)
    waiting = [
        binding
        for owner in owners
        for binding in repository.of_owner(owner)
        if binding.active and binding.runs_on is not None and binding.runs_on["kind"] == "group_end"
    ]
    judges = cards.by_uids(binding.verifier_uid for binding in waiting)
    for binding in waiting:
        trigger = GroupEndTrigger.model_validate(binding.runs_on)
        slots = judges[binding.verifier_uid].spec_document.get("inputs", {}).values()
        names = {SourceSlot(slot).verifier for slot in slots if isinstance(slot, str)}
        if verifier_name in names:
            yield GroupBinding(binding.binding_id, float(trigger.after_seconds))


def _distance(binding: Binding, caller_card_uid: str | None) -> tuple[bool, bool]:
    """Nearest first: the caller's own Card, then a component's binding, then the subject's own.

    Among equals the newest owner comes first, since uids rise with time.
    """
    return binding.owner_uid != caller_card_uid, binding.owner_uid == binding.subject_uid


def _existing(found: Mapping[str, StoredCard], uid: str, field: str) -> StoredCard:
    card = found.get(uid)
    if card is None or card.status == "deleted":
        raise WyrdError(Code.VERIFICATION_404_TARGET_NOT_FOUND, f"{field} names no Card here", field=field)
    return card


def _invalid(field: str, detail: str) -> WyrdError:
    return WyrdError(Code.VERIFICATION_400_INVALID_TARGET, f"{field} {detail}", field=field)


def _require_ready(cards: Cards, verifier: StoredCard) -> None:
    needed = [(verifier.ref, verifier.status)]
    if direct := cards.targets_of([verifier.uid]):
        agents = [ref.uid for ref, _ in direct if ref.kind == "Agent" and ref.uid]
        prompts = [pair for pair in cards.targets_of(agents) if pair[0].kind == "Prompt"] if agents else []
        needed += [*direct, *prompts]
    pending = [ref for ref, status in needed if status == "pending"]
    if pending:
        raise not_ready(pending)
