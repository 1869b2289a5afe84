"""The session of a conversation, from a run of our own client to the results that it leaves."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
import yaml

from bifrost.names import VERIFICATION_RESULTS
from tests.e2e.stack import Stack, asserting, card, sibling
from tests.servers import free_ports
from wyrd import WyrdClient, WyrdState, aio
from wyrd.verify import Execution

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def url(stack: Stack) -> AsyncIterator[str]:
    """Where the application of the stack listens."""
    app: Any = getattr(stack.http._transport, "app")  # noqa: B009
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


def desk(folder: Path) -> Path:
    """A Service whose bound Verifier takes one value."""
    rule = {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_truthy")]}
    bound = {"verified_by": [{"verifier": sibling("Verifier", "said")}]}
    file = folder / "desk.yaml"
    file.write_text(
        yaml.safe_dump_all([card("Service", "talking", bound), card("Verifier", "said", rule)]), "utf-8"
    )
    return file


async def test_results_of_a_run_in_a_session_say_which_and_others_say_none(
    stack: Stack, url: str, tmp_path: Path
) -> None:
    file = desk(tmp_path)
    key = stack.http.headers["authorization"].removeprefix("Bearer ")
    session, other = str(uuid.uuid4()), str(uuid.uuid4())
    expected: dict[str, str | None] = {}

    def work() -> None:
        state = WyrdState.declare(file, WyrdClient(url, key))
        for within in (session, None):
            with state.run(session_id=within) as run:
                expected[run.observe.verify("said", "yes").execution_id] = within
                submitted = run.observe.submit("said", "yes")
            assert isinstance(submitted, Execution)
            submitted.wait(60)
            expected[submitted.id] = within

    await asyncio.to_thread(work)
    async with aio.WyrdClient(url, key) as client:
        talking = await aio.WyrdState.declare(file, client)
        with talking.run(session_id=uuid.UUID(other)) as run:
            expected[(await run.observe.verify("said", "yes")).execution_id] = other
            again = await run.observe.submit("said", "yes")
        assert isinstance(again, aio.verify.Execution)
        await again.wait(60)
        expected[again.id] = other
    await stack.verification.records.settled()
    rows = await stack.services.bifrost.cuts.rows(stack.tenant, VERIFICATION_RESULTS)
    found = {row["execution_id"]: row["session_id"] for row in rows.to_pylist()}
    assert {name: found[name] for name in expected} == expected
    assert len(expected) == 6
