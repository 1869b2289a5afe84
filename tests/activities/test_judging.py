"""Judging pure blocks: small evidence at once, large beside the event loop, faults of ours undecided."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import activities.judging
from activities.context import ExecutionContext
from activities.judging import SMALL, TookTooLong, is_small, judge_all
from engine.ends import BlockDocument
from engine.judging import judge_pure
from store.caller import Tenant
from tests.activities.conftest import execution

LARGE = list(range(2 * SMALL))


def spec(count: int) -> dict[str, Any]:
    check = {"kind": "assert", "path": "inputs.a", "operator": "is_truthy"}
    requirements = [{"id": f"r{n}", "statement": "it is", "check": check} for n in range(count)]
    gated = {
        "id": "gated",
        "when": {"path": "inputs.a", "operator": "is_truthy"},
        "action": {"kind": "code", "entrypoint": "f", "source": {"inline": "def f(): ..."}, "inputs": {}},
    }
    return {"inputs": {"a": {"type": "json"}}, "steps": [gated], "requirements": requirements}


async def judge(context: ExecutionContext, blocks: list[int], seconds: float = 30) -> list[BlockDocument]:
    return await judge_all(
        context, blocks, "-|" + "-" * (len(context.bundle.plan.requirements)), seconds=seconds
    )


@pytest.mark.parametrize(
    ("value", "small"),
    [
        ([0] * 99, True),
        ([0] * 200, False),
        ([[0] * 60, [0] * 60], False),
        ({"a": "x" * 20_000}, True),
        ({"a": "x" * 200_000}, False),
        (10**4000, True),
        (None, True),
    ],
)
def test_evidence_is_weighed_by_values_and_length(value: Any, small: bool) -> None:
    assert is_small(value, 100) is small


async def test_large_evidence_is_judged_beside_the_loop_and_comes_out_the_same(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def watched(*arguments: Any) -> BlockDocument:
        threads.append(threading.current_thread())
        return judge_pure(*arguments)

    monkeypatch.setattr(activities.judging, "judge_pure", watched)
    small = await judge(execution(spec(3), tenant, a=[1]), [1, 2, 3])
    assert set(threads) == {threading.main_thread()}
    threads.clear()
    large = await judge(execution(spec(3), tenant, a=LARGE), [1, 2, 3])
    assert threading.main_thread() not in threads
    assert [end.letter for end in large] == [end.letter for end in small] == ["p", "p", "p"]


async def test_what_is_not_judged_in_time_is_inconclusive_and_the_loop_stays_free(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()

    def holding(plan: Any, block: int, reader: Any) -> BlockDocument:
        if block == 2:
            assert held.wait(30)
        return judge_pure(plan, block, reader)

    monkeypatch.setattr(activities.judging, "judge_pure", holding)
    context = execution(spec(3), tenant, a=LARGE)
    when = context.bundle.plan.shape.when_block(0)
    judging = asyncio.create_task(judge(context, [1, 2, 3, when], seconds=0.2))
    await asyncio.sleep(0)
    assert not judging.done(), "the loop waits for what is judged"
    with pytest.raises(TookTooLong) as late:
        await judging
    held.set()
    ends = late.value.ends
    assert [(end.block, end.letter) for end in ends] == [(1, "p"), (2, "i"), (3, "i"), (0, "f")]
    assert {end.document["reason_kind"] for end in ends[1:]} == {"timeout"}


@pytest.mark.parametrize("value", [[1], LARGE])
async def test_a_fault_of_ours_leaves_its_own_block_undecided(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    def faulty(plan: Any, block: int, reader: Any) -> BlockDocument:
        if block in (1, plan.shape.when_block(0)):
            raise RecursionError
        return judge_pure(plan, block, reader)

    monkeypatch.setattr(activities.judging, "judge_pure", faulty)
    context = execution(spec(2), tenant, a=value)
    ends = await judge(context, [1, 2, context.bundle.plan.shape.when_block(0)])
    assert [(end.block, end.letter) for end in ends] == [(1, "i"), (2, "p"), (0, "f")]
    assert ends[0].document["reason_kind"] == "internal"
