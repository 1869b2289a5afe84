"""Drift reports as pictures: of which requirement, for whom, and what a browser may do with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.e2e.drifting import HOUR, Watch, custom, data_of, hours_ago, numbers, parquet, psi, spc, watch
from tests.e2e.stack import Stack, asserting
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "it stays </title><script>alert(1)</script> & \x07 as it was"


async def judged(stack: Stack, checks: list[dict[str, Any]]) -> tuple[Watch, str]:
    found = await watch(stack, checks, ["score"], statement=HOSTILE)
    await found.fitted()
    await found.scheduled()
    end = hours_ago(1)
    await found.record([{"score": value} for value in numbers(200, 1.0, seed=8)], end - HOUR)
    await found.backfill(end, end + timedelta(seconds=1))
    (ran,) = await found.judged(end)
    return found, ran["execution_id"]


def path(execution_id: str) -> str:
    return f"/v1/verification/executions/{execution_id}/drift.svg"


async def test_every_drift_requirement_is_drawn_and_the_first_by_itself(stack: Stack) -> None:
    data = await data_of(stack, {"old.parquet": parquet(score=numbers())})
    checks = [psi(["score"], data), spc(["score"], data), custom("score", 0.0, 0.5)]
    _, execution_id = await judged(stack, checks)
    drawn = {}
    for chosen in (None, "stays", "stays1", "stays2"):
        query = {} if chosen is None else {"requirement": chosen}
        answer = await stack.http.get(path(execution_id), params=query)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "image/svg+xml"
        policy = answer.headers["content-security-policy"]
        assert policy == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"
        root = ElementTree.fromstring(answer.content)
        assert root.tag == f"{SVG}svg"
        assert [one for one in root.iter() if one.tag.endswith(("script", "image", "a", "use"))] == []
        assert any("as it was" in (text.text or "") for text in root.iter(f"{SVG}text"))
        drawn[chosen] = answer.content
    assert drawn[None] == drawn["stays"]
    assert len(set(drawn.values())) == 3
    unknown = await stack.http.get(path(execution_id), params={"requirement": "other"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "WYRD_SPEC_404_NOT_FOUND")
    assert "stays, stays1, stays2" in unknown.json()["detail"]


async def test_an_execution_without_a_drift_report_says_so(stack: Stack) -> None:
    spec = {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_truthy")]}
    execution_id = await stack.submit(await stack.bind(spec), a=1)
    await stack.ended(execution_id)
    answer = await stack.http.get(path(execution_id))
    assert (answer.status_code, answer.json()["code"]) == (422, "WYRD_VERIFICATION_422_INPUT_UNSUPPORTED")
    for absent in (uuid7(), "not-an-id"):
        answer = await stack.http.get(path(absent))
        assert (answer.status_code, answer.json()["code"]) == (
            404,
            "WYRD_VERIFICATION_404_EXECUTION_NOT_FOUND",
        )


async def test_a_window_that_nothing_could_be_judged_of_is_still_a_picture(stack: Stack) -> None:
    found = await watch(stack, custom("score", 0.0, 0.5), ["score"])
    await found.scheduled()
    end = hours_ago(1)
    await found.record([{"score": None}], end - HOUR)
    await found.backfill(end, end + timedelta(seconds=1))
    (ran,) = await found.judged(end)
    answer = await stack.http.get(path(ran["execution_id"]))
    assert answer.status_code == 200
    assert b"inconclusive" in answer.content
