"""One Temporal server for each process of the test run, and the server in-process for each module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from examples.scripted_provider import ScriptedProvider
from tests.e2e.stack import Stack, in_process
from tests.servers import temporal_server


@pytest.fixture(scope="session")
def temporal() -> Iterator[str]:
    """The address of a real Temporal server."""
    with temporal_server() as address:
        yield address


@pytest.fixture(scope="session", autouse=True)
def prompt_schedules() -> Iterator[None]:
    """Schedules follow their bindings within moments: many tests wait for one to be there or to pause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("activities.schedules.EVERY_SECONDS", 0.25)
        yield


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    """A loopback model provider; each test scripts its answers."""
    with ScriptedProvider() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(
    temporal: str, provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    """Everything, in this process; the deployment `scripted` is the loopback provider."""
    home: Path = tmp_path_factory.mktemp("home")
    deployments = {"scripted": {"adapter": "openai_compatible", "base_url": provider.url}}
    async with in_process(home, temporal, deployments=deployments) as opened:
        yield opened
