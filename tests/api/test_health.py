"""`healthz` says that the process is up, `readyz` names each part it depends on."""

from __future__ import annotations

import shutil
from typing import Any

import httpx
import pytest

from api.services import Services
from store.schema import upgrade
from tests.api.test_problems import assert_problem
from wyrd.errors import Code


class Temporal:
    """The one call that readiness makes of a Temporal client, answered without a server."""

    def __init__(self, healthy: bool) -> None:
        self.service_client = self
        self.healthy = healthy

    async def check_health(self) -> bool:
        return self.healthy


@pytest.fixture
async def ready(services: Services, tmp_path: Any) -> Services:
    """Services whose parts are all there, with a migrated database."""
    services.database.engine.dispose()
    for left in services.settings.home.glob("wyrd.db*"):
        left.unlink()
    upgrade(services.settings.sql_url)
    services.temporal = Temporal(healthy=True)  # type: ignore[assignment]
    return services


async def test_a_process_is_healthy_whatever_it_depends_on(client: httpx.AsyncClient) -> None:
    answer = await client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_it_is_ready_when_every_part_is(ready: Services, client: httpx.AsyncClient) -> None:
    answer = await client.get("/readyz")
    assert answer.json() == {
        "status": "ready",
        "checks": {"database": "ok", "blobs": "ok", "temporal": "ok"},
    }


async def test_each_part_that_fails_is_named(ready: Services, client: httpx.AsyncClient) -> None:
    ready.temporal = None
    shutil.rmtree(ready.settings.home / "blobs")
    document = assert_problem(await client.get("/readyz"), Code.SERVER_503_NOT_READY)
    checks = document["details"]["checks"]
    assert checks["database"] == "ok"
    assert checks["temporal"] == "not connected"
    assert "ENOENT" in checks["blobs"]
    assert str(ready.settings.home) not in str(document)


async def test_a_database_without_the_needed_schema_is_not_ready(
    services: Services, client: httpx.AsyncClient
) -> None:
    document = assert_problem(await client.get("/readyz"), Code.SERVER_503_NOT_READY)
    assert "schema" in document["details"]["checks"]["database"]
