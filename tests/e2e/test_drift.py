"""Drift, end to end: baselines are fitted durably, windows of a schedule are judged once, each on its own."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.e2e.drifting import declare_data, hours_ago, psi, watch
from tests.e2e.stack import Stack
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR = timedelta(hours=1)


def numbers(count: int = 1000, shift: float = 0.0, seed: int = 0) -> list[float]:
    drawn = np.random.Generator(np.random.PCG64(seed)).normal(shift, 1.0, count)
    return [float(value) for value in drawn]


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def csv(name: str, values: list[Any]) -> bytes:
    return "\n".join([name, *map(str, values)]).encode() + b"\n"


async def baseline(stack: Stack, files: dict[str, bytes]) -> str:
    name = f"d{uuid7().replace('-', '')[-20:]}"
    await declare_data(stack, name, files)
    return name


async def test_a_window_that_drifts_fails_and_one_that_does_not_passes(stack: Stack) -> None:
    data = await baseline(stack, {"old.parquet": parquet(score=numbers())})
    watched = await watch(stack, psi(["score"], data), ["score"])
    assert (await watched.fitted())["status"] == "ready"
    await watched.scheduled()
    end = hours_ago(1)
    await watched.record([{"score": value} for value in numbers(200, seed=1)], end - 2 * HOUR)
    await watched.record([{"score": value} for value in numbers(200, 2.0, seed=2)], end - HOUR)
    await watched.backfill(end - HOUR, end)
    drifted, usual = await watched.judged(end - HOUR, end)
    assert (drifted["status"], drifted["result"]["outcome"]["verdict"]) == ("completed", "failed"), drifted
    assert usual["result"]["outcome"]["verdict"] == "passed", usual
