"""Recorded histories replay with today's workflow code, and stay small."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from activities.temporal import WORKFLOWS, workflow_runner
from tests.e2e.stack import largest_payload
from tests.workflows.changed_group import ChangedGroupWorkflow

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.json"))
PAYLOAD_CEILING = 64 * 1024


def replayer() -> Replayer:
    return Replayer(
        workflows=list(WORKFLOWS),
        data_converter=pydantic_data_converter,
        workflow_runner=workflow_runner(),
    )


def read(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(f"local/verification/{path.stem}", path.read_text(encoding="utf-8"))


def test_there_are_histories() -> None:
    assert {path.stem for path in HISTORIES} >= {
        "assertions",
        "many_blocks",
        "cancelled",
        "timed_out",
        "retried",
        "reacted",
        "delivered",
        "refused",
        "late",
        "window",
        "window_not_ready",
        "baseline",
        "baseline_failed",
        "group",
        "group_dropped",
        "group_settled",
        "group_continued",
    }


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    await replayer().replay_workflow(read(path))


@pytest.mark.parametrize("name", ["group", "group_dropped", "group_settled", "group_continued"])
async def test_p67_a_change_that_is_not_staged_does_not_replay(name: str) -> None:
    (path,) = [path for path in HISTORIES if path.stem == name]
    changed = Replayer(
        workflows=[ChangedGroupWorkflow],
        data_converter=pydantic_data_converter,
        workflow_runner=workflow_runner(),
    )
    with pytest.raises(NondeterminismError):
        await changed.replay_workflow(read(path))


def test_p67_a_history_of_a_group_that_continues_as_new_is_among_them() -> None:
    (path,) = [path for path in HISTORIES if path.stem == "group_continued"]
    assert read(path).events[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_no_payload_of_a_recorded_history_is_over_the_ceiling(path: Path) -> None:
    assert 0 < largest_payload(read(path)) <= PAYLOAD_CEILING


@pytest.mark.parametrize("seed", ["0", "1", "271828", "random"])
def test_p60_replays_do_not_depend_on_hash_order(seed: str) -> None:
    """Twelve or thirteen replays of the widest history under each hash seed: fifty in all."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, encoding="utf-8", timeout=100
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["13", "replays"]


async def _replay_often() -> None:
    history = read(next(path for path in HISTORIES if path.stem == "many_blocks"))
    for _ in range(13):
        await replayer().replay_workflow(history)
    sys.stdout.write("13 replays\n")


if __name__ == "__main__":
    asyncio.run(_replay_often())
    sys.stdout.flush()
    # Temporal's own threads may still hold the interpreter when it is taken down, which aborts it now
    # and then; a replay that fails has raised before this line.
    os._exit(0)
