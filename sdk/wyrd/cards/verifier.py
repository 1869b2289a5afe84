"""The Verifier Card: inputs, steps, requirements, and how they decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema, model_serializer

from wyrd.cards.actions import Action, Condition
from wyrd.cards.checks import Requirement
from wyrd.cards.identifiers import BlockId, Count32, Count64, SlotName
from wyrd.cards.references import Reference
from wyrd.cards.shapes import Strict, fault
from wyrd.cards.slots import SamplesSlot, Slot, SourceSlot


class Step(Strict):
    """One preparation step; it runs its action, then its own requirements."""

    id: BlockId
    action: Action
    depends_on: list[str] = []
    when: Condition | None = None
    requirements: list[Requirement] = []
    timeout_seconds: Count32 | None = None
    retries: Count64 = 0


class PassRate(Strict):
    threshold: float


class Decide(Strict):
    """How outcomes become the verdict: `all`, or a pass rate of at least `threshold`."""

    pass_rate: PassRate | None = None

    @property
    def threshold(self) -> float | None:
        """The rate to reach, or None for `all`."""
        return None if self.pass_rate is None else self.pass_rate.threshold

    @model_serializer
    def _write(self) -> Any:
        return "all" if self.pass_rate is None else {"pass_rate": {"threshold": self.pass_rate.threshold}}


_DECIDE_SCHEMA = {
    "default": "all",
    "anyOf": [
        {"const": "all"},
        {
            "type": "object",
            "properties": {"all": {"type": "null"}},
            "required": ["all"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "pass_rate": {
                    "type": "object",
                    "properties": {"threshold": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}},
                    "required": ["threshold"],
                    "additionalProperties": False,
                }
            },
            "required": ["pass_rate"],
            "additionalProperties": False,
        },
    ],
}


def _decide(value: Any) -> Any:
    if isinstance(value, Decide):
        return value
    if value == "all":
        return {}
    if value == "pass_rate":
        raise fault("pass_rate needs a threshold", ("pass_rate",))
    if not isinstance(value, Mapping) or len(value) != 1:
        raise fault("decide is all, or {pass_rate: {threshold: t}}")
    if "all" in value and value["all"] is None:
        return {}
    if "pass_rate" not in value:
        raise fault("decide is all, or {pass_rate: {threshold: t}}")
    if not isinstance(value["pass_rate"], Mapping):
        raise fault("pass_rate is a mapping with a threshold", ("pass_rate",))
    return value


class VerifierSpec(Strict):
    """A Verifier. It never names what it checks: a binding supplies the subject."""

    description: str | None = None
    inputs: dict[SlotName, Slot] = {}
    steps: list[Step] = []
    requirements: list[Requirement] = []
    decide: Annotated[Decide, BeforeValidator(_decide), WithJsonSchema(_DECIDE_SCHEMA)] = Decide()
    context_capture: Literal["full", "hash", "redact"] | None = None
    order_by: Reference | None = None

    @property
    def reads_window(self) -> bool:
        """Whether it judges window evidence: it has samples slots."""
        return any(isinstance(slot, SamplesSlot) for slot in self.inputs.values())

    @property
    def reads_group(self) -> bool:
        """Whether it judges a whole group: it has source slots."""
        return any(isinstance(slot, SourceSlot) for slot in self.inputs.values())
