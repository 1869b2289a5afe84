"""The result of an execution: verdict, breakdown, digests, in the shape the wire promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.capture import Capture, capture
from engine.decide import Decision, decide
from engine.ends import BlockDocument, ruled_end
from engine.evidence import Evidence
from engine.plan import Plan
from engine.states import FAILED, SUCCEEDED, States
from wyrd.wire.canonical import canonical_json, sha256_hex

OUTPUT_LIMIT = 32 * 1024
"""Bytes of JSON up to which a step's output stands in the result itself; beyond, its digest and size do."""

_STATUS = {SUCCEEDED: "succeeded", FAILED: "failed", "k": "skipped"}


def decision_of(plan: Plan, states: States) -> Decision:
    return decide(
        [states.outcome(index) for index in range(len(plan.requirements))], plan.spec.decide.threshold
    )


def outcome_document(
    plan: Plan,
    states: States,
    evidence: Evidence,
    ends: Mapping[int, BlockDocument],
    decision: Decision,
) -> dict[str, Any]:
    """`outcome` of the result. `ends` holds every block that ran; the others were ended by rule."""
    mode = Capture(plan.spec.context_capture or "full")
    return {
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "counts": decision.counts.document(),
        "pass_rate": decision.rate,
        "requirements": [
            _requirement(plan, states, index, _end(plan, states, ends, plan.shape.requirement_block(index)))
            for index in range(len(plan.requirements))
        ],
        "steps": [
            _step(plan, index, _end(plan, states, ends, index)) for index in range(len(plan.spec.steps))
        ],
        "evidence": kept_inputs(evidence.inputs, mode),
        "evidence_digests": evidence.digests(),
    }


def kept_inputs(inputs: Mapping[str, Mapping[str, Any]], mode: Capture) -> dict[str, Any]:
    """Input declarations as results and the database keep them: inline values only under `full`."""
    if mode is Capture.FULL:
        return {slot: dict(declaration) for slot, declaration in inputs.items()}
    return {
        slot: {**declaration, "value": None} if declaration["kind"] == "json" else dict(declaration)
        for slot, declaration in inputs.items()
    }


def _end(plan: Plan, states: States, ends: Mapping[int, BlockDocument], block: int) -> BlockDocument:
    found = ends.get(block)
    return ruled_end(plan.shape, states, block) if found is None else found


def _requirement(plan: Plan, states: States, index: int, end: BlockDocument) -> dict[str, Any]:
    planned = plan.requirements[index]
    found: dict[str, Any] = {
        "id": planned.spec.id,
        "statement": planned.spec.statement,
        "outcome": states.outcome(index).value,
        "check": planned.check,
        "citations": [],
        **end.document,
    }
    if planned.step is not None:
        found["step"] = planned.step
    return found


def _step(plan: Plan, index: int, end: BlockDocument) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": plan.spec.steps[index].id,
        "status": _STATUS[end.letter],
        **end.document,
    }
    if end.has_output:
        found |= _kept_output(end.output, Capture(plan.spec.context_capture or "full"))
    return found


def _kept_output(output: Any, mode: Capture) -> dict[str, Any]:
    if mode is Capture.FULL:
        data = canonical_json(output)
        if len(data) > OUTPUT_LIMIT:
            return {"output_sha256": sha256_hex(data), "output_bytes": len(data)}
        return {"output": output}
    kept = capture(output, mode, None)
    return {"output": kept.value} if kept.present else {}
