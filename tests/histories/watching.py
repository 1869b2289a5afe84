"""Records the histories of scheduled windows and of fitted baselines, for `tests.histories.record`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from temporalio.client import WorkflowHistory

from tests.e2e.drifting import custom, data_of, numbers, parquet, psi, watch
from tests.e2e.stack import in_process

Write = Callable[[Path, WorkflowHistory], None]
_MARGIN = 2.0


async def watching(folder: Path, home: Path, temporal: str, write: Write) -> None:
    """A window that is waited for and judged, one whose baseline could not be fitted, and the fit that
    failed and one that did not."""
    async with in_process(home, temporal, window_margin_seconds=60.0 + _MARGIN) as stack:
        found = await watch(stack, custom("score", 0.0, 1.0), ["score"], cron="* * * * *")
        await found.scheduled()
        # Its window ended up to a minute ago, so that the margin is not over.
        boundary = datetime.now(UTC).replace(second=0, microsecond=0)
        await found.record([{"score": 5.0}], boundary - timedelta(seconds=30))
        write(folder / "window.json", await found.slot(boundary))

        failing = await data_of(stack, {"old.csv": b"score\nx\n"})
        unfit = await watch(stack, psi(["score"], failing), ["score"])
        await unfit.fitted("failed")
        await unfit.scheduled()
        hour = boundary.replace(minute=0)
        write(folder / "window_not_ready.json", await unfit.slot(hour))

        data = await data_of(stack, {"old.parquet": parquet(score=numbers())})
        fit = await watch(stack, psi(["score"], data), ["score"])
        await fit.fitted()
        for name, one in (("baseline_failed", unfit), ("baseline", fit)):
            workflow_id = f"{stack.tenant.slug}/baseline/{one.uids[one.verifier]}"
            handle = stack.client.get_workflow_handle(workflow_id)
            await handle.result()
            write(folder / f"{name}.json", await handle.fetch_history())
