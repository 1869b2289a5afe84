"""The result of an execution as it is recorded and answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from activities.context import ExecutionContext
from store.database import utc_now
from wyrd.wire.refs import CardRef


@dataclass(frozen=True)
class ExecutionNames:
    """The exact Card versions an execution is about, and where it belongs."""

    verifier: CardRef
    subject: CardRef
    owner: CardRef | None
    source: str
    workflow_id: str | None
    binding_id: str | None
    run_id: str | None
    group_id: str | None

    @classmethod
    def of_row(cls, row: Any) -> ExecutionNames:
        return cls(
            verifier=CardRef.parse(f"{row.verifier}#{row.verifier_uid}"),
            subject=CardRef.parse(f"{row.subject}#{row.subject_uid}"),
            owner=None if row.owner is None else CardRef.parse(f"{row.owner}#{row.owner_uid}"),
            source=row.source,
            workflow_id=None if row.source == "verify" else row.workflow_id,
            binding_id=row.binding_id,
            run_id=row.run_id,
            group_id=row.group_id,
        )


def result_document(
    names: ExecutionNames, context: ExecutionContext, outcome: dict[str, Any]
) -> dict[str, Any]:
    """The result in the shape of `wyrd.wire.verification.ResultDocument`."""
    found: dict[str, Any] = {
        "execution_id": context.execution_id,
        "run_id": names.run_id,
        "verifier": names.verifier.document(),
        "subject": names.subject.document(),
        "outcome": outcome,
        "source": names.source,
        "started_at": context.started_at.isoformat(),
        "ended_at": utc_now().isoformat(),
    }
    if names.owner is not None:
        found["owner"] = names.owner.document()
    for name in ("workflow_id", "binding_id", "group_id"):
        value = getattr(names, name)
        if value is not None:
            found[name] = value
    return found
