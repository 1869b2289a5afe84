"""The end of one block as a document: what the result's breakdown says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.failure import BlockFailure
from engine.finding import CheckFinding, undecided
from engine.shape import Shape
from engine.states import FAILED, SKIPPED, SUCCEEDED, States, explain_rule, letter_of


@dataclass(frozen=True, slots=True)
class BlockDocument:
    """One block's end. `document` is JSON; a succeeded step also has its `output`."""

    block: int
    letter: str
    document: dict[str, Any]
    output: Any = None
    has_output: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a step or check. `error` is None for the one that worked."""

    number: int
    started_at: str
    duration_ms: int
    error: str | None = None
    kind: str | None = None

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "number": self.number,
            "started_at": self.started_at,
            "duration_ms": self.duration_ms,
        }
        if self.error is not None:
            found["error"] = {"kind": self.kind, "message": self.error}
        return found


@dataclass(frozen=True, slots=True)
class Ran:
    """What running a block gave beside its finding or output: who judged, and at what cost."""

    provenance: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def requirement_end(
    block: int, finding: CheckFinding, ran: Ran | None = None, attempts: list[Attempt] | None = None
) -> BlockDocument:
    """The end of a requirement that was judged."""
    document: dict[str, Any] = {"reason": finding.reason}
    if finding.kind is not None:
        document["reason_kind"] = finding.kind.value
    if finding.actual_present:
        document["actual"] = finding.actual
    if finding.citations:
        document["citations"] = list(finding.citations)
    if finding.detail is not None:
        document["detail"] = finding.detail
    _add_run(document, ran, attempts if attempts and len(attempts) > 1 else None)
    return BlockDocument(block, letter_of(finding.outcome), document)


def requirement_failure(
    block: int, failure: BlockFailure, attempts: list[Attempt] | None = None
) -> BlockDocument:
    """The end of a check that could not be judged: inconclusive, never failed."""
    return requirement_end(block, undecided(failure), None, attempts)


def step_success(block: int, output: Any, ran: Ran, attempts: list[Attempt]) -> BlockDocument:
    document: dict[str, Any] = {
        "attempts": len(attempts),
        "duration_ms": sum(attempt.duration_ms for attempt in attempts),
    }
    _add_run(document, ran, attempts)
    return BlockDocument(block, SUCCEEDED, document, output, True)


def step_failure(
    block: int, failure: BlockFailure, attempts: list[Attempt], ran: Ran | None = None
) -> BlockDocument:
    """The end of a step that failed: no output, the last error as its reason."""
    document: dict[str, Any] = {
        "attempts": len(attempts),
        "duration_ms": sum(attempt.duration_ms for attempt in attempts),
        "reason": failure.reason,
        "reason_kind": failure.kind.value,
    }
    _add_run(document, ran, attempts or None)
    return BlockDocument(block, FAILED, document)


def step_skipped(block: int, reason: str) -> BlockDocument:
    return BlockDocument(block, SKIPPED, {"attempts": 0, "duration_ms": 0, "reason": reason})


def ruled_end(shape: Shape, states: States, block: int) -> BlockDocument:
    """The end of a block that the rules for skips and failures decided."""
    kind, reason = explain_rule(shape, states, block)
    document: dict[str, Any] = {"reason": reason, "reason_kind": kind.value}
    if shape.is_step(block):
        document |= {"attempts": 0, "duration_ms": 0}
        return BlockDocument(block, states.steps[block].lower(), document)
    return BlockDocument(block, states.requirements[block - len(shape.steps)].lower(), document)


def _add_run(document: dict[str, Any], ran: Ran | None, attempts: list[Attempt] | None) -> None:
    if ran is not None:
        if ran.provenance is not None:
            document["provenance"] = ran.provenance
        document.update(ran.extra)
    if attempts:
        document["attempt_log"] = [attempt.document() for attempt in attempts]
