"""Records the histories of groups, for `tests.histories.record`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory

from activities.bundle import Bundles
from activities.groups import GroupActivities
from activities.relay import Relay
from activities.settler import Settler
from store.clock import shifted
from store.due_groups import Untold
from store.executions import find_execution
from tests.e2e.desks import Desk
from tests.e2e.stack import Stack, in_process
from tests.servers import temporal_server
from workflows.contracts import GroupClosed

Write = Callable[[Path, WorkflowHistory], None]


async def gathering(folder: Path, home: Path, temporal: str, write: Write) -> None:
    """A group that is told of more while it waits, and asks a database whose clock is behind; one whose
    owner is gone; one whose judgement the settler began, and which more is added to meanwhile."""
    async with in_process(home, temporal) as stack:
        desk = await Desk.of(stack, 2)
        with shifted(lambda: timedelta(seconds=-2)):
            await desk.turn("steady", 1)
            await asyncio.sleep(0.5)
            await desk.turn("steady", 2)
            await desk.quiet()
        write(folder / "group.json", await _ended(desk, "steady"))

        await desk.turn("dropped", 1)
        await stack.http.post(f"/v1/cards/by-uid/Service/{desk.uids['desk']}/deactivate")
        await desk.quiet()
        write(folder / "group_dropped.json", await _ended(desk, "dropped"))

        settled = await Desk.of(stack, 2)
        begun = 0

        async def settle(execution_id: str) -> None:
            nonlocal begun
            begun += 1
            if begun == 1:
                await _settle(stack, execution_id)
                await stack.ended(execution_id)
                await settled.turn("settled", 2)

        unpatched = _before_each_answer(settle)
        try:
            await settled.turn("settled", 1)
            await settled.quiet()
        finally:
            GroupActivities._answer = unpatched  # type: ignore[method-assign]
        write(folder / "group_settled.json", await _ended(settled, "settled"))


async def continuing(folder: Path, home: Path, write: Write) -> None:
    """A run that continues as new because of many signals, on a server that suggests it early: what the
    server suggested is part of the history."""
    with temporal_server(limit__historyCount__suggestContinueAsNew=30) as temporal:
        async with in_process(home, temporal) as stack:
            desk = await Desk.of(stack, 3)
            relay, handle = Relay(stack.services.database, stack.client), desk.workflow("continued")
            first: str | None = None
            for number in range(12):
                due_at = await desk.turn("continued", number)
                await relay._tell(Untold(stack.tenant, desk.binding.binding_id, "continued", due_at))
                first = first or (await handle.describe()).run_id
            await desk.quiet()
            await handle.result()
            begun = stack.client.get_workflow_handle(handle.id, run_id=first)
            write(folder / "group_continued.json", await begun.fetch_history())


async def _ended(desk: Desk, group_id: str) -> WorkflowHistory:
    handle = desk.workflow(group_id)
    await handle.result()
    return await handle.fetch_history()


async def _settle(stack: Stack, execution_id: str) -> None:
    database = stack.services.database
    row = await database.read(find_execution, stack.tenant, execution_id)
    await Settler(database, stack.client, Bundles(database)).settle(stack.tenant, row)


def _before_each_answer(what: Callable[[str], Awaitable[None]]) -> Any:
    """Do something between the record of a judgement and its start; what to put back afterwards."""
    answered = GroupActivities._answer

    async def late(self: GroupActivities, tenant: Any, row: Any) -> GroupClosed:
        answer = await answered(self, tenant, row)
        await what(row.execution_id)
        return answer

    GroupActivities._answer = late  # type: ignore[method-assign]
    return answered
