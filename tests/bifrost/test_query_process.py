"""Query processes that are killed while they start."""

from __future__ import annotations

from typing import Any

import pytest

from bifrost.oracle.process import Lost, QueryProcess


async def test_a_process_that_is_killed_before_it_is_ready_is_lost_and_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its death may be known to the event loop already: then there is nothing left to kill."""
    receive = QueryProcess.receive

    async def killed(self: QueryProcess) -> tuple[int, Any]:
        self._process.kill()
        await self._process.wait()
        return await receive(self)

    monkeypatch.setattr(QueryProcess, "receive", killed)
    starting = QueryProcess.start()
    with pytest.raises(Lost):
        await starting
