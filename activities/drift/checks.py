"""A drift check as a block: the window's samples from Bifrost against the stored baseline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from activities.context import ExecutionContext
from activities.drift.window import window_samples
from bifrost.reading import Cuts
from engine.drift.baseline import Baseline, judge, needs_baseline
from engine.drift.report import DriftReport
from engine.ends import Ran
from engine.failure import BlockFailure, ReasonKind
from engine.finding import CheckFinding
from store.baselines import Baselines, StoredBaseline
from store.caller import Tenant
from store.database import Database
from wyrd.cards import DriftCheck, SamplesSlot
from wyrd.cards.drift import PsiProfile
from wyrd.errors import WyrdError

_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between attempts to read while the database or the storage is away; a window is judged once."""
_KINDS = {413: ReasonKind.LIMIT_EXCEEDED}


class DriftBlocks:
    """Judges drift checks with this process's database and cuts."""

    def __init__(self, database: Database, cuts: Cuts) -> None:
        self._database = database
        self._cuts = cuts

    async def check(
        self, context: ExecutionContext, requirement_id: str, check: DriftCheck
    ) -> tuple[CheckFinding, Ran]:
        """Judge one drift check over the execution's window. Raises `BlockFailure`."""
        window = context.scheduled
        if window is None:
            raise BlockFailure(ReasonKind.MISSING_EVIDENCE, "a drift check needs a window of a schedule")
        slot = context.bundle.plan.spec.inputs[check.on.name]
        assert isinstance(slot, SamplesSlot)
        pauses = iter(_PAUSES)
        while True:
            try:
                baseline = await self._baseline(context.tenant, window.verifier_uid, requirement_id, check)
                samples = await window_samples(
                    self._database,
                    self._cuts,
                    context.tenant,
                    window.subject_uid,
                    slot.features,
                    window.start,
                    window.end,
                    _categorical(check),
                )
                break
            except WyrdError as error:
                pause = next(pauses, None) if error.status >= 500 else None
                if pause is None:
                    raise BlockFailure(
                        _KINDS.get(error.status, ReasonKind.EVIDENCE_UNREADABLE), error.detail
                    ) from error
                await asyncio.sleep(pause)
        report: DriftReport = await asyncio.to_thread(judge, check, baseline, samples)
        provenance = {"kind": "drift", "window": _window(window.start, window.end)}
        return report.finding(), Ran(provenance)

    async def _baseline(
        self, tenant: Tenant, verifier_uid: str, requirement_id: str, check: DriftCheck
    ) -> Baseline | None:
        if not needs_baseline(check):
            return None
        found: StoredBaseline | None = await self._database.read(
            _stored, tenant, verifier_uid, requirement_id
        )
        if found is None or found.document is None:
            why = "is still being fitted" if found is None or found.error is None else found.error
            raise BlockFailure(ReasonKind.NOT_CONFIGURED, f"the baseline is not ready: {why}")
        return Baseline.of_document(found.document)


def _categorical(check: DriftCheck) -> Sequence[str]:
    return check.profile.categorical_features if isinstance(check.profile, PsiProfile) else ()


def _stored(
    connection: Connection, tenant: Tenant, verifier_uid: str, requirement_id: str
) -> StoredBaseline | None:
    return Baselines(connection, tenant).of(verifier_uid).get(requirement_id)


def _window(start: datetime, end: datetime) -> dict[str, Any]:
    return {"start": start.isoformat(), "end": end.isoformat()}
