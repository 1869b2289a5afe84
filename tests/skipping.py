"""A real Temporal server on which waiting takes no time, for tests of timers and retries."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from activities.temporal import ensure_search_attributes


@contextlib.asynccontextmanager
async def time_skipping() -> AsyncIterator[Client]:
    """A client of a server of its own. Each workflow has a clock of its own, which jumps to its next
    timer or retry; activities run in real time."""
    environment = await WorkflowEnvironment.start_time_skipping_v2(
        data_converter=pydantic_data_converter,
        dev_server_existing_path=str(Path(sys.executable).parent / "temporal"),
        dev_server_extra_args=[
            *("--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true"),
            *("--log-level", "error"),
        ],
    )
    async with environment:
        await ensure_search_attributes(environment.client)
        yield environment.client
