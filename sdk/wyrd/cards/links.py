"""Where a spec names other Cards, what kind each position takes, and how to rewrite the names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from wyrd.cards.actions import AgentBlock, ArtifactSource, CodeBlock
from wyrd.cards.agent import AgentSpec
from wyrd.cards.binding import Binding
from wyrd.cards.card_ref import CardRef, Link, Sibling
from wyrd.cards.checks import Requirement
from wyrd.cards.decode import Path, dotted
from wyrd.cards.drift import DistributionSignal, DriftCheck
from wyrd.cards.envelope import Spec
from wyrd.cards.plain_kinds import ArtifactSpec
from wyrd.cards.service import ServiceSpec
from wyrd.cards.verifier import VerifierSpec

_NO_COMPONENT: Final = frozenset(("Verifier", "Trigger", "Operator", "Audit", "Source"))


@dataclass(frozen=True)
class LinkAt:
    """One reference and its place in the spec.

    `role` is what the position wants: agent, artifact, baseline, verifier, trigger, operator,
    component, prompt or schema. `alias` is a Service component's.
    """

    path: Path
    value: Link
    role: str
    alias: str | None = None

    @property
    def field(self) -> str:
        """The place as diagnostics name it, with `spec.` before it."""
        path = self.path
        if self.role == "baseline":
            path = (*path[:-1], "Distribution", path[-1])
        return f"spec.{dotted(path)}"

    def takes(self, kind: str) -> bool:
        """Whether the position may hold a Card of that kind."""
        if self.role == "component":
            return kind not in _NO_COMPONENT
        wanted = _WANTED.get(self.role)
        return wanted is None or kind == wanted


_WANTED: Final = {
    "agent": "Agent",
    "artifact": "Artifact",
    "baseline": "Data",
    "verifier": "Verifier",
    "trigger": "Trigger",
    "operator": "Operator",
    "prompt": "Prompt",
}


def links(spec: Spec) -> list[LinkAt]:
    """Every reference in the spec, in document order, inline bodies included."""
    match spec:
        case VerifierSpec():
            return list(_verifier(spec))
        case AgentSpec():
            return list(_agent(spec, ()))
        case ServiceSpec():
            return list(_service(spec))
        case ArtifactSpec():
            if spec.schema_ref is not None:
                return [LinkAt(("schema_ref",), spec.schema_ref, "schema")]
    return []


def _verifier(spec: VerifierSpec) -> Iterator[LinkAt]:
    for index, step in enumerate(spec.steps):
        here: Path = ("steps", index)
        yield from _block(step.action, (*here, "action"))
        yield from _requirements(step.requirements, (*here, "requirements"))
    yield from _requirements(spec.requirements, ("requirements",))


def _requirements(found: list[Requirement], path: Path) -> Iterator[LinkAt]:
    for index, requirement in enumerate(found):
        here = (*path, index, "check")
        yield from _block(requirement.check, here)
        check = requirement.check
        if isinstance(check, DriftCheck) and isinstance(check.signal, DistributionSignal):
            yield LinkAt((*here, "signal", "baseline_ref"), check.signal.baseline_ref, "baseline")


def _block(block: Any, path: Path) -> Iterator[LinkAt]:
    if isinstance(block, AgentBlock):
        if isinstance(block.agent, AgentSpec):
            yield from _agent(block.agent, (*path, "agent"))
        else:
            yield LinkAt((*path, "agent"), block.agent, "agent")
    elif isinstance(block, CodeBlock) and isinstance(block.source, ArtifactSource):
        yield LinkAt((*path, "source", "artifact", "card"), block.source.artifact.card, "artifact")


def _agent(spec: AgentSpec, path: Path) -> Iterator[LinkAt]:
    if isinstance(spec.prompt, CardRef | Sibling | str):
        yield LinkAt((*path, "prompt"), spec.prompt, "prompt")
    yield from _bindings(spec.verified_by, (*path, "verified_by"))


def _bindings(found: list[Binding], path: Path) -> Iterator[LinkAt]:
    for index, binding in enumerate(found):
        here = (*path, index)
        yield LinkAt((*here, "verifier"), binding.verifier, "verifier")
        if isinstance(binding.runs_on, CardRef | Sibling | str):
            yield LinkAt((*here, "runs_on"), binding.runs_on, "trigger")
        for member in ("on_failure", "on_verdict_change"):
            for k, operator in enumerate(getattr(binding, member)):
                if isinstance(operator, CardRef | Sibling | str):
                    yield LinkAt((*here, member, k), operator, "operator")


def _service(spec: ServiceSpec) -> Iterator[LinkAt]:
    yield from _bindings(spec.verified_by, ("verified_by",))
    for index, component in enumerate(spec.components):
        here: Path = ("components", index)
        yield LinkAt((*here, "ref"), component.ref, "component", component.alias)
        yield from _bindings(component.verified_by, (*here, "verified_by"))


def rewrite_links(spec: Spec, document: dict[str, Any], rewritten: Callable[[LinkAt], Any]) -> dict[str, Any]:
    """The spec's document (as `spec_document` gives it, changed in place) with every reference rewritten."""
    for link in links(spec):
        holder: Any = document
        for part in link.path[:-1]:
            holder = holder[part]
        holder[link.path[-1]] = rewritten(link)
    return document
