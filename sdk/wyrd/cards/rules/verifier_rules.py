"""Every rule of a Verifier, in the order they are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from wyrd.cards.actions import AgentBlock, CodeBlock, ExtractAction, InlineSource
from wyrd.cards.agent import AgentSpec
from wyrd.cards.card_ref import Link
from wyrd.cards.checks import AssertCheck, Requirement, TraceCheck
from wyrd.cards.comparison import Operator
from wyrd.cards.decode import Path
from wyrd.cards.drift import DistributionSignal, DriftCheck
from wyrd.cards.identifiers import is_entrypoint
from wyrd.cards.media import EXTRACTABLE
from wyrd.cards.prompt import PromptSpec
from wyrd.cards.references import Reference
from wyrd.cards.regex import PatternRefused, compile_pattern
from wyrd.cards.rules.agent_rules import agent_faults, workspace_path_fault
from wyrd.cards.rules.drift_rules import baseline_fault, drift_fault
from wyrd.cards.rules.fault import RuleFault
from wyrd.cards.rules.read_rules import Position, Reads, step_dependencies
from wyrd.cards.slots import JsonSlot, MediaSlot, SamplesSlot, SourceSlot, TraceSlot
from wyrd.cards.verifier import Step, VerifierSpec

MAX_RETRIES: Final = 5
RESERVED_SLOT: Final = "group_id"

KindOf = Callable[[Link], str | None]
AgentOf = Callable[[Link], AgentSpec | None]
PromptOf = Callable[[Link], PromptSpec | None]


def _nothing(link: Link) -> None:
    return None


class VerifierRules:
    """The rules over one Verifier.

    `kind_of` tells the kind of a referenced Card. `agent_of` and `prompt_of` open referenced
    Agents and Prompts; offline they open nothing, so that only inline bodies are judged.
    """

    def __init__(
        self,
        spec: VerifierSpec,
        *,
        kind_of: KindOf = _nothing,
        agent_of: AgentOf = _nothing,
        prompt_of: PromptOf = _nothing,
    ) -> None:
        self.spec = spec
        self.reads = Reads(spec)
        self.kind_of = kind_of
        self.agent_of = agent_of
        self.prompt_of = prompt_of

    def faults(self) -> Iterator[RuleFault]:
        """Every broken rule; one a block, so that one fault is not told twice."""
        yield from self._ids()
        yield from self._slots()
        yield from self._order_by()
        yield from self._evidence()
        yield from self._pass_rate()
        for index, step in enumerate(self.spec.steps):
            yield from self._step(step, ("steps", index))
        yield from self._graph()
        for index, step in enumerate(self.spec.steps):
            yield from self._requirements(step.requirements, ("steps", index, "requirements"), step.id)
        yield from self._requirements(self.spec.requirements, ("requirements",), None)

    def _blocks(self) -> Iterator[tuple[str, Path]]:
        for index, step in enumerate(self.spec.steps):
            yield step.id, ("steps", index, "id")
            for j, one in enumerate(step.requirements):
                yield one.id, ("steps", index, "requirements", j, "id")
        for index, one in enumerate(self.spec.requirements):
            yield one.id, ("requirements", index, "id")

    def _ids(self) -> Iterator[RuleFault]:
        seen: set[str] = set()
        for name, at in self._blocks():
            if name in seen:
                yield RuleFault(f"the id {name!r} is used twice", at, "duplicate_id", place=name)
            seen.add(name)

    def _slots(self) -> Iterator[RuleFault]:
        for name in sorted(self.spec.inputs):
            slot = self.spec.inputs[name]
            at: Path = ("inputs", name)
            if name == RESERVED_SLOT and not isinstance(slot, SourceSlot):
                yield RuleFault(f"{name} is reserved for the group of an execution", at, "slot")
                continue
            match slot:
                case JsonSlot():
                    if not isinstance(slot.schema_, Mapping | bool | None):
                        yield RuleFault("a slot's schema is a mapping, true or false", at, "slot")
                case MediaSlot():
                    if not slot.formats:
                        yield RuleFault("the slot accepts no format", at, "slot")
                    elif slot.max_bytes == 0:
                        yield RuleFault("max_bytes must be at least 1", at, "slot")
                case SamplesSlot():
                    if not slot.features:
                        yield RuleFault("the slot names no feature", at, "slot")
                case SourceSlot():
                    if slot.verifier is None:
                        said = (
                            f"{slot.text[:120]!r} is not a source: write verifiers.<name>.inputs.<slot> "
                            "or verifiers.<name>.requirements.<id>.outcome"
                        )
                        yield RuleFault(said, at, "source")
                case TraceSlot():
                    pass

    def _order_by(self) -> Iterator[RuleFault]:
        read = self.spec.order_by
        if read is None:
            return
        slot = self.spec.inputs.get(read.name) if read.root == "inputs" else None
        why = None
        if read.root != "inputs":
            why = f"{read} is not a source slot"
        elif not isinstance(slot, SourceSlot):
            why = f"{read.name!r} is not a declared source slot"
        elif slot.requirement is not None:
            why = f"{read.name!r} reads outcomes, which have no order of their own"
        elif read.has_wildcard:
            why = "[*] cannot order anything"
        if why is not None:
            yield RuleFault(why, ("order_by",), "order_by")

    def _evidence(self) -> Iterator[RuleFault]:
        slots = self.spec.inputs.values()
        samples = any(isinstance(slot, SamplesSlot) for slot in slots)
        if samples and not all(isinstance(slot, SamplesSlot) for slot in slots):
            yield RuleFault("samples cannot stand beside other slots", ("inputs",), "mixed_evidence")
        checks = [one.check for one in self.spec.requirements]
        checks += [one.check for step in self.spec.steps for one in step.requirements]
        drift = [isinstance(check, DriftCheck) for check in checks]
        if (samples or any(drift)) and not all(drift):
            said = "window evidence is judged by drift checks, and nothing else beside them"
            yield RuleFault(said, ("requirements",), "mixed_evidence")
        if samples and self.spec.steps:
            yield RuleFault("window evidence takes no steps", ("steps",), "window_steps")

    def _pass_rate(self) -> Iterator[RuleFault]:
        threshold = self.spec.decide.threshold
        if threshold is not None and not 0 < threshold <= 1:
            at = ("decide", "pass_rate", "threshold")
            yield RuleFault("the threshold must be above 0 and at most 1", at, "pass_rate")

    def _step(self, step: Step, at: Path) -> Iterator[RuleFault]:
        if step.timeout_seconds == 0:
            yield RuleFault("timeout_seconds must be at least 1", (*at, "timeout_seconds"), "step_budget")
        if step.retries > MAX_RETRIES:
            yield RuleFault(f"retries must be at most {MAX_RETRIES}", (*at, "retries"), "step_budget")
        if step.when is not None:
            found = self.reads.fault(step.when.path, "when") or _operator_fault(step.when.operator)
            if found is not None:
                yield RuleFault(found[1], (*at, "when"), found[0])
        block = self._action(step, (*at, "action"))
        fault = next(block, None)
        if fault is not None:
            yield fault
        for index, name in enumerate(step.depends_on):
            if name not in self.reads.steps:
                said = f"no step {name[:80]!r} is declared"
                place = f"{_text(at)}.depends_on"
                yield RuleFault(said, (*at, "depends_on", index), "unknown_reference", place=place)

    def _action(self, step: Step, at: Path) -> Iterator[RuleFault]:
        action = step.action
        if isinstance(action, ExtractAction):
            yield from self._extract(action, at)
        elif isinstance(action, AgentBlock):
            yield from self._agent(action, at, "action", None)
        else:
            yield from self._code(action, at, "action", None)

    def _extract(self, action: ExtractAction, at: Path) -> Iterator[RuleFault]:
        read = action.from_
        found = self.reads.fault(read, "action")
        if found is not None and found[0] != "missing_field":
            yield RuleFault(found[1], at, found[0])
            return
        slot = self.spec.inputs.get(read.name) if read.is_whole_slot else None
        if not isinstance(slot, MediaSlot):
            yield RuleFault(f"extract reads one whole media slot, not {read}", at, "extract_source")
            return
        other = [name for name in slot.formats if name not in EXTRACTABLE]
        if other:
            yield RuleFault(f"{', '.join(other)} cannot be extracted", at, "extract_format")

    def _read_all(
        self, reads: Mapping[str, Reference], at: Path, position: Position, owner: str | None
    ) -> Iterator[RuleFault]:
        for name, read in reads.items():
            found = self.reads.fault(read, position, owner=owner)
            if found is not None:
                yield RuleFault(f"{name}: {found[1]}", at, found[0])

    def _code(self, block: CodeBlock, at: Path, position: Position, owner: str | None) -> Iterator[RuleFault]:
        source = block.source
        if isinstance(source, InlineSource):
            if not source.inline.strip():
                yield RuleFault("the inline source is blank", at, "code_source")
        else:
            kind = self.kind_of(source.artifact.card)
            if kind not in (None, "Artifact"):
                yield RuleFault(f"the source must be an Artifact Card, not {kind}", at, "code_source")
        if not is_entrypoint(block.entrypoint):
            said = f"{block.entrypoint[:80]!r} is not an ASCII identifier"
            yield RuleFault(said, at, "code_entrypoint")
        yield from self._read_all(block.inputs, at, position, owner)

    def _agent(
        self, block: AgentBlock, at: Path, position: Position, owner: str | None
    ) -> Iterator[RuleFault]:
        check = position == "check"
        link = None if isinstance(block.agent, AgentSpec) else block.agent
        if link is not None:
            kind = self.kind_of(link)
            if kind not in (None, "Agent"):
                yield RuleFault(f"the agent must be an Agent Card, not {kind}", at, "agent_kind")
        if check and block.workspace:
            yield RuleFault("a check's Agent has no workspace", at, "check_agent_workspace")
        for path in block.workspace:
            why = workspace_path_fault(path)
            if why is not None:
                yield RuleFault(why, at, "workspace_path")
        yield from self._read_all(block.inputs, at, position, owner)
        yield from self._read_all(block.workspace, at, position, owner)
        agent = block.agent if isinstance(block.agent, AgentSpec) else self.agent_of(block.agent)
        if agent is None:
            return
        prompt = agent.prompt if isinstance(agent.prompt, PromptSpec) else self.prompt_of(agent.prompt)
        for rule, said, extra in agent_faults(block, agent, prompt, self.spec, check=check):
            yield RuleFault(said, at, rule, extra=extra)

    def _graph(self) -> Iterator[RuleFault]:
        names = self.reads.steps
        waits = {name: [d for d in step_dependencies(step) if d in names] for name, step in names.items()}
        own = next((name for name, others in waits.items() if name in others), None)
        if own is not None:
            error: dict[str, Any] = {"kind": "self_loop", "task": own}
            said = f"step {own!r} waits for itself"
            yield RuleFault(said, ("steps",), "graph", extra={"error": error})
            return
        cycle = _cycle(waits)
        if cycle:
            said = f"steps wait for each other: {' -> '.join([*cycle, cycle[0]])}"
            yield RuleFault(said, ("steps",), "graph", extra={"error": {"kind": "cycle", "cycle": cycle}})

    def _requirements(self, found: list[Requirement], at: Path, owner: str | None) -> Iterator[RuleFault]:
        for index, requirement in enumerate(found):
            fault = next(self._check(requirement.check, (*at, index, "check"), owner), None)
            if fault is not None:
                yield fault

    def _check(self, check: Any, at: Path, owner: str | None) -> Iterator[RuleFault]:
        match check:
            case AssertCheck():
                yield from self._assertion(check, at, owner)
            case TraceCheck():
                found = self.reads.fault(check.on, "check", owner=owner)
                if found is not None and found[0] != "missing_field":
                    yield RuleFault(found[1], at, found[0])
                slot = self.spec.inputs.get(check.on.name) if check.on.is_whole_slot else None
                if not isinstance(slot, TraceSlot):
                    yield RuleFault(f"{check.on} is not one whole trace slot", at, "trace_source")
                found = _operator_fault(check.operator)
                if found is not None:
                    yield RuleFault(found[1], at, found[0])
            case DriftCheck():
                fault = drift_fault(check, self.spec.inputs, at)
                if fault is not None and fault.rule == "drift_source":
                    yield fault
                if isinstance(check.signal, DistributionSignal):
                    wrong = baseline_fault(check, self.kind_of(check.signal.baseline_ref), at)
                    if wrong is not None:
                        yield wrong
                if fault is not None:
                    yield fault
            case AgentBlock():
                yield from self._agent(check, at, "check", owner)
            case CodeBlock():
                yield from self._code(check, at, "check", owner)

    def _assertion(self, check: AssertCheck, at: Path, owner: str | None) -> Iterator[RuleFault]:
        selected = [read for read in (check.path, check.each) if read is not None]
        if len(selected) != 1:
            said = "an assertion selects with exactly one of path and each"
            yield RuleFault(said, at, "assert_selector")
            return
        found = self.reads.fault(selected[0], "check", each=check.each is not None, owner=owner)
        found = found or _operator_fault(check.operator)
        if found is not None:
            yield RuleFault(found[1], at, found[0])


def _text(at: Path) -> str:
    from wyrd.cards.decode import dotted

    return dotted(at)


def _operator_fault(operator: Operator) -> tuple[str, str] | None:
    if operator.kind in ("matches_regex", "not_matches_regex"):
        try:
            compile_pattern(operator.parameters["pattern"])
        except PatternRefused as error:
            return "operator", str(error)
    return None


def _cycle(waits: Mapping[str, list[str]]) -> list[str]:
    """One cycle among the steps, in waiting order, or an empty list. No recursion."""
    done: set[str] = set()
    for start in waits:
        trail: list[str] = []
        inside: dict[str, int] = {}
        stack = [(start, 0)]
        while stack:
            name, at = stack.pop()
            if at == 0:
                if name in done:
                    continue
                inside[name] = len(trail)
                trail.append(name)
            if at == len(waits[name]):
                done.add(name)
                inside.pop(name, None)
                trail.pop()
                continue
            stack.append((name, at + 1))
            following = waits[name][at]
            if following in inside:
                return trail[inside[following] :]
            stack.append((following, 0))
    return []
