"""Fitting baselines: the files a Verifier's drift checks name become what windows are compared with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.bundle import Bundle, Bundles
from activities.drift.data import baseline_samples
from activities.files import FileShelf
from engine.drift.baseline import (
    Baseline,
    BaselineRefused,
    alarm_warnings,
    false_alarms,
    fit,
    needs_baseline,
)
from engine.failure import BlockFailure
from store.baselines import Baselines
from store.caller import Tenant
from store.database import Database
from workflows import contracts
from workflows.contracts import FitBaselines
from wyrd.cards import CardRef, DriftCheck
from wyrd.cards.drift import DistributionSignal, PsiProfile

_BEAT_SECONDS = 5.0


def checks_to_fit(bundle: Bundle) -> dict[str, DriftCheck]:
    """The drift checks of a Verifier that need a baseline, by requirement."""
    return {
        planned.spec.id: planned.spec.check
        for planned in bundle.plan.requirements
        if isinstance(planned.spec.check, DriftCheck) and needs_baseline(planned.spec.check)
    }


class BaselineActivities:
    """Bound to one process's database and files."""

    def __init__(self, database: Database, bundles: Bundles, shelf: FileShelf) -> None:
        self._database = database
        self._bundles = bundles
        self._shelf = shelf

    @property
    def activities(self) -> list[Any]:
        return [self.fit_baselines]

    @activity.defn(name=contracts.FIT_BASELINES)
    async def fit_baselines(self, argument: FitBaselines) -> None:
        tenant = Tenant(argument.tenant_id, argument.tenant_slug)
        beating = asyncio.create_task(_beat())
        try:
            await self._fit_all(tenant, argument.verifier_uid)
        finally:
            beating.cancel()

    async def _fit_all(self, tenant: Tenant, verifier_uid: str) -> None:
        bundle = await self._bundles.of(tenant, verifier_uid)
        checks = checks_to_fit(bundle)

        def begin(connection: Connection) -> list[str]:
            baselines = Baselines(connection, tenant)
            baselines.begin(verifier_uid, checks)
            return [name for name, one in baselines.of(verifier_uid).items() if one.status == "fitting"]

        for requirement_id in await self._database.write(begin):
            check = checks[requirement_id]
            try:
                fitted, rates = await self._fit(tenant, bundle, check)
            except BaselineRefused as refused:
                await self._database.write(_failed, tenant, verifier_uid, requirement_id, str(refused))
            except BlockFailure as failure:
                if failure.retryable:
                    # The file store is away, which says nothing of the data.
                    raise ApplicationError(failure.reason, type=failure.kind.value) from None
                await self._database.write(_failed, tenant, verifier_uid, requirement_id, failure.reason)
            else:
                await self._database.write(_ready, tenant, verifier_uid, requirement_id, fitted, rates)

    async def _fit(
        self, tenant: Tenant, bundle: Bundle, check: DriftCheck
    ) -> tuple[Baseline, dict[str, dict[str, float | None]]]:
        signal = check.signal
        assert isinstance(signal, DistributionSignal)
        assert isinstance(signal.baseline_ref, CardRef)
        categorical = check.profile.categorical_features if isinstance(check.profile, PsiProfile) else []
        files = bundle.files(signal.baseline_ref)
        async with contextlib.AsyncExitStack() as stack:
            local: list[tuple[str, Path]] = []
            for file in files:
                path = await stack.enter_async_context(self._shelf.open(tenant, file.sha256, file.size_bytes))
                local.append((file.path, path))
            return await asyncio.to_thread(_fitted, check, local, signal.features, categorical)


def _fitted(
    check: DriftCheck,
    files: Sequence[tuple[str, Path]],
    features: Sequence[str],
    categorical: Sequence[str],
) -> tuple[Baseline, dict[str, dict[str, float | None]]]:
    baseline = fit(check, baseline_samples(files, features, categorical))
    return baseline, false_alarms(check, baseline)


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(_BEAT_SECONDS)


def _ready(
    connection: Connection,
    tenant: Tenant,
    verifier_uid: str,
    requirement_id: str,
    fitted: Baseline,
    rates: dict[str, dict[str, float | None]],
) -> None:
    Baselines(connection, tenant).ready(
        verifier_uid, requirement_id, fitted.document(), rates, alarm_warnings(rates)
    )


def _failed(
    connection: Connection, tenant: Tenant, verifier_uid: str, requirement_id: str, reason: str
) -> None:
    Baselines(connection, tenant).failed(verifier_uid, requirement_id, reason)
