"""What tests of workflows share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.workflows.dispatch_bench import Bench, dispatching


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with dispatching(tmp_path) as opened:
        yield opened
