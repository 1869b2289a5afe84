"""A declaration as the server received it, under every rule that needs no database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from wyrd.cards.card_ref import KINDS, CardRef, Kind, Sibling
from wyrd.cards.decode import MAX_FAULTS, DecodeError, decode_metadata, decode_spec, dotted
from wyrd.cards.diagnostics import LOADER, CheckedCard, CheckReport, Diagnostic
from wyrd.cards.envelope import API_VERSION, Metadata, Spec
from wyrd.cards.links import links
from wyrd.cards.loaded import Identity, identity_of_ref
from wyrd.cards.neighbours import Neighbours
from wyrd.cards.rules.advice import advice
from wyrd.cards.rules.binding_rules import graph_faults
from wyrd.cards.rules.fault import RuleFault
from wyrd.cards.rules.registration import registration_faults
from wyrd.cards.rules.verifier_rules import VerifierRules
from wyrd.cards.verifier import VerifierSpec
from wyrd.errors import Code

Resolve = Callable[[CardRef], Mapping[str, Any] | None]
"""Gives the stored spec of a registered Card, or None."""


class _Submitted:
    """One submission, decoded as far as it goes."""

    def __init__(self, index: int, kind: Kind, metadata: Metadata, spec: Spec) -> None:
        self.index = index
        self.kind = kind
        self.metadata = metadata
        self.spec = spec

    @property
    def identity(self) -> Identity:
        return self.kind, self.metadata.space, self.metadata.name, self.metadata.version

    def __str__(self) -> str:
        version = "" if self.metadata.version is None else f"@{self.metadata.version}"
        return f"{self.metadata.space}/{self.kind}/{self.metadata.name}{version}"


def check_submissions(
    submitted: Sequence[Mapping[str, Any]], *, resolve: Resolve | None = None
) -> CheckReport:
    """Every rule after loading, and the registration's own, over one declaration.

    `resolve` opens Cards that are registered already. A diagnostic's `path` is
    `submissions[<index>]`. Needs no database: connections, permissions and stored versions are the
    registry's to judge.
    """
    report = CheckReport()
    cards = [card for i, one in enumerate(submitted) if (card := _decode(i, one, report)) is not None]
    _repeated(cards, report)
    specs = _Specs({card.identity: card.spec for card in cards}, resolve)
    neighbours = Neighbours(specs)
    for card in cards:
        _links(card, specs, report)
        graph = graph_faults(card.spec, str(card), identity_of=neighbours.identity, kind_of=neighbours.kind)
        found = list(graph)
        if isinstance(card.spec, VerifierSpec):
            found.extend(VerifierRules(card.spec, kind_of=neighbours.kind).faults())
        if not found:
            found.extend(registration_faults(card.kind, card.metadata, card.spec, neighbours))
            found.extend(advice(card.spec, neighbours))
        for fault in found[:MAX_FAULTS]:
            _add(report, card.index, fault)
    _cycles(cards, report)
    if report.ok:
        report.cards = [CheckedCard(*card.identity) for card in cards]
    return report


def _say(report: CheckReport, code: Code, message: str, index: int, field: str | None = None) -> None:
    context = None if field is None else {"field": field}
    report.diagnostics.append(
        Diagnostic(code, message, f"submissions[{index}]", field=field, context=context)
    )


def _add(report: CheckReport, index: int, fault: RuleFault) -> None:
    said = f"{fault.field}: {fault.message}" if fault.field else fault.message
    report.diagnostics.append(
        Diagnostic(
            fault.code, said, f"submissions[{index}]", fault.severity, fault.field or None, fault.context
        )
    )


def _decode(index: int, one: Mapping[str, Any], report: CheckReport) -> _Submitted | None:
    env = Code.LOADER_400_INVALID_ENVELOPE
    before = len(report.diagnostics)
    if one.get("apiVersion") != API_VERSION:
        _say(report, env, f"apiVersion must be {API_VERSION}", index, "apiVersion")
    kind = next((kind for kind in KINDS if kind == one.get("kind")), None)
    if kind is None:
        _say(report, env, f"kind must be one of {', '.join(KINDS)}", index, "kind")
    metadata: Metadata | None = None
    try:
        metadata = decode_metadata(one.get("metadata"))
    except DecodeError as error:
        for fault in error.faults:
            field = dotted(("metadata", *fault.path))
            _say(
                report,
                env if fault.member_fault == "key" else Code.LOADER_400_YAML_SYNTAX,
                fault.message,
                index,
                field,
            )
    if kind is None:
        return None
    try:
        spec = decode_spec(kind, one.get("spec"))
    except DecodeError as error:
        for fault in error.faults:
            said = f"{fault.field}: {fault.message}" if fault.field else fault.message
            _say(report, env, said, index, fault.field or dotted(fault.path) or None)
        return None
    if metadata is None or len(report.diagnostics) > before:
        return None
    return _Submitted(index, kind, metadata, spec)


def _repeated(cards: list[_Submitted], report: CheckReport) -> None:
    seen: set[Identity] = set()
    for card in cards:
        if card.identity in seen:
            _say(report, Code.SPEC_400_DUPLICATE_SUBMISSION, f"{card} is submitted twice", card.index)
        seen.add(card.identity)


class _Specs(Mapping[Identity, Spec]):
    """The specs known to a declaration: its own, and what `resolve` opens, each opened once."""

    def __init__(self, own: dict[Identity, Spec], resolve: Resolve | None) -> None:
        self.own = own
        self._resolve = resolve
        self._opened: dict[Identity, Spec | None] = {}

    def __getitem__(self, who: Identity) -> Spec:
        if who in self.own:
            return self.own[who]
        if who not in self._opened:
            self._opened[who] = self._open(who)
        found = self._opened[who]
        if found is None:
            raise KeyError(who)
        return found

    def _open(self, who: Identity) -> Spec | None:
        kind, space, name, version = who
        if self._resolve is None or version is None:
            return None
        ref = CardRef.model_validate({"kind": kind, "space": space, "name": name, "version": version})
        stored = self._resolve(ref)
        if stored is None:
            return None
        try:
            return decode_spec(ref.kind, stored)
        except DecodeError:
            return None

    def __iter__(self) -> Iterator[Identity]:
        return iter(self.own)

    def __len__(self) -> int:
        return len(self.own)


def _links(card: _Submitted, specs: _Specs, report: CheckReport) -> None:
    for link in links(card.spec):
        if isinstance(link.value, str):
            said = f"{link.field}: a path cannot be resolved by a server: send a sibling or a reference"
            _say(report, Code.REGISTRY_400_UNRESOLVED_PATH_REF, said, card.index, link.field)
        elif isinstance(link.value, Sibling) and identity_of_ref(link.value.sibling) not in specs.own:
            said = f"{link.field}: {link.value.sibling} is not in this declaration"
            _say(report, Code.REGISTRY_400_UNRESOLVED_INLINE_REFERENCE, said, card.index, link.field)


def _cycles(cards: list[_Submitted], report: CheckReport) -> None:
    by_identity = {card.identity: card for card in cards}
    waits = {card.identity: _own_targets(card, by_identity) for card in cards}
    left = dict(waits)
    while True:
        ready = [who for who, others in left.items() if not any(other in left for other in others)]
        if not ready:
            break
        for who in ready:
            del left[who]
    if left:
        names = [str(by_identity[who]) for who in left]
        code = Code.REGISTRY_400_DEPENDENCY_CYCLE
        said = f"Cards refer to each other: {', '.join(names)}"
        report.diagnostics.append(Diagnostic(code, said, LOADER, context={"participants": names}))


def _own_targets(card: _Submitted, by_identity: Mapping[Identity, _Submitted]) -> set[Identity]:
    found: set[Identity] = set()
    for link in links(card.spec):
        ref = link.value.sibling if isinstance(link.value, Sibling) else link.value
        if isinstance(ref, CardRef) and identity_of_ref(ref) in by_identity:
            found.add(identity_of_ref(ref))
    return found
