"""The whole server in the test's own process, on a real Temporal server, a real SQLite file and real files.

The same parts as `wyrd serve` and `wyrd worker`, so that a test can look inside; tests that kill
processes start `wyrd up` instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from activities.crew import Crew
from activities.drift.checks import DriftBlocks
from activities.temporal import connect, ensure_search_attributes
from activities.traces import TraceEvidence
from activities.workshop import Workshop, open_workshop
from api.app import create_app
from api.services import Services
from api.verification import Verification
from store.caller import Tenant
from store.first_start import ensure_dev_key, ensure_tenant
from store.schema import upgrade
from store.settings import Settings
from wyrd.wire.canonical import sha256_hex
from wyrd.wire.ids import uuid7

FINAL = ("completed", "cancelled", "timed_out", "errored")


def card(kind: str, name: str, spec: Mapping[str, Any], version: str = "1.0.0") -> dict[str, Any]:
    metadata = {"name": name, "version": version, "space": "tests"}
    return {"apiVersion": "wyrd/v1", "kind": kind, "metadata": metadata, "spec": dict(spec), "artifacts": []}


def sibling(kind: str, name: str, version: str = "1.0.0") -> dict[str, Any]:
    return {"sibling": {"kind": kind, "name": name, "version": version, "space": "tests"}}


@dataclass
class Bound:
    """A declared Verifier and the Service it is bound to, by uid."""

    verifier: str
    subject: str


@dataclass
class Stack:
    settings: Settings
    services: Services
    client: Client
    http: httpx.AsyncClient
    tenant: Tenant
    workshop: Workshop
    workers: list[Worker] = field(default_factory=list)

    @property
    def traces(self) -> TraceEvidence:
        services = self.services
        return TraceEvidence(services.database, services.blobs, services.bifrost.cuts)

    @property
    def verification(self) -> Verification:
        return self.services.verification

    async def declare(self, *submissions: dict[str, Any]) -> dict[str, str]:
        """Declare Cards; their uids by name."""
        answer = await self.http.post(
            "/v1/cards",
            json={"submissions": list(submissions)},
            headers={"idempotency-key": f"declare-{uuid7()}"},
        )
        assert answer.status_code < 300, answer.text
        return {one["card_ref"]["name"]: one["card_ref"]["uid"] for one in answer.json()["outcomes"]}

    async def bind(self, spec: Mapping[str, Any], *more: dict[str, Any], name: str | None = None) -> Bound:
        """Declare a Verifier, bound to a Service of its own."""
        name = name or f"v{uuid7().replace('-', '')[-20:]}"
        service = card("Service", f"{name}-desk", {"verified_by": [{"verifier": sibling("Verifier", name)}]})
        uids = await self.declare(*more, card("Verifier", name, spec), service)
        return Bound(uids[name], uids[f"{name}-desk"])

    def body(self, bound: Bound, **inputs: Any) -> dict[str, Any]:
        """A request body; plain values become json inputs, mappings with `kind` stand as they are."""
        told = {
            slot: value
            if isinstance(value, dict) and value.get("kind") in ("file", "artifact", "trace", "json")
            else {"kind": "json", "value": value}
            for slot, value in inputs.items()
        }
        return {
            "verifier_card_uid": bound.verifier,
            "card_uid": bound.subject,
            "run_id": uuid7(),
            "inputs": told,
        }

    async def verify(self, bound: Bound, **inputs: Any) -> httpx.Response:
        return await self.http.post("/v1/verification/execute", json=self.body(bound, **inputs), timeout=70)

    async def enqueue(self, body: dict[str, Any], key: str | None = None) -> httpx.Response:
        headers = {"idempotency-key": key or f"verification-submit-{uuid7()}"}
        return await self.http.post("/v1/verification/enqueue", json=body, headers=headers)

    async def submit(self, bound: Bound, **inputs: Any) -> str:
        answer = await self.enqueue(self.body(bound, **inputs))
        assert answer.status_code == 202, answer.text
        execution_id: str = answer.json()["execution_id"]
        return execution_id

    async def status(self, execution_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"/v1/verification/executions/{execution_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def ended(self, execution_id: str, timeout: float = 60) -> dict[str, Any]:
        """The status document once the execution has ended: the workflow's own end is awaited."""
        handle = self.client.get_workflow_handle(f"{self.tenant.slug}/verification/{execution_id}")
        with contextlib.suppress(Exception):
            await asyncio.wait_for(handle.result(), timeout)
        found = await self.status(execution_id)
        if found["status"] == "pending":
            # What Wyrd itself starts is recorded first; there may have been no workflow to wait for yet.
            await until(partial(self._is_known, handle))
            with contextlib.suppress(Exception):
                await asyncio.wait_for(handle.result(), timeout)
            found = await self.status(execution_id)
        assert found["status"] in FINAL, found
        return found

    async def _is_known(self, handle: WorkflowHandle[Any, Any]) -> bool:
        try:
            await handle.describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return True

    async def upload(self, data: bytes, format: str, filename: str | None = None) -> dict[str, Any]:
        """Put a file into the tenant's storage; its input declaration."""
        sha256 = await self.services.blobs.put(self.tenant, data)
        assert sha256 == sha256_hex(data)
        declared = {"kind": "file", "sha256": sha256, "size_bytes": len(data), "format": format}
        return declared if filename is None else {**declared, "filename": filename}

    async def history(self, execution_id: str) -> Any:
        handle = self.client.get_workflow_handle(f"{self.tenant.slug}/verification/{execution_id}")
        return await handle.fetch_history()


def _configure(home: Path, deployments: Mapping[str, Any]) -> None:
    (home / "gateway.yaml").write_text(yaml.safe_dump({"deployments": dict(deployments)}), "utf-8")


@contextlib.asynccontextmanager
async def in_process(
    home: Path,
    temporal: str,
    *,
    deployments: Mapping[str, Any] | None = None,
    duties: bool = True,
    **settings: Any,
) -> AsyncIterator[Stack]:
    """Open everything, and close it in order. Without `duties` it is as if the worker process were down
    between the moment when evidence is recorded and the moment when somebody acts on it."""
    if deployments:
        _configure(home, deployments)
    chosen = Settings(home=home, temporal_address=temporal, sandbox_workers=2, **settings)
    upgrade(chosen.sql_url)
    services = Services.of(chosen)
    tenant = await ensure_tenant(services.database, chosen.tenant)
    key = await ensure_dev_key(services.database, tenant, home)
    client = services.temporal = await connect(chosen)
    await ensure_search_attributes(client)
    services.verifying = Verification.build(
        chosen, services.database, services.blobs, client, services.bifrost.cuts
    )
    cuts = services.bifrost.cuts
    workshop = await open_workshop(chosen, services.blobs, drift=DriftBlocks(services.database, cuts))
    crew = Crew.of(chosen, services.database, services.blobs, client, cuts, workshop)
    workers = crew.slow_workers()
    app = create_app(services)
    async with app.router.lifespan_context(app):
        running = [asyncio.create_task(worker.run()) for worker in workers]
        on_duty = [asyncio.create_task(duty) for duty in crew.duties()] if duties else []
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {key}"}
        # A test process holds a lot by now; a collection in the middle of a workflow task would look
        # like a deadlock of the workflow.
        gc.collect()
        gc.freeze()
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://wyrd.test", headers=headers, timeout=30
            ) as http:
                yield Stack(chosen, services, client, http, tenant, workshop, workers)
        finally:
            for duty in on_duty:
                duty.cancel()
            await asyncio.gather(*(worker.shutdown() for worker in workers))
            await asyncio.gather(*running, *on_duty, return_exceptions=True)
            await workshop.close()


async def until(look: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    """Wait for what only another process or thread brings about, and says to nobody."""
    async with asyncio.timeout(seconds):
        while True:
            if await look():
                return
            await asyncio.sleep(0.05)


def asserting(path: str, operator: Any, expected: Any = None, id: str = "rule") -> dict[str, Any]:
    check = {"kind": "assert", "path": path, "operator": operator, "expected": expected}
    return {"id": id, "statement": f"{path} {operator}", "check": check}


def coded(source: str, inputs: Mapping[str, str], id: str = "rule") -> dict[str, Any]:
    check = {"kind": "code", "entrypoint": "check", "source": {"inline": source}, "inputs": dict(inputs)}
    return {"id": id, "statement": "the code finds it right", "check": check}


VERDICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "outcome": {"type": "string", "enum": ["passed", "failed", "inconclusive"]},
        "reason": {"type": "string"},
        "citations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "slot": {"type": "string"},
                    "locator": {
                        "type": "object",
                        "properties": {"json_pointer": {"type": "string"}},
                        "required": ["json_pointer"],
                        "additionalProperties": False,
                    },
                },
                "required": ["slot", "locator"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["outcome", "reason", "citations"],
    "additionalProperties": False,
}


def agent_spec(template: str, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An inline Agent on the deployment `scripted`."""
    prompt: dict[str, Any] = {
        "provider": "openai",
        "model": "judge-1",
        "messages": [{"role": "user", "content": template}],
    }
    if schema is not None:
        prompt["response_format"] = dict(schema)
    return {"execution_route": {"kind": "wyrd_gateway", "deployment": "scripted"}, "prompt": prompt}


def judged(inputs: Mapping[str, str], template: str, id: str = "rule") -> dict[str, Any]:
    check = {"kind": "agent", "agent": agent_spec(template, VERDICT_SCHEMA), "inputs": dict(inputs)}
    return {"id": id, "statement": "the judge finds it right", "check": check}


def outcomes(document: Mapping[str, Any]) -> dict[str, str]:
    """Requirement outcomes by id, of a result or a status document."""
    result = document.get("result", document)
    return {one["id"]: one["outcome"] for one in result["outcome"]["requirements"]}


def requirement(document: Mapping[str, Any], id: str = "rule") -> dict[str, Any]:
    result = document.get("result", document)
    return next(one for one in result["outcome"]["requirements"] if one["id"] == id)


def step(document: Mapping[str, Any], id: str) -> dict[str, Any]:
    result = document.get("result", document)
    return next(one for one in result["outcome"]["steps"] if one["id"] == id)


def largest_payload(history: Any) -> int:
    """Bytes of the largest payload in a workflow's history."""
    sizes = [0]

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            data = value.get("data")
            if isinstance(data, str) and "metadata" in value:
                sizes.append(len(data) * 3 // 4)
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(json.loads(history.to_json()))
    return max(sizes)
