"""A verdict with everything that explains it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from wyrd.wire.refs import CardRef
from wyrd.wire.verification import RequirementResult, ResultDocument, StepResult


class VerificationResult(BaseModel):
    """The result of one execution. `run_id` is None for group and scheduled executions.

    `evidence` holds the pinned input declaration of each slot.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    execution_id: str
    run_id: str | None
    verifier: CardRef
    subject: CardRef
    verdict: Literal["passed", "failed", "inconclusive"]
    requirements: list[RequirementResult]
    steps: list[StepResult]
    evidence: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, document: ResultDocument) -> VerificationResult:
        outcome = document.outcome
        return cls(
            execution_id=document.execution_id,
            run_id=document.run_id,
            verifier=document.verifier,
            subject=document.subject,
            verdict=outcome.verdict,
            requirements=outcome.requirements,
            steps=outcome.steps,
            evidence=outcome.evidence,
        )
