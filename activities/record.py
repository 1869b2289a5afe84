"""The result of an execution as it is recorded and answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from activities.bundle import Bundles
from activities.context import ExecutionContext
from bifrost.verifications import EndedVerification
from engine.capture import Capture
from engine.result import kept_inputs
from store.caller import Tenant
from store.database import Database, utc_now
from store.executions import find_execution
from store.outbox import Batch
from wyrd.errors import WyrdError
from wyrd.wire.canonical import strict_loads
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
    principal_id: str | None = None
    session_id: str | None = None
    window: tuple[datetime, datetime] | None = None

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
            principal_id=row.principal_id,
            session_id=row.session_id,
            window=None if row.window_start is None else (row.window_start, row.window_end),
        )

    def ended(
        self,
        execution_id: str,
        started_at: datetime,
        ended_at: datetime,
        inputs: Mapping[str, Mapping[str, Any]],
        outcome: Mapping[str, Any] | None,
    ) -> EndedVerification:
        """The execution at its end, as Bifrost records it."""
        return EndedVerification(
            execution_id=execution_id,
            verifier=self.verifier,
            subject=self.subject,
            owner=self.owner,
            source=self.source,
            principal_id=self.principal_id,
            binding_id=self.binding_id,
            run_id=self.run_id,
            group_id=self.group_id,
            session_id=self.session_id,
            workflow_id=self.workflow_id,
            started_at=started_at,
            ended_at=ended_at,
            inputs=inputs,
            outcome=outcome,
            window=self.window,
        )


def result_document(
    names: ExecutionNames, context: ExecutionContext, outcome: dict[str, Any], ended_at: datetime
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
        "ended_at": ended_at.isoformat(),
    }
    if names.owner is not None:
        found["owner"] = names.owner.document()
    for name in ("workflow_id", "binding_id", "group_id", "session_id"):
        value = getattr(names, name)
        if value is not None:
            found[name] = value
    return found


def result_batches(
    names: ExecutionNames, context: ExecutionContext, outcome: Mapping[str, Any], ended_at: datetime
) -> list[Batch]:
    """What a result leaves in Bifrost, stored in the transaction that records it."""
    return names.ended(
        context.execution_id, context.started_at, ended_at, outcome["evidence"], outcome
    ).batches()


@dataclass(frozen=True)
class WithoutResult:
    """What is stored with an end that has no result. `kept` is the JSON of the inputs that may be kept;
    None keeps them all."""

    kept: str | None
    batches: Sequence[Batch]


async def without_result(
    database: Database, bundles: Bundles, tenant: Tenant, execution_id: str
) -> WithoutResult:
    """What stays of an execution which ends without a result.

    Evidence of a Verifier that captures less than everything goes however the execution ended, and so
    does that of a Verifier which cannot be read any more.
    """
    row = await database.read(find_execution, tenant, execution_id)
    if row is None or row.ended_at is not None:
        return WithoutResult(None, ())
    try:
        mode = (await bundles.of(tenant, row.verifier_uid)).capture
    except WyrdError as error:
        if error.status >= 500:
            raise
        mode = Capture.REDACT
    inputs = kept_inputs(strict_loads(row.inputs, max_depth=128), mode)
    ended = ExecutionNames.of_row(row).ended(execution_id, row.created_at, utc_now(), inputs, None)
    return WithoutResult(None if mode is Capture.FULL else json.dumps(inputs), ended.batches())
