"""What blocks read of other blocks: outputs, statuses, outcomes and reasons."""

from __future__ import annotations

from typing import Any

import pytest

from engine.evidence import Evidence
from engine.failure import BlockFailure, ReasonKind
from engine.plan import Plan, compile_plan
from engine.reader import Reader
from engine.states import States
from wyrd.cards import Reference, VerifierSpec

CODE = {"kind": "code", "entrypoint": "f", "source": {"inline": "def f(): ..."}, "inputs": {}}


def planned() -> Plan:
    own = {
        "id": "own",
        "statement": "it is so",
        "check": {"kind": "assert", "path": "steps.first.output", "operator": "is_truthy"},
    }
    reading = CODE | {
        "inputs": {
            "why": "steps.first.requirements.own.reason",
            "how": "steps.first.requirements.own.outcome",
            "what": "steps.first.output",
        }
    }
    steps = [{"id": "first", "action": CODE, "requirements": [own]}, {"id": "second", "action": reading}]
    return compile_plan(VerifierSpec.model_validate({"steps": steps}))


def read(name: str, states: str, *, outputs: dict[int, Any] | None = None, reasons: Any = None) -> Any:
    plan = planned()
    reader = Reader(plan, Evidence(plan.spec, {}), States.of_text(states), outputs or {}, reasons or {})
    action: Any = plan.spec.steps[1].action
    reference: Reference = action.inputs[name]
    return reader.value(reference, 1)


def test_a_reason_that_was_recorded_is_read_as_it_is() -> None:
    assert read("why", "s-|f", reasons={0: "it is not so"}) == "it is not so"


@pytest.mark.parametrize(
    ("states", "outcome", "reason"),
    [
        ("f-|I", "inconclusive", "step first failed, so it has no output to read"),
        ("k-|N", "not_applicable", "step first was skipped"),
    ],
)
def test_a_requirement_that_a_rule_ended_reads_with_the_rules_reason(
    states: str, outcome: str, reason: str
) -> None:
    assert read("how", states) == outcome
    assert read("why", states) == reason


def test_a_reason_that_nobody_recorded_is_missing_evidence_and_not_empty() -> None:
    with pytest.raises(BlockFailure) as missing:
        read("why", "s-|i")
    assert missing.value.kind is ReasonKind.MISSING_EVIDENCE


def test_an_output_that_is_damaged_fails_whoever_reads_it() -> None:
    damage = BlockFailure(ReasonKind.DIGEST_MISMATCH, "the bytes are others")
    with pytest.raises(BlockFailure) as failed:
        read("what", "s-|p", outputs={0: damage})
    assert failed.value.kind is ReasonKind.DIGEST_MISMATCH
