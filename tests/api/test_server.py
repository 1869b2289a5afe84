"""The same rules over a real socket, where bodies arrive in pieces and connections are kept."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from api.services import Services
from tests.api.conftest import Person
from tests.api.test_evidence import chunked, sha256
from tests.api.test_problems import assert_problem
from tests.servers import free_ports
from wyrd.errors import Code


@pytest.fixture(params=["httptools", "h11"])
async def served(request: pytest.FixtureRequest, app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    port = free_ports(1)[0]
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, http=request.param, lifespan="off", log_level="warning", ws="none"
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done()
        await asyncio.sleep(0.005)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        yield client
    server.should_exit = True
    await running


async def test_bodies_over_the_limit_are_refused_and_the_next_request_goes_on(
    served: httpx.AsyncClient, admin: Person
) -> None:
    headers = {**admin.headers, "content-type": "application/json"}
    for content in (b" " * 2_000_000, chunked(b" " * 2_000_000, 50_000)):
        answer = await served.post("/v1/verification/evidence", content=content, headers=headers)
        assert_problem(answer, Code.SPEC_413_PAYLOAD_TOO_LARGE)
    answer = await served.post("/v1/verification/evidence", json={"files": []}, headers=headers)
    assert answer.json() == {"uploads": []}


async def test_a_file_goes_up_in_pieces_and_comes_down_whole(
    served: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    data = secrets.token_bytes(1_000_000)
    body = {"files": [{"sha256": sha256(data), "size_bytes": len(data)}]}
    answer = await served.post("/v1/verification/evidence", json=body, headers=admin.headers)
    put_url = answer.json()["uploads"][0]["plan"]["data"]["put_url"]
    wrong = await served.put(put_url, content=chunked(data + b"more", 30_000), headers=admin.headers)
    assert_problem(wrong, Code.STORAGE_400_SIZE_MISMATCH)
    right = await served.put(put_url, content=chunked(data, 30_000), headers=admin.headers)
    assert right.status_code == 200
    got = await served.get(await services.blobs.get_url(admin.tenant, sha256(data), len(data)))
    assert got.content == data


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what the server does with its files; the test's own time-out ends it otherwise."""
    while not holds():  # noqa: ASYNC110 - another task's files give no event
        await asyncio.sleep(0.005)


async def test_an_upload_whose_client_goes_away_leaves_nothing(
    served: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    data = secrets.token_bytes(500_000)
    address = (await services.blobs.upload_plan(admin.tenant, sha256(data), len(data))).data.put_url
    _, writer = await asyncio.open_connection("127.0.0.1", served.base_url.port)
    head = f"PUT {address} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data[:100_000])
    await writer.drain()
    root = services.settings.home / "blobs"
    await until(lambda: bool(list(root.glob("*/incoming/*"))))
    writer.close()
    await writer.wait_closed()
    await until(lambda: not list(root.glob("*/incoming/*")))
    assert await services.blobs.size(admin.tenant, sha256(data)) is None
