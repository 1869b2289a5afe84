"""Bindings and components: the kinds they may name, and what may not be named twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wyrd.cards.actions import AgentBlock
from wyrd.cards.agent import AgentSpec
from wyrd.cards.binding import Binding
from wyrd.cards.card_ref import CardRef, Link, Sibling
from wyrd.cards.decode import Path, dotted
from wyrd.cards.envelope import Spec
from wyrd.cards.links import links
from wyrd.cards.rules.fault import RuleFault
from wyrd.cards.service import ServiceSpec
from wyrd.cards.verifier import VerifierSpec
from wyrd.errors import Code
from wyrd.wire.canonical import digest

IdentityOf = Callable[[Link], tuple[str, str, str, str | None] | None]
"""Who a link names: the same Card gives the same value, an unresolved path gives None."""

KindOf = Callable[[Link], str | None]


def bindings_of(spec: Spec) -> Iterator[tuple[Path, list[Binding]]]:
    """Every `verified_by` list of a Card, with its place in the spec."""
    if isinstance(spec, AgentSpec):
        yield ("verified_by",), spec.verified_by
    elif isinstance(spec, ServiceSpec):
        yield ("verified_by",), spec.verified_by
        for index, component in enumerate(spec.components):
            yield ("components", index, "verified_by"), component.verified_by


def graph_faults(spec: Spec, owner: str, *, identity_of: IdentityOf, kind_of: KindOf) -> Iterator[RuleFault]:
    """Every fault of what the Card names: kinds, repeated Verifiers and Operators, nested bindings."""
    if isinstance(spec, ServiceSpec):
        yield from _aliases(spec, owner)
    yield from _kinds(spec, owner, kind_of)
    for at, bindings in bindings_of(spec):
        yield from _repeats(at, bindings, identity_of)
    if isinstance(spec, VerifierSpec):
        yield from _inline_bindings(spec)


def _aliases(spec: ServiceSpec, owner: str) -> Iterator[RuleFault]:
    seen: set[str] = set()
    for index, component in enumerate(spec.components):
        if component.alias in seen:
            at = ("components", index, "alias")
            yield RuleFault(
                f"{owner}: two components share the alias {component.alias[:80]!r}",
                at,
                place=f"spec.{dotted(at)}",
                code=Code.LOADER_400_INVALID_ENVELOPE,
                extra={"graph_error": "duplicate_alias", "alias": component.alias},
            )
        seen.add(component.alias)


_KIND_CODES = {
    "verifier": (Code.SPEC_400_INVALID_VERIFIER_REF_KIND, "Verifier"),
    "trigger": (Code.SPEC_400_INVALID_BINDING_REF_KIND, "Trigger"),
    "operator": (Code.SPEC_400_INVALID_BINDING_REF_KIND, "Operator"),
}


def _kinds(spec: Spec, owner: str, kind_of: KindOf) -> Iterator[RuleFault]:
    for link in links(spec):
        kind = kind_of(link.value)
        if kind is None or link.takes(kind):
            continue
        target = str(link.value) if not isinstance(link.value, Sibling) else str(link.value.sibling)
        if link.role == "component":
            extra: dict[str, Any] = {"service": owner, "alias": link.alias, "component_ref": target}
            yield RuleFault(
                f"a {kind} cannot be a component",
                link.path,
                place=link.field,
                code=Code.SPEC_400_INVALID_SERVICE_COMPONENT_KIND,
                extra={**extra, "field": link.field},
            )
        elif link.role in _KIND_CODES:
            code, wanted = _KIND_CODES[link.role]
            yield RuleFault(
                f"a {wanted} belongs here, not a {kind}",
                link.path,
                place=link.field,
                code=code,
                extra={"field": link.field, "target": target, "expected_kind": wanted},
            )


def _repeats(at: Path, bindings: list[Binding], identity_of: IdentityOf) -> Iterator[RuleFault]:
    seen: set[Any] = set()
    for index, binding in enumerate(bindings):
        here: Path = (*at, index)
        who = identity_of(binding.verifier)
        if who is not None and who in seen:
            place = f"spec.{dotted(here)}"
            yield RuleFault(
                f"{_shown(who)} is bound twice in this list",
                here,
                place=place,
                code=Code.SPEC_400_DUPLICATE_VERIFICATION_BINDING,
                extra={"field": place, "verifier": _shown(who)},
            )
        seen.add(who)
        for member in ("on_failure", "on_verdict_change"):
            yield from _repeated_operators((*here, member), getattr(binding, member), identity_of)


def _repeated_operators(at: Path, operators: list[Any], identity_of: IdentityOf) -> Iterator[RuleFault]:
    seen: set[Any] = set()
    for index, operator in enumerate(operators):
        if isinstance(operator, CardRef | Sibling | str):
            who: Any = identity_of(operator)
        else:
            who = digest(operator.model_dump(mode="json", exclude_unset=True))
        if who is not None and who in seen:
            place = f"spec.{dotted((*at, index))}"
            yield RuleFault(
                "the Operator is listed twice",
                (*at, index),
                place=place,
                code=Code.SPEC_400_DUPLICATE_BINDING_OPERATOR,
                extra={"field": place, "operator": _shown(who)},
            )
        seen.add(who)


def _shown(who: Any) -> str:
    return "/".join(str(part) for part in who) if isinstance(who, tuple) else str(who)


def _inline_bindings(spec: VerifierSpec) -> Iterator[RuleFault]:
    blocks: list[tuple[Path, Any]] = []
    for index, step in enumerate(spec.steps):
        blocks.append((("steps", index, "action"), step.action))
        for j, one in enumerate(step.requirements):
            blocks.append((("steps", index, "requirements", j, "check"), one.check))
    for index, one in enumerate(spec.requirements):
        blocks.append((("requirements", index, "check"), one.check))
    for at, block in blocks:
        if isinstance(block, AgentBlock) and isinstance(block.agent, AgentSpec) and block.agent.verified_by:
            here = (*at, "agent", "verified_by")
            place = f"spec.{dotted(here)}"
            yield RuleFault(
                "an inline Agent carries no bindings",
                here,
                place=place,
                code=Code.REGISTRY_400_INVALID_CARD_SPEC,
                extra={"field": place},
            )
