"""The result of an execution as it is recorded and answered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from activities.bundle import Bundles
from activities.context import ExecutionContext
from engine.capture import Capture
from engine.result import kept_inputs
from store.caller import Tenant
from store.database import Database, utc_now
from store.executions import find_execution
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


async def kept_at_end(database: Database, bundles: Bundles, tenant: Tenant, execution_id: str) -> str | None:
    """The inputs that may be kept of an execution which ends without a result; None to keep them all.

    Evidence of a Verifier that captures less than everything goes however the execution ended, and so
    does that of a Verifier which cannot be read any more.
    """
    row = await database.read(find_execution, tenant, execution_id)
    if row is None or row.ended_at is not None:
        return None
    try:
        mode = (await bundles.of(tenant, row.verifier_uid)).capture
    except WyrdError as error:
        if error.status >= 500:
            raise
        mode = Capture.REDACT
    if mode is Capture.FULL:
        return None
    return json.dumps(kept_inputs(strict_loads(row.inputs, max_depth=128), mode))
