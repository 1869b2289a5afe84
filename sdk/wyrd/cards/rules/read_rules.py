"""What a block may read: references against the slots, steps and order of their Verifier."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from wyrd.cards.actions import AgentBlock, CodeBlock, ExtractAction
from wyrd.cards.references import Reference
from wyrd.cards.rules.known_outputs import output_schema, selectable
from wyrd.cards.slots import JsonSlot
from wyrd.cards.verifier import Step, VerifierSpec

Position = Literal["action", "when", "check"]


def action_reads(step: Step) -> Iterator[Reference]:
    """Every reference of the step's action, workspace included."""
    action = step.action
    if isinstance(action, ExtractAction):
        yield action.from_
    elif isinstance(action, AgentBlock):
        yield from action.inputs.values()
        yield from action.workspace.values()
    elif isinstance(action, CodeBlock):
        yield from action.inputs.values()


def step_dependencies(step: Step) -> list[str]:
    """The ids of the steps that must end first: declared, read by `when`, read by the action."""
    found = dict.fromkeys(step.depends_on)
    reads = [*action_reads(step)] if step.when is None else [step.when.path, *action_reads(step)]
    found.update((read.name, None) for read in reads if read.root == "steps")
    return list(found)


class Reads:
    """The names of one Verifier, and the judgement of one reference at a position."""

    def __init__(self, spec: VerifierSpec) -> None:
        self.spec = spec
        self.steps: dict[str, Step] = {}
        for step in spec.steps:
            self.steps.setdefault(step.id, step)

    @cached_property
    def upstream(self) -> dict[str, frozenset[str]]:
        """Of each step, itself and every step that ends before it starts."""
        found: dict[str, frozenset[str]] = {}
        direct = {
            name: [d for d in step_dependencies(step) if d in self.steps] for name, step in self.steps.items()
        }
        for name in self.steps:
            seen = {name}
            stack = [name]
            while stack:
                for other in direct[stack.pop()]:
                    if other not in seen:
                        seen.add(other)
                        stack.append(other)
            found[name] = frozenset(seen)
        return found

    def fault(
        self, read: Reference, position: Position, *, each: bool = False, owner: str | None = None
    ) -> tuple[str, str] | None:
        """The broken rule and a sentence, or None. `owner` is the step whose requirement reads."""
        if read.has_wildcard and not each:
            return "wildcard_position", f"{read}: [*] works only in an assertion's each"
        if read.root == "requirement":
            if position != "check":
                return "requirement_position", f"{read} can be read only in a check"
            return None
        missing = self._unknown(read)
        if missing is not None:
            return "unknown_reference", missing
        if read.root == "steps":
            if read.requirement is not None and position == "check":
                return "verdict_position", f"{read}: requirements never feed each other"
            if owner is not None and read.name not in self.upstream[owner]:
                return "step_position", f"{read}: step {read.name!r} does not end before step {owner!r}"
        if not selectable(self._schema(read), read.selectors):
            return "missing_field", f"{read}: no such place can exist in what is read"
        return None

    def _unknown(self, read: Reference) -> str | None:
        if read.root == "inputs":
            return None if read.name in self.spec.inputs else f"{read}: no slot {read.name!r} is declared"
        step = self.steps.get(read.name)
        if step is None:
            return f"{read}: no step {read.name!r} is declared"
        if read.requirement is not None and all(one.id != read.requirement for one in step.requirements):
            return f"{read}: step {read.name!r} has no requirement {read.requirement!r}"
        return None

    def _schema(self, read: Reference) -> object:
        if read.root == "inputs":
            slot = self.spec.inputs[read.name]
            if isinstance(slot, JsonSlot) and slot.schema_ is not None:
                return slot.schema_
            return True
        return output_schema(self.steps[read.name], self.spec) if read.facet == "output" else True
