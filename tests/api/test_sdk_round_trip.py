"""Our own client against the real application: a Service pulled with its files, and spans of its runs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

import wyrd
from api.services import Services
from bifrost.names import TRACE_SPANS
from store.settings import Settings
from tests.api.conftest import Person
from tests.servers import free_ports
from wyrd import aio
from wyrd.wire.ids import uuid7

DESK = Path(__file__).resolve().parents[2] / "examples" / "support_desk" / "support-desk.yaml"
SDK = str(Path(wyrd.__file__).resolve().parents[1])
SOURCE = b"import json\n" * 200_000


@pytest.fixture
async def url(app: FastAPI) -> AsyncIterator[str]:
    """Where the application listens."""
    port = free_ports(1)[0]
    config = uvicorn.Config(app, host="127.0.0.1", port=port, lifespan="off", log_level="warning", ws="none")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done()
        await asyncio.sleep(0.005)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await running


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"max_file_bytes": 4 * len(SOURCE)})


async def _declared_with_a_file(client: httpx.AsyncClient, admin: Person) -> None:
    """A Service `filed` whose one component is an Artifact Card with a file."""
    digest = base64.b64encode(hashlib.sha256(SOURCE).digest()).decode()
    code = {"kind": "Artifact", "name": "check-code", "version": "1.0.0", "space": "support"}

    def card(kind: str, name: str, spec: dict[str, Any], files: list[dict[str, Any]]) -> dict[str, Any]:
        metadata = {"name": name, "version": "1.0.0", "space": "support"}
        return {"apiVersion": "wyrd/v1", "kind": kind, "metadata": metadata, "spec": spec, "artifacts": files}

    file = {"relative_path": "src/check.py", "sha256": digest, "size_bytes": len(SOURCE)}
    service = {"components": [{"alias": name, "ref": {"sibling": code}} for name in ("code", "again")]}
    body = {
        "submissions": [
            card("Artifact", "check-code", {"artifact_kind": "code"}, [file]),
            card("Service", "filed", service, []),
        ]
    }
    headers = {**admin.headers, "idempotency-key": f"declare-{uuid7()}"}
    answer = await client.post("/v1/cards", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    (plan,) = answer.json()["upload_plans"]
    put_url = plan["entries"][0]["plan"]["data"]["put_url"]
    assert (await client.put(put_url, content=SOURCE, headers=admin.headers)).status_code == 200
    complete = f"/v1/cards/{plan['card_ref']['uid']}/complete"
    sent = {**admin.headers, "content-type": "application/json"}
    assert (await client.post(complete, content=b"null", headers=sent)).status_code == 200


async def test_a_service_is_pulled_with_its_files_and_loads_from_disk(
    url: str, client: httpx.AsyncClient, admin: Person, tmp_path: Path
) -> None:
    await _declared_with_a_file(client, admin)
    async with aio.WyrdClient(url, admin.key) as sdk:
        pulled = await aio.Cards(sdk).pull("support/Service/filed@1.0.0", tmp_path / "bundle")
        state = await aio.WyrdState.from_path(tmp_path / "bundle")
        assert state.service == await aio.Cards(sdk).get(pulled.root)
    assert (pulled.card_count, pulled.downloaded_artifact_count) == (2, 1)
    assert state.aliases == ("code", "again")
    (file,) = (tmp_path / "bundle").rglob("check.py")
    assert file.read_bytes() == SOURCE


APPLICATION = """
import sys
from opentelemetry import trace
from wyrd import WyrdState

state = WyrdState.declare(sys.argv[1], bundle_dir="bundle")
state.start_telemetry()
with state.run("agent") as run, trace.get_tracer("framework").start_as_current_span("answer"):
    pass
state.shutdown()
assert WyrdState.from_path("bundle").service == state.service
sys.stdout.write(f"{run.run_id} {run.card_uid}")
"""


async def test_spans_of_a_run_are_rows_about_its_card(
    url: str, services: Services, admin: Person, tmp_path: Path
) -> None:
    # In a process of its own: a tracer provider is one for a whole process, and that of the server has none.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        APPLICATION,
        str(DESK),
        cwd=tmp_path,
        env={"PYTHONPATH": SDK, "PATH": "", "WYRD_SERVER_URL": url, "WYRD_API_KEY": admin.key},
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    (row,) = (await services.bifrost.cuts.rows(admin.tenant, TRACE_SPANS)).to_pylist()
    assert (row["name"], row["service_name"]) == ("answer", "support-desk")
    assert told.decode().split() == [row["run_id"], row["card_uid"]]
