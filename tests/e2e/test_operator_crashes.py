"""kill −9 in the middle of a delivery: the next worker sends the same again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import asserting, card, sibling
from tests.e2e.test_crashes import Up, eventually, started
from tests.receivers import HANG, Receiver, receiving

pytestmark = pytest.mark.timeout(300)

SPEC = {"inputs": {"n": {"type": "json"}}, "requirements": [asserting("inputs.n", "equals", "right")]}


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def up(hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Up]:
    monkeypatch.setenv("WYRD_OPERATOR_DESTINATIONS", "127.0.0.1")
    with ExitStack() as opened:
        yield await asyncio.to_thread(opened.enter_context, started(tmp_path))
        await asyncio.to_thread(opened.close)


def bound(up: Up, hook: Receiver) -> dict[str, str]:
    operator = {
        "kind": "http",
        "method": "post",
        "url": f"{hook.url}/hook",
        "body": {"of": "{{execution_id}}"},
    }
    entry = {"verifier": sibling("Verifier", "told"), "on_failure": [operator]}
    uids = up.declare(card("Verifier", "told", SPEC), card("Service", "told-desk", {"verified_by": [entry]}))
    return {"verifier_card_uid": uids["told"], "card_uid": uids["told-desk"]}


def delivered(up: Up, execution_id: str) -> dict[str, Any]:
    """The one dispatch of an execution, once it has been delivered."""

    def once() -> dict[str, Any] | None:
        (dispatch,) = up.ended(execution_id)["dispatches"]
        assert dispatch["status"] != "failed", dispatch
        return dispatch if dispatch["status"] == "delivered" else None

    return eventually(once, f"the delivery of {execution_id}", 120)


async def test_p65_a_worker_killed_in_a_delivery_is_followed_by_one_that_sends_the_same(
    up: Up, hook: Receiver
) -> None:
    hook.next(HANG)
    target = await asyncio.to_thread(bound, up, hook)
    execution_id = await asyncio.to_thread(up.submit, target, n=1)
    await hook.arrived(1)
    await asyncio.to_thread(up.kill, "worker.py")
    dispatch = await asyncio.to_thread(delivered, up, execution_id)
    assert [(one["number"], one["status_code"]) for one in dispatch["attempts"]] == [(1, None), (2, 200)]
    one, two = hook.about(dispatch["dispatch_id"])
    assert (one.method, one.target, one.body) == (two.method, two.target, two.body)
    assert [one.headers["wyrd-attempt"], two.headers["wyrd-attempt"]] == ["1", "2"]
