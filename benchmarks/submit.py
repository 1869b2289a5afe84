"""submit→result over HTTP, against a bare workflow with one local activity on the same server."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any

import aiohttp
from temporalio.client import Client
from temporalio.worker import Worker

from benchmarks.bare_workflow import BareWorkflow, nothing
from benchmarks.stack import Target, stack
from wyrd.wire.ids import uuid7

IN_FLIGHT = 16
POLL_SECONDS = 0.004


async def _bare(address: str, count: int) -> dict[str, float]:
    client = await Client.connect(address)
    async with Worker(client, task_queue="bench-bare", workflows=[BareWorkflow], activities=[nothing]):

        async def one() -> float:
            began = time.perf_counter()
            handle = await client.start_workflow(
                BareWorkflow.run, "x", id=uuid7(), task_queue="bench-bare", request_eager_start=True
            )
            await handle.result()
            return time.perf_counter() - began

        for _ in range(5):
            await one()
        latencies = [await one() for _ in range(count // 4)]
        return {"p50_ms": statistics.median(latencies) * 1000, "per_second": await _rate(one, count)}


async def ours(target: Target, count: int) -> dict[str, float]:
    async with aiohttp.ClientSession(target.api, headers=target.headers) as http:

        async def one() -> float:
            began = time.perf_counter()
            async with http.post(
                "/v1/verification/enqueue",
                data=json.dumps(target.body),
                headers={"idempotency-key": f"verification-submit-{uuid7()}"},
            ) as answer:
                assert answer.status == 202, await answer.text()
                place = answer.headers["location"]
            while True:
                async with http.get(place) as answer:
                    status: dict[str, Any] = await answer.json()
                if "result" in status:
                    return time.perf_counter() - began
                await asyncio.sleep(POLL_SECONDS)

        async def rate() -> float:
            """Every execution is asked for once it has had its time, as `result()` asks once of a workflow;
            asking often while all of them are under way would measure the asking."""
            places: list[str] = []

            async def submit() -> None:
                async with http.post(
                    "/v1/verification/enqueue",
                    data=json.dumps(target.body),
                    headers={"idempotency-key": f"verification-submit-{uuid7()}"},
                ) as answer:
                    places.append(answer.headers["location"])

            async def result(place: str) -> None:
                while True:
                    async with http.get(place) as answer:
                        if "result" in await answer.json():
                            return
                    await asyncio.sleep(POLL_SECONDS)

            began = time.perf_counter()
            await _rate(submit, count)
            for place in places:
                await result(place)
            return count / (time.perf_counter() - began)

        for _ in range(5):
            await one()
        latencies = [await one() for _ in range(count // 4)]
        return {
            "p50_ms": statistics.median(latencies) * 1000,
            "per_second": await rate(),
        }


async def _rate(one: Any, count: int) -> float:
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await one()

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    return count / (time.perf_counter() - began)


def measure(rounds: int = 3, count: int = 200) -> dict[str, Any]:
    """Medians of several rounds, the two taken in turns on one server."""
    with stack() as target:

        async def all_rounds() -> list[tuple[dict[str, float], dict[str, float]]]:
            return [(await ours(target, count), await _bare(target.temporal, count)) for _ in range(rounds)]

        found = asyncio.run(all_rounds())
    ours = {name: statistics.median(pair[0][name] for pair in found) for name in ("p50_ms", "per_second")}
    bare = {name: statistics.median(pair[1][name] for pair in found) for name in ("p50_ms", "per_second")}
    return {
        "submit_result_p50_ms": ours["p50_ms"],
        "bare_p50_ms": bare["p50_ms"],
        "executions_per_second": ours["per_second"],
        "bare_per_second": bare["per_second"],
        "rate_ratio": ours["per_second"] / bare["per_second"],
    }
