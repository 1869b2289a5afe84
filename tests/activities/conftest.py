"""An execution as its blocks see it, without a server around it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from activities.bundle import Bundle
from activities.context import ExecutionContext
from activities.ledger import MemoryLedger
from engine.evidence import Evidence
from store.caller import Tenant
from wyrd.cards import VerifierSpec
from wyrd.wire.ids import uuid7


def execution(spec: Mapping[str, Any], tenant: Tenant, **inputs: Any) -> ExecutionContext:
    """An execution of that Verifier over json inputs."""
    bundle = Bundle(VerifierSpec.model_validate(spec), {})
    declared = {slot: {"kind": "json", "value": value} for slot, value in inputs.items()}
    return ExecutionContext(
        tenant=tenant,
        execution_id=uuid7(),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        bundle=bundle,
        evidence=Evidence(bundle.plan.spec, declared),
        ledger=MemoryLedger(len(bundle.plan.spec.steps)),
    )
