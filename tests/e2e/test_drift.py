"""Drift, end to end: windows of a schedule are judged once, each on its own, by every method."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from examples.scripted_provider import ScriptedProvider
from store.clock import shifted
from tests.e2e.drifting import (
    HOUR,
    Watch,
    custom,
    data_of,
    hours_ago,
    numbers,
    parquet,
    psi,
    sample_rows,
    spc,
    watch,
)
from tests.e2e.stack import Stack, card, in_process, outcomes, requirement, sibling
from tests.receivers import Receiver, plain, receiving
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hook() -> AsyncIterator[Receiver]:
    async with receiving(plain) as receiver:
        yield receiver


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(
    temporal: str, provider: ScriptedProvider, hook: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    home = tmp_path_factory.mktemp("home")
    async with in_process(
        home, temporal, window_margin_seconds=0.5, operator_destinations=("127.0.0.1",)
    ) as opened:
        yield opened


async def watched(stack: Stack, check: Any, features: list[str] | None = None, **more: Any) -> Watch:
    found = await watch(stack, check, features or ["score"], **more)
    await found.scheduled()
    return found


def scores(values: list[float]) -> list[dict[str, float]]:
    return [{"score": value} for value in values]


async def queried(stack: Stack, sql: str) -> list[Any]:
    answer = await stack.http.post("/v1/query", json={"sql": sql})
    assert answer.status_code == 200, answer.text
    rows: list[Any] = answer.json()["rows"]
    return rows


async def test_a_window_that_drifts_fails_and_one_that_does_not_passes(stack: Stack, hook: Receiver) -> None:
    data = await data_of(stack, {"old.parquet": parquet(score=numbers())})
    operator = {
        "kind": "http",
        "method": "post",
        "url": f"{hook.url}/drift",
        "body": {"id": "{{execution_id}}"},
    }
    found = await watched(stack, psi(["score"], data), operators=[operator])
    await found.fitted()
    end = hours_ago(1)
    await found.record(scores(numbers(200, seed=1)), end - 2 * HOUR)
    await found.record(scores(numbers(200, 2.0, seed=2)), end - HOUR)
    await found.backfill(end - HOUR, end)
    drifted, usual = await found.judged(end - HOUR, end)

    assert [one["status"] for one in (drifted, usual)] == ["completed", "completed"]
    assert [outcomes(one) for one in (drifted, usual)] == [{"stays": "failed"}, {"stays": "passed"}]
    failed = requirement(drifted, "stays")
    report = failed["detail"]["drift"]
    assert (report["method"], report["verdict"], list(report["features"])) == ("Psi", "Drift", ["score"])
    told = report["features"]["score"]
    assert told["score"] > told["threshold"] == 0.25
    assert sum(one["window_count"] for one in told["evidence"]["bins"]) == 200
    window = {"start": (end - HOUR).isoformat(), "end": end.isoformat()}
    assert failed["provenance"] == {"kind": "drift", "window": window}
    result = drifted["result"]
    assert (result["run_id"], result["source"], result["binding_id"]) == (None, "schedule", found.binding_id)
    assert drifted["owner_card_uid"] == found.uids[found.service]

    (dispatch,) = drifted["dispatches"]
    assert usual.get("dispatches", []) == []
    handle = stack.client.get_workflow_handle(dispatch["workflow_id"])
    await asyncio.wait_for(handle.result(), 30)
    pages = [one.json for one in hook.received if one.target == "/drift"]
    assert pages == [{"id": drifted["execution_id"]}]

    (row,) = await queried(
        stack,
        "SELECT verdict, source, window_start, window_end FROM vala.verification.results"
        f" WHERE execution_id = '{drifted['execution_id']}'",
    )
    assert row[:2] == ["failed", "schedule"]
    assert [datetime.fromisoformat(moment) for moment in row[2:]] == [end - HOUR, end]


async def test_control_charts_follow_the_order_of_observation(stack: Stack) -> None:
    usual = numbers(200)
    lines = "\n".join(map(str, usual))
    found = await watched(
        stack, spc(["score"], await data_of(stack, {"old.csv": f"score\n{lines}".encode()}))
    )
    await found.fitted()
    end = hours_ago(1)
    # In ascending order every subgroup is narrow, and the first and the last lie outside.
    await found.record(scores(sorted(usual[:50])), end - HOUR)
    await found.record(scores(usual[:50]), end - 2 * HOUR)
    await found.record(scores(usual[:51]), end - 3 * HOUR)
    await found.backfill(end - 2 * HOUR, end)
    ordered, mixed, partial = await found.judged(end, end - HOUR, end - 2 * HOUR)
    assert [outcomes(one)["stays"] for one in (ordered, mixed, partial)] == [
        "failed",
        "passed",
        "inconclusive",
    ]
    assert "subgroup has 1 of 5" in requirement(partial, "stays")["reason"]


async def test_p12_p26_a_custom_metric_needs_no_baseline_and_an_empty_window_is_inconclusive(
    stack: Stack,
) -> None:
    found = await watched(stack, custom("score", 0.5, 0.25))
    assert await found.baseline() is None
    end = hours_ago(1)
    await found.record(scores([0.5, 1.0]), end - HOUR)
    await found.record(scores([0.5, 1.25]), end - 2 * HOUR)
    await found.backfill(end - 2 * HOUR, end)
    equal, above, empty = await found.judged(end, end - HOUR, end - 2 * HOUR)
    assert [outcomes(one)["stays"] for one in (equal, above, empty)] == ["passed", "failed", "inconclusive"]
    assert requirement(equal, "stays")["detail"]["drift"]["features"]["score"]["score"] == 0.25
    assert requirement(empty, "stays")["detail"]["drift"]["features"]["score"]["score"] is None


async def test_p26_samples_of_two_features_are_whole_records(stack: Stack) -> None:
    """A record that lacks a feature makes the report inconclusive, with its name."""
    data = await data_of(stack, {"old.parquet": parquet(a=numbers(), kind=["x", "y"] * 500)})
    check = psi(["a", "kind"], data, categorical=["kind"])
    found = await watched(stack, check, ["a", "kind"])
    await found.fitted()
    end = hours_ago(1)
    good = [{"a": value, "kind": "xy"[n % 2]} for n, value in enumerate(numbers(200, seed=4))]
    await found.record(good, end - HOUR)
    await found.record([*good, {"a": 1.0}], end - 2 * HOUR)
    await found.record([*good, {"a": 1.0, "kind": None}], end - 3 * HOUR)
    await found.backfill(end - 2 * HOUR, end)
    whole, lacking, null = await found.judged(end, end - HOUR, end - 2 * HOUR)
    assert outcomes(whole) == {"stays": "passed"}
    for one, why in ((lacking, "lacks the feature kind"), (null, "holds null for kind")):
        told = requirement(one, "stays")
        assert (told["outcome"], told["detail"]["drift"]["features"]) == ("inconclusive", {})
        assert why in told["reason"]


async def test_a_window_is_judged_once_whoever_opens_it(stack: Stack) -> None:
    found = await watched(stack, custom("score", 0.0, 1.0))
    end = hours_ago(1)
    await found.record(scores([5.0]), end - HOUR)
    for _ in range(3):
        await found.backfill(end, end + timedelta(seconds=1))
    (first,) = await found.judged(end)
    await found.record(scores([0.0] * 100), end - HOUR / 2)
    await found.backfill(end, end + timedelta(seconds=1))
    await found.backfill(end - HOUR, end - HOUR + timedelta(seconds=1))
    await found.judged(end - HOUR)
    slots = [one for one in (await found.status())["slots"] if one["window_end"] == end.isoformat()]
    assert [one["execution_id"] for one in slots] == [first["execution_id"]]
    assert outcomes(first) == {"stays": "failed"}


async def test_running_now_judges_the_last_window_that_is_complete(stack: Stack) -> None:
    found = await watched(stack, custom("score", 0.0, 1.0))
    now = datetime.now(UTC)
    end = hours_ago(0, now)
    await found.record(scores([5.0]), end - HOUR / 2)
    answer = await stack.http.post(f"/v1/verification/bindings/{found.binding_id}/run-now")
    assert answer.status_code == 202, answer.text
    (ran,) = await found.judged(end)
    assert outcomes(ran) == {"stays": "failed"}
    status = await found.status()
    assert status["last_execution_id"] == ran["execution_id"]
    assert status["slots"][0]["verdict"] == "failed"


async def test_samples_are_in_the_window_they_came_in_by_the_servers_clock(stack: Stack) -> None:
    """From the batch route on, whatever time the sample claims for itself."""
    found = await watched(stack, custom("score", 0.0, 1.0), cron="* * * * *")
    rows = sample_rows({"score": 7.0}, found.uids[found.service], datetime(2020, 1, 1, tzinfo=UTC))
    answer = await stack.http.post(
        "/v1/bifrost/tables/vala.drift/observations/batches", json={"batch_id": uuid7(), "rows": rows}
    )
    assert answer.status_code < 300, answer.text
    (row,) = await queried(
        stack,
        f"SELECT wyrd_ingested_at FROM vala.drift.observations WHERE record_id = '{rows[0]['record_id']}'",
    )
    came = datetime.fromisoformat(row[0])
    end = came.replace(second=0, microsecond=0) + timedelta(minutes=1)
    with shifted(lambda: timedelta(minutes=2)):
        for boundary in (end, end + timedelta(minutes=1)):
            await found.slot(boundary)
    empty, full = await found.judged(end, end + timedelta(minutes=1))
    assert [outcomes(one) for one in (empty, full)] == [{"stays": "inconclusive"}, {"stays": "failed"}]
    assert requirement(full, "stays")["detail"]["drift"]["features"]["score"]["score"] == 7.0


async def test_windows_are_neither_verified_nor_enqueued(stack: Stack) -> None:
    found = await watched(stack, custom("score", 0.0, 1.0))
    body = {
        "verifier_card_uid": found.uids[found.verifier],
        "card_uid": found.uids[found.service],
        "inputs": {},
    }
    for answer in (await stack.http.post("/v1/verification/execute", json=body), await stack.enqueue(body)):
        refused = (answer.status_code, answer.json()["code"])
        assert refused == (422, "WYRD_VERIFICATION_422_INPUT_UNSUPPORTED")
    assert (await found.status())["last_execution_id"] is None


async def test_a_baseline_belongs_to_its_exact_version_of_the_verifier(stack: Stack) -> None:
    """The same window drifts from one version's data and not from the other's."""
    name = f"w{uuid7().replace('-', '')[-20:]}"
    data = [await data_of(stack, {"a.parquet": parquet(score=numbers(1000, shift))}) for shift in (0.0, 3.0)]
    end, verdicts = hours_ago(1), []
    for one, version in zip(data, ("1.0.0", "1.1.0"), strict=True):
        spec = {
            "inputs": {"samples": {"type": "samples", "features": ["score"]}},
            "requirements": [{"id": "stays", "statement": "it stays", "check": psi(["score"], one)}],
        }
        runs_on = {"kind": "schedule", "cron": "0 * * * *"}
        entry = {"verifier": sibling("Verifier", name, version), "runs_on": runs_on}
        desk = f"{name}-{version.replace('.', '')}"
        uids = await stack.declare(
            card("Verifier", name, spec, version), card("Service", desk, {"verified_by": [entry]})
        )
        view = await stack.http.get(f"/v1/cards/by-uid/Service/{uids[desk]}")
        (binding_id,) = view.json()["card"]["status"]["verification"]["binding_ids"]
        found = Watch(stack, uids, name, desk, binding_id)
        await found.fitted()
        await found.record(scores(numbers(200, seed=9)), end - HOUR)
        await found.slot(end)
        (ran,) = await found.judged(end)
        verdicts.append(outcomes(ran)["stays"])
    assert verdicts == ["passed", "failed"]
