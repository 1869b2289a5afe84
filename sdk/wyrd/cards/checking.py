"""Checking and loading a target: the walk, the graph, the rules, the report."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path as FilePath

from wyrd.cards.decode import MAX_FAULTS
from wyrd.cards.diagnostics import LOADER, CheckReport, Diagnostic
from wyrd.cards.envelope import Spec
from wyrd.cards.links import LinkAt
from wyrd.cards.loaded import (
    Identity,
    LoadedCard,
    LoadedTree,
    dependency_order,
    edges,
    link_identity,
)
from wyrd.cards.loading import Loading
from wyrd.cards.neighbours import Neighbours, neighbours_of
from wyrd.cards.rules.advice import advice
from wyrd.cards.rules.binding_rules import graph_faults
from wyrd.cards.rules.fault import RuleFault
from wyrd.cards.rules.registration import registration_faults
from wyrd.cards.rules.verifier_rules import VerifierRules
from wyrd.cards.verifier import VerifierSpec
from wyrd.cards.workspace import ConfigRefused, find_workspace
from wyrd.errors import Code


def check(path: str | os.PathLike[str]) -> CheckReport:
    """Check a Card file or a directory of Card files, offline.

    Never raises for what stands in the files: `report.ok`, `report.cards` (dependencies first) and
    `report.diagnostics` tell it.
    """
    return _examine(path)[0]


def load(path: str | os.PathLike[str]) -> LoadedTree:
    """Load what `check` accepts. Raises `WyrdError` CLI_400_CARD_LOAD, details.diagnostics, else."""
    report, tree = _examine(path)
    if tree is None or not report.ok:
        raise report.error()
    tree.warnings = report.warnings
    return tree


def _examine(path: str | os.PathLike[str]) -> tuple[CheckReport, LoadedTree | None]:
    shown = os.fspath(path)
    try:
        real = FilePath(os.path.realpath(shown))
        directory = real.is_dir()
        workspace = find_workspace(real if directory else real.parent)
    except ConfigRefused as error:
        context = None if error.member is None else {"member": error.member, "member_fault": "unknown"}
        refused = Diagnostic(Code.LOADER_400_CONFIG_LOAD_FAILED, str(error), shown, context=context)
        return CheckReport([], [refused]), None
    except (OSError, ValueError) as error:
        return CheckReport([], [Diagnostic(Code.LOADER_400_IO, f"{shown}: {error}", shown)]), None
    base = shown if directory else os.path.dirname(shown)
    loading = Loading(workspace, base, real if directory else FilePath(os.path.realpath(base or ".")))
    if directory:
        loading.directory(real)
    else:
        loading.file(real, 0)
    return _judge(loading)


def _judge(loading: Loading) -> tuple[CheckReport, LoadedTree | None]:
    report = CheckReport([], loading.diagnostics)
    sound = report.ok
    cards = loading.cards
    _clashes(cards, report)
    waits = edges(cards)
    order, stuck = dependency_order(waits)
    if stuck:
        _cycle(stuck, waits, report)
    root = _root(cards, waits, report) if sound and not stuck else None
    specs: dict[Identity, Spec] = {card.identity: card.spec for card in cards}
    around = {card: neighbours_of(card, specs) for card in cards}
    for card in cards:
        near = around[card]
        graph = graph_faults(card.spec, str(card), identity_of=near.identity, kind_of=near.kind)
        for fault in islice(graph, MAX_FAULTS):
            _add(report, card, fault)
    for card in order if not stuck else cards:
        if isinstance(card.spec, VerifierSpec):
            rules = VerifierRules(card.spec, kind_of=around[card].kind)
            for fault in islice(rules.faults(), MAX_FAULTS):
                _add(report, card, fault)
    if not report.ok or root is None:
        return report, None
    for card in order:
        _advise(report, card, around[card])
    report.cards = [card.checked for card in order]
    return report, LoadedTree(order, root, loading.workspace)


def _advise(report: CheckReport, card: LoadedCard, near: Neighbours) -> None:
    """What registration would refuse, and what will not do as meant: warnings, all of it."""
    refused = registration_faults(card.kind, card.metadata, card.spec, near)
    for fault in islice(refused, MAX_FAULTS):
        said = f"registration refuses this: {fault.message}"
        _add(report, card, replace(fault, message=said, severity="warning"))
    for fault in islice(advice(card.spec, near), MAX_FAULTS):
        _add(report, card, fault)
    for path in card.document.not_finite[:MAX_FAULTS]:
        if path[:1] == ("spec",):
            said = "a number that is not finite is read as null"
            _add(report, card, RuleFault(said, path[1:], "not_finite", severity="warning"))


def _add(report: CheckReport, card: LoadedCard, fault: RuleFault) -> None:
    line, column = card.document.locate(("spec", *fault.at))
    report.diagnostics.append(
        Diagnostic(
            fault.code,
            f"{fault.field}: {fault.message}" if fault.field else fault.message,
            LOADER if (fault.context or {}).get("graph_error") else card.file,
            fault.severity,
            fault.field or None,
            fault.context,
            line,
            column,
        )
    )


def _clashes(cards: list[LoadedCard], report: CheckReport) -> None:
    seen: dict[Identity, LoadedCard] = {}
    for card in cards:
        first = seen.setdefault(card.identity, card)
        if first is card:
            continue
        line, column = card.document.locate(("metadata",))
        said = f"{card} is declared in {first.file} already"
        code = Code.LOADER_400_INVALID_ENVELOPE
        report.diagnostics.append(Diagnostic(code, said, card.file, line=line, column=column))
        context = {"graph_error": "duplicate_identity", "files": [first.file, card.file]}
        report.diagnostics.append(Diagnostic(code, f"two files declare {card}", LOADER, context=context))


def _cycle(stuck: list[LoadedCard], waits: dict[LoadedCard, list[LoadedCard]], report: CheckReport) -> None:
    held = set(stuck)
    trail = [stuck[0]]
    # Every stuck Card waits for another stuck one, so walking on must come round.
    while True:
        following = next(other for other in waits[trail[-1]] if other in held)
        if following in trail:
            trail = trail[trail.index(following) :]
            break
        trail.append(following)
    first = min(trail, key=lambda card: (card.depth, card.file))
    at = trail.index(first)
    trail = trail[at:] + trail[:at]
    names = [str(card) for card in trail]
    link = next((link for link in first.links if _leads(first, link, trail[1 % len(trail)])), None)
    line, column = first.document.locate(("spec",) if link is None else ("spec", *link.path))
    report.diagnostics.append(
        Diagnostic(
            Code.REGISTRY_400_DEPENDENCY_CYCLE,
            f"Cards refer to each other: {' -> '.join([*names, names[0]])}",
            first.file,
            context={"participants": names},
            line=line,
            column=column,
        )
    )


def _leads(card: LoadedCard, link: LinkAt, target: LoadedCard) -> bool:
    if isinstance(link.value, str):
        return card.children.get(link.path) is target
    return link_identity(link.value, None) == target.identity


def _root(
    cards: list[LoadedCard], waits: dict[LoadedCard, list[LoadedCard]], report: CheckReport
) -> LoadedCard | None:
    named = {other for others in waits.values() for other in others}
    roots = [card for card in cards if card not in named]
    if len(roots) == 1:
        return roots[0]
    if roots:
        names = sorted(str(card) for card in roots)
        said = f"exactly one root is declared at a time, and there are {len(names)}: {', '.join(names[:8])}"
        context = {"graph_error": "several_roots", "roots": names}
        report.diagnostics.append(Diagnostic(Code.LOADER_400_INVALID_ENVELOPE, said, LOADER, context=context))
    return None
