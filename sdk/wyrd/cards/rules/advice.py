"""Advice: what is accepted and still will not do what its author means. Always warnings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from wyrd.cards.actions import AgentBlock, CodeAction
from wyrd.cards.agent import AgentSpec
from wyrd.cards.checks import AssertCheck, TraceCheck
from wyrd.cards.comparison import NEEDS_EXPECTED, Operator
from wyrd.cards.decode import Path
from wyrd.cards.envelope import Spec
from wyrd.cards.neighbours import Neighbours
from wyrd.cards.references import Reference
from wyrd.cards.rules.binding_rules import bindings_of
from wyrd.cards.rules.fault import RuleFault
from wyrd.cards.slots import JsonSlot, MediaSlot, SourceSlot, TraceSlot
from wyrd.cards.verifier import VerifierSpec

LOOKALIKES: Final = (
    "guaranteed\u00a0refund",
    "guaranteed\nrefund",
    "guar\u200banteed refund",
    "GUARANTEED REFUND",
    "guaranteed  refund",
)
"""Five texts that read like `guaranteed refund` and do not contain it."""

_ALWAYS_PASSES: Final[dict[str, Any]] = {
    "contains": "",
    "contains_ignore_case": "",
    "starts_with": "",
    "ends_with": "",
    "all_of": [],
    "none_of": [],
    "not_in": [],
    "is_superset": [],
    "is_disjoint": [],
}
_NEVER_PASSES: Final[dict[str, Any]] = {"not_contains": "", "in": [], "any_of": []}


def advice(spec: Spec, neighbours: Neighbours) -> Iterator[RuleFault]:
    """Every warning about a Card that is accepted."""
    for message, at, rule in _advice(spec, neighbours):
        yield RuleFault(message, at, rule, severity="warning")


_Found = tuple[str, Path, str]


def _advice(spec: Spec, neighbours: Neighbours) -> Iterator[_Found]:
    if isinstance(spec, VerifierSpec):
        yield from _verifier(spec, neighbours)
    for at, bindings in bindings_of(spec):
        for index, binding in enumerate(bindings):
            verifier = neighbours.spec(binding.verifier)
            if not isinstance(verifier, VerifierSpec):
                continue
            here: Path = (*at, index)
            if binding.runs_on is None and verifier.reads_window:
                yield "a samples Verifier bound without a schedule never runs", here, "activation"
            if binding.runs_on is None and verifier.reads_group:
                yield "a group Verifier bound without group_end never runs", here, "activation"
            if binding.on_verdict_change and not verifier.reads_group:
                said = "on_verdict_change reacts to groups only: this Verifier reads none"
                yield said, (*here, "on_verdict_change"), "activation"


def _verifier(spec: VerifierSpec, neighbours: Neighbours) -> Iterator[_Found]:
    comparisons: list[tuple[Any, Path, Reference | None]] = []
    agents: list[tuple[AgentBlock, Path]] = []
    for index, step in enumerate(spec.steps):
        if step.when is not None:
            comparisons.append((step.when, ("steps", index, "when"), step.when.path))
        if isinstance(step.action, AgentBlock):
            agents.append((step.action, ("steps", index, "action")))
    for at, check in _checks(spec):
        if isinstance(check, AssertCheck):
            comparisons.append((check, at, check.path or check.each))
        elif isinstance(check, TraceCheck):
            comparisons.append((check, at, None))
            why = selector_fault(check.span_selector)
            if why is not None:
                yield (
                    f"the span selector does not parse, so the check is inconclusive: {why}",
                    at,
                    "span_selector",
                )
        elif isinstance(check, AgentBlock):
            agents.append((check, at))
    if not any(True for _ in _checks(spec)):
        yield "without requirements every result is inconclusive", ("requirements",), "no_requirements"
    for block, at, read in comparisons:
        for message, rule in _comparison(block, read, spec):
            yield message, at, rule
    for agent_block, at in agents:
        agent = (
            agent_block.agent
            if isinstance(agent_block.agent, AgentSpec)
            else neighbours.agent(agent_block.agent)
        )
        if agent_block.workspace or (agent is not None and agent.tool_names):
            said = "Agents with tools or a workspace do not run yet: the block will not be judged"
            yield said, at, "agent_tools"
    if spec.reads_group:
        yield from _unsupplied(spec)


def _checks(spec: VerifierSpec) -> Iterator[tuple[Path, Any]]:
    for index, step in enumerate(spec.steps):
        for j, one in enumerate(step.requirements):
            yield ("steps", index, "requirements", j, "check"), one.check
    for index, one in enumerate(spec.requirements):
        yield ("requirements", index, "check"), one.check


def _unsupplied(spec: VerifierSpec) -> Iterator[_Found]:
    for name, slot in spec.inputs.items():
        if isinstance(slot, JsonSlot | MediaSlot | TraceSlot) and slot.required:
            said = "nothing supplies this slot in a group: checks that need it are inconclusive"
            yield said, ("inputs", name), "group_supply"
        elif not isinstance(slot, SourceSlot) and isinstance(slot, JsonSlot | MediaSlot | TraceSlot):
            yield "nothing supplies this slot in a group: it reads null", ("inputs", name), "group_supply"


def _comparison(block: Any, read: Reference | None, spec: VerifierSpec) -> Iterator[tuple[str, str]]:
    operator: Operator = block.operator
    expected = block.expected
    if operator.kind in NEEDS_EXPECTED and expected is None:
        how = "null" if "expected" in block.model_fields_set else "absent"
        yield (
            f"expected is {how}, and {operator.kind} cannot judge against null: always inconclusive",
            "expected",
        )
        return
    if operator.kind in _ALWAYS_PASSES and expected == _ALWAYS_PASSES[operator.kind]:
        yield f"expected is empty, so {operator.kind} can never fail", "expected"
    if operator.kind in _NEVER_PASSES and expected == _NEVER_PASSES[operator.kind]:
        yield f"expected is empty, so {operator.kind} can never pass", "expected"
    why = _parameters(operator)
    if why is not None:
        yield why, "operator"
    if operator.kind == "not_contains" and isinstance(expected, str) and _untreated(read, spec):
        shown = ", ".join(ascii(text) for text in LOOKALIKES)
        yield (
            f"not_contains compares code points: 'guaranteed refund' is not found in any of {shown}. "
            "Normalise the text in a code step first",
            "untreated_text",
        )


def _untreated(read: Reference | None, spec: VerifierSpec) -> bool:
    """Whether the text comes as it was sent or extracted, through no code step."""
    if read is None or read.root != "steps":
        return True
    step = next((step for step in spec.steps if step.id == read.name), None)
    return step is None or not isinstance(step.action, CodeAction)


def _parameters(operator: Operator) -> str | None:
    found = operator.parameters
    match operator.kind:
        case "in_range" | "not_in_range" if found["min"] > found["max"]:
            return "min is above max: always inconclusive"
        case "between_percentiles" if not 0 <= found["lower_pct"] <= found["upper_pct"] <= 1:
            return "percentiles need 0 <= lower_pct <= upper_pct <= 1: always inconclusive"
        case "within_std_dev" if found["std_dev"] < 0:
            return "std_dev is negative: always inconclusive"
        case "approximately_equals" | "within_abs_tolerance" if found["tolerance"] < 0:
            return "the tolerance is negative, so the check can never pass"
        case "has_min_length" if found["min"] == 0:
            return "every text has at least 0 characters, so the check can never fail"
        case "length_less_than" if found["max"] == 0:
            return "nothing has a length below 0, so the check can never pass"
    return None


def selector_fault(selector: str) -> str | None:
    """Why the text is not a JSONPath (RFC 9535) that can be used, or None."""
    import jsonpath_rfc9535

    try:
        jsonpath_rfc9535.compile(selector)
    except (jsonpath_rfc9535.JSONPathError, RecursionError, ValueError) as error:
        return (str(error) or type(error).__name__).splitlines()[0][:200]
    return None
