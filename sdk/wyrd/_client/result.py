"""A verdict with everything that explains it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from wyrd.wire.refs import CardRef
from wyrd.wire.verification import OutcomeCounts, RequirementResult, ResultDocument, StepResult


class VerificationResult(BaseModel):
    """The result of one execution, with all that the server said of it.

    `run_id` is None for group and scheduled executions. `reason` says in one sentence how the verdict
    was reached, `counts` and `pass_rate` from what. `evidence` holds the pinned input declaration of each
    slot, `evidence_digests` its SHA-256. `owner` is the Card whose binding this is. Members that a newer
    server adds are kept as they are.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    execution_id: str
    run_id: str | None
    verifier: CardRef
    subject: CardRef
    owner: CardRef | None = None
    binding_id: str | None = None
    group_id: str | None = None
    workflow_id: str | None = None
    source: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    verdict: Literal["passed", "failed", "inconclusive"]
    reason: str | None = None
    counts: OutcomeCounts | None = None
    pass_rate: float | None = None
    requirements: list[RequirementResult]
    steps: list[StepResult]
    evidence: dict[str, dict[str, Any]]
    evidence_digests: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def of(cls, document: ResultDocument) -> VerificationResult:
        members = {"run_id": None, **_said(document), **_said(document.outcome)}
        del members["outcome"]
        return cls.model_validate(members)

    def document(self) -> dict[str, Any]:
        """The result as JSON data: what the server said, and no member that it did not."""
        return self.model_dump(mode="json", exclude_unset=True)


def _said(model: BaseModel) -> dict[str, Any]:
    """The members that were given, unknown ones included."""
    return {name: value for name, value in model if name in model.model_fields_set}
