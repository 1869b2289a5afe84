"""HTTP verify of one assertion, against a bare FastAPI route under the same server and client."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

import aiohttp

from benchmarks.stack import Target, stack


async def _latency(url: str, headers: dict[str, str], body: dict[str, Any], count: int) -> list[float]:
    data = json.dumps(body)
    async with aiohttp.ClientSession(headers=headers) as http:

        async def one() -> float:
            began = time.perf_counter()
            async with http.post(url, data=data) as answer:
                await answer.read()
                assert answer.status == 200, await answer.text()
            return time.perf_counter() - began

        for _ in range(50):
            await one()
        return [await one() for _ in range(count)]


def _bare_server() -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "benchmarks.bare_route:app", "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([*command, "--no-access-log", "--log-level", "error"], env=environment)
    for _ in range(600):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"http://127.0.0.1:{port}/bare"
        time.sleep(0.05)
    raise RuntimeError("the bare server does not answer")


def _round(target: Target, bare: str, count: int) -> tuple[float, float]:
    async def both() -> tuple[float, float]:
        ours = await _latency(f"{target.api}/v1/verification/execute", target.headers, target.body, count)
        floor = await _latency(bare, {"content-type": "application/json"}, target.body, count)
        return statistics.median(ours) * 1000, statistics.median(floor) * 1000

    return asyncio.run(both())


def measure(rounds: int = 5, count: int = 400) -> dict[str, Any]:
    """Medians over rounds of the two taken in turns, in milliseconds a request."""
    process, bare = _bare_server()
    try:
        with stack() as target:
            found = [_round(target, bare, count) for _ in range(rounds)]
    finally:
        process.kill()
        process.wait()
    ours = statistics.median(pair[0] for pair in found)
    floor = statistics.median(pair[1] for pair in found)
    return {"verify_ms": ours, "bare_route_ms": floor, "ratio": ours / floor}
