"""Verifiers that judge windows: their Cards, their baseline files, and samples with times of their own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from temporalio.client import WorkflowHistory
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from bifrost.names import DRIFT_OBSERVATIONS
from store.database import database_now
from store.outbox import Batch, Outbox
from tests.e2e.stack import Stack, card, sibling
from workflows import contracts
from wyrd.wire.ids import uuid7

HOUR = timedelta(hours=1)
_MEANT_FOR = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")


def numbers(count: int = 1000, shift: float = 0.0, seed: int = 0) -> list[float]:
    """Numbers that look like a baseline's, or are off by `shift` standard deviations."""
    drawn = np.random.Generator(np.random.PCG64(seed)).normal(shift, 1.0, count)
    return [float(value) for value in drawn]


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def psi(
    features: Sequence[str],
    data: str,
    threshold: Mapping[str, Any] | None = None,
    categorical: Sequence[str] = (),
    bins: int = 5,
) -> dict[str, Any]:
    profile = {
        "kind": "Psi",
        "binning_strategy": {"kind": "Quantile", "n_bins": bins},
        "threshold": dict(threshold or {"kind": "Fixed", "value": 0.25}),
        "categorical_features": list(categorical),
    }
    return _check("Psi", _distribution(features, data), profile)


def spc(features: Sequence[str], data: str, sample_size: int = 5) -> dict[str, Any]:
    return _check("Spc", _distribution(features, data), {"kind": "Spc", "sample_size": sample_size})


def custom(metric: str, value: float, alert: float) -> dict[str, Any]:
    profile = {"kind": "Custom", "metric_name": metric, "baseline_value": value, "alert_threshold": alert}
    return _check("Custom", {"kind": "Metric", "name": metric}, profile)


def _distribution(features: Sequence[str], data: str) -> dict[str, Any]:
    ref = {"kind": "Data", "space": "tests", "name": data, "version": "1.0.0"}
    return {"kind": "Distribution", "features": list(features), "baseline_ref": ref}


def _check(method: str, signal: dict[str, Any], profile: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "drift",
        "on": "inputs.samples",
        "method": method,
        "signal": signal,
        "condition": {"kind": "Statistical"},
        "profile": profile,
    }


@dataclass
class Watch:
    """A declared Service that binds a Verifier of samples on a schedule."""

    stack: Stack
    uids: dict[str, str]
    verifier: str
    service: str
    binding_id: str

    async def status(self) -> dict[str, Any]:
        answer = await self.stack.http.get(f"/v1/verification/bindings/{self.binding_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def scheduled(self) -> dict[str, Any]:
        """The status once the Schedule is there."""
        return await self.until(lambda found: found["next_run_at"] is not None)

    async def until(self, wanted: Any, timeout: float = 60) -> dict[str, Any]:
        async with asyncio.timeout(timeout):
            while True:
                found = await self.status()
                if wanted(found):
                    return found
                await asyncio.sleep(0.1)

    async def fitted(self, status: str = "ready") -> dict[str, Any]:
        """The Verifier's baseline as its Card tells it, once it has that status."""
        async with asyncio.timeout(60):
            while True:
                found = await self.baseline()
                if found is not None and found["status"] == status:
                    return found
                await asyncio.sleep(0.1)

    async def baseline(self) -> dict[str, Any] | None:
        answer = await self.stack.http.get(f"/v1/cards/by-uid/Verifier/{self.uids[self.verifier]}")
        found: dict[str, Any] | None = answer.json()["card"]["status"].get("verification", {}).get("baseline")
        return found

    async def backfill(self, start: datetime, end: datetime) -> None:
        answer = await self.stack.http.post(
            f"/v1/verification/bindings/{self.binding_id}/backfill",
            json={"from": start.isoformat(), "to": end.isoformat()},
        )
        assert answer.status_code == 202, answer.text

    async def slot(self, boundary: datetime) -> WorkflowHistory:
        """Run the slot of that boundary, as its Schedule would start it, to its end; its history."""
        stack = self.stack
        handle = await stack.client.start_workflow(
            contracts.SCHEDULED_WINDOW_WORKFLOW,
            contracts.OfBinding(
                tenant_id=stack.tenant.id, tenant_slug=stack.tenant.slug, binding_id=self.binding_id
            ),
            id=f"{stack.tenant.slug}/window/{self.binding_id}-{uuid7()}",
            task_queue=contracts.QUEUE,
            search_attributes=TypedSearchAttributes([SearchAttributePair(_MEANT_FOR, boundary)]),
        )
        await asyncio.wait_for(handle.result(), 100)
        return await handle.fetch_history()

    async def judged(self, *ends: datetime, timeout: float = 60) -> list[dict[str, Any]]:
        """The status documents of the ended executions of the windows with those ends, newest first."""

        def all_there(found: dict[str, Any]) -> bool:
            over = {
                datetime.fromisoformat(slot["window_end"])
                for slot in found["slots"]
                if slot["status"] not in ("pending", "running", "retrying")
            }
            return over >= set(ends)

        found = await self.until(all_there, timeout)
        return [
            await self.stack.status(slot["execution_id"])
            for slot in found["slots"]
            if datetime.fromisoformat(slot["window_end"]) in ends
        ]

    async def record(self, values: Iterable[Mapping[str, Any]], at: datetime) -> None:
        """Samples about the Service, ingested at a time of the test's own, in the order they are given."""
        rows = [
            row
            for number, sample in enumerate(values)
            for row in sample_rows(sample, self.uids[self.service], at + timedelta(microseconds=number))
        ]
        await self.stack.services.database.write(_ingest, self.stack, rows, at)


def sample_rows(sample: Mapping[str, Any], card_uid: str, created_at: datetime) -> list[dict[str, Any]]:
    record_id = uuid7()
    return [
        {
            "record_id": record_id,
            "series": feature,
            "num_value": None if isinstance(value, str) else value,
            "str_value": None if value is None else str(value),
            "created_at": created_at.isoformat(),
            "card_uid": card_uid,
        }
        for feature, value in sample.items()
    ]


def _ingest(connection: Any, stack: Stack, rows: list[dict[str, Any]], at: datetime) -> None:
    batch = Batch(
        table=DRIFT_OBSERVATIONS.full,
        batch_id=uuid7(),
        encoding="json",
        payload=json.dumps(rows).encode(),
        row_count=len(rows),
        principal_id=uuid7(),
        request_id=uuid7(),
        ingested_at=at,
    )
    assert Outbox(connection, stack.tenant).add([batch]) == 1


async def data_of(stack: Stack, files: Mapping[str, bytes]) -> str:
    """A Data Card of its own with those files; its name."""
    name = f"d{uuid7().replace('-', '')[-20:]}"
    await declare_data(stack, name, files)
    return name


async def declare_data(stack: Stack, name: str, files: Mapping[str, bytes], version: str = "1.0.0") -> str:
    """A Data Card with its files sent; its uid."""
    answer = await stack.http.post(
        "/v1/cards",
        json={"submissions": [data_card(name, files, version)]},
        headers={"idempotency-key": f"declare-{uuid7()}"},
    )
    assert answer.status_code < 300, answer.text
    return await send_files(stack, answer.json(), files)


def data_card(name: str, files: Mapping[str, bytes], version: str = "1.0.0") -> dict[str, Any]:
    artifacts = [
        {
            "relative_path": path,
            "sha256": base64.b64encode(hashlib.sha256(content).digest()).decode(),
            "size_bytes": len(content),
            "content_type": None,
        }
        for path, content in files.items()
    ]
    return {**card("Data", name, {"interface": {"kind": "table"}}, version), "artifacts": artifacts}


async def send_files(stack: Stack, receipt: dict[str, Any], files: Mapping[str, bytes]) -> str:
    """Upload and complete what the receipt asks for; the uid of the Card it was for."""
    (plan,) = receipt["upload_plans"]
    for entry in plan["entries"]:
        target = entry["plan"]
        assert target["protocol"] == "local_fs", target
        put = await stack.http.put(target["data"]["put_url"], content=files[entry["relative_path"]])
        assert put.status_code < 300, put.text
        done = await stack.http.post(
            f"/v1/cards/upload/{entry['upload_id']}/complete", json={"protocol": "single_put", "data": {}}
        )
        assert done.status_code == 200, done.text
    uid: str = plan["card_ref"]["uid"]
    completed = await stack.http.post(f"/v1/cards/{uid}/complete", json=None)
    assert completed.status_code == 200, completed.text
    return uid


async def watch(
    stack: Stack,
    check: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    features: Sequence[str],
    *,
    cron: str = "0 * * * *",
    tz: str | None = None,
    operators: Sequence[Mapping[str, Any]] = (),
    name: str | None = None,
    version: str = "1.0.0",
    statement: str = "it stays as it was",
) -> Watch:
    """Declare a Verifier with those drift checks, bound on a schedule to a Service of its own."""
    name = name or f"w{uuid7().replace('-', '')[-20:]}"
    checks = [check] if isinstance(check, Mapping) else check
    requirements = [
        {"id": f"stays{number or ''}", "statement": statement, "check": dict(one)}
        for number, one in enumerate(checks)
    ]
    spec = {
        "inputs": {"samples": {"type": "samples", "features": list(features)}},
        "requirements": requirements,
    }
    entry: dict[str, Any] = {
        "verifier": sibling("Verifier", name),
        "runs_on": {"kind": "schedule", "cron": cron, **({} if tz is None else {"tz": tz})},
    }
    if operators:
        entry["on_failure"] = [dict(one) for one in operators]
    service = f"{name}-desk"
    uids = await stack.declare(
        card("Verifier", name, spec), card("Service", service, {"verified_by": [entry]}, version)
    )
    view = await stack.http.get(f"/v1/cards/by-uid/Service/{uids[service]}")
    (binding_id,) = view.json()["card"]["status"]["verification"]["binding_ids"]
    return Watch(stack, uids, name, service, binding_id)


def hours_ago(count: int, now: datetime | None = None) -> datetime:
    """The start of an hour that has passed."""
    moment = now or datetime.now(UTC)
    return moment.replace(minute=0, second=0, microsecond=0) - timedelta(hours=count)


async def database_time(stack: Stack) -> datetime:
    found: datetime = await stack.services.database.read(database_now)
    return found
