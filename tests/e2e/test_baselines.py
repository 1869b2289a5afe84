"""Baselines, end to end: fitted once after declaration from the files of a Data Card, told on the Card."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.files import FileShelf
from engine.failure import BlockFailure, ReasonKind
from tests.e2e.drifting import (
    HOUR,
    Watch,
    data_card,
    data_of,
    hours_ago,
    numbers,
    parquet,
    psi,
    send_files,
    spc,
    watch,
)
from tests.e2e.stack import Stack, card, outcomes, sibling
from workflows import contracts
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

LABELS = ["1", "1.0", "other", "é", "e\u0301"] * 200
SCORES = numbers()


def csv(**columns: list[Any]) -> bytes:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    return "\n".join(lines).encode()


def jsonl(**columns: list[Any]) -> bytes:
    rows = zip(*columns.values(), strict=True)
    return b"\n".join(json.dumps(dict(zip(columns, row, strict=True))).encode() for row in rows)


async def fitted_to(stack: Stack, files: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """By requirement, the report of a window that repeats the baseline, after fitting to those files."""
    data = await data_of(stack, files)
    checks = [psi(["label"], data, categorical=["label"]), psi(["score"], data), spc(["score"], data)]
    found = await watch(stack, checks, ["label", "score"])
    await found.fitted()
    await found.scheduled()
    end = hours_ago(1)
    rows = zip(LABELS, SCORES, strict=True)
    await found.record([{"label": label, "score": score} for label, score in rows], end - HOUR)
    await found.backfill(end, end + timedelta(seconds=1))
    (ran,) = await found.judged(end)
    judged = {one["id"]: one["detail"]["drift"] for one in ran["result"]["outcome"]["requirements"]}
    return {id: next(iter(report["features"].values())) for id, report in judged.items()}


async def test_p25_every_format_of_data_fits_the_same_baseline(stack: Stack) -> None:
    """Labels stay as they are written, so "1" and "1.0" are two in a CSV file as well; control charts
    follow the order of the rows, from one file to the next."""
    first, second = slice(500), slice(500, None)
    files: list[dict[str, bytes]] = [
        {"a.parquet": parquet(label=LABELS, score=SCORES)},
        {"a.csv": csv(id=list(range(1000)), label=LABELS, score=SCORES)},
        {"a.jsonl": jsonl(label=LABELS, score=SCORES)},
        {
            "a.ndjson": jsonl(label=LABELS[first], score=SCORES[first]),
            "b.csv": csv(score=SCORES[second], label=LABELS[second]),
            "notes.txt": b"not data",
        },
    ]
    reports = await asyncio.gather(*(fitted_to(stack, one) for one in files))
    assert all(report == reports[0] for report in reports)
    labels, numbers, chart = (reports[0][id] for id in ("stays", "stays1", "stays2"))
    assert (labels["score"], numbers["score"]) == (0.0, 0.0)
    counts = {one["label"]: one["baseline_count"] for one in labels["evidence"]["bins"]}
    assert counts.pop(None) == 0
    assert counts == dict.fromkeys(("1", "1.0", "other", "é", "e\u0301"), 200)
    assert [one["baseline_count"] for one in numbers["evidence"]["bins"]] == [200] * 5
    means = [statistics.fmean(SCORES[start : start + 5]) for start in range(0, 1000, 5)]
    assert chart["evidence"]["mean"] == pytest.approx(statistics.fmean(means), abs=1e-12)
    assert chart["evidence"]["means"] == pytest.approx(means[:100], abs=1e-12)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"a.txt": b"1"}, "has no file that ends in"),
        ({"a.csv": csv(other=[1] * 100)}, "a.csv has no column score"),
        ({"a.csv": csv(score=[1] * 100 + ["x"])}, "invalid value 'x'"),
        ({"a.csv": b"score,id\n1,1\n,2\n"}, "row 2 holds no finite number for score"),
        ({"a.parquet": parquet(score=[1.0, None])}, "row 2 holds no finite number for score"),
        ({"a.parquet": b"PAR1 and no more"}, "a.parquet cannot be read"),
        ({"a.jsonl": b'{"score": 1}\n{"score": NaN}'}, "line 2 of a.jsonl"),
        ({"a.jsonl": b'{"score": 1}\n\n{"other": 1}'}, "line 3 of a.jsonl lacks score"),
        ({"a.jsonl": b'{"score": null}'}, "row 1 holds no finite number for score"),
        ({"a.csv": b"score\n"}, "the baseline has no rows"),
    ],
)
async def test_p26_data_that_cannot_be_a_baseline_say_why_on_the_card_and_in_the_window(
    stack: Stack, files: dict[str, bytes], why: str
) -> None:
    found = await watch(stack, psi(["score"], await data_of(stack, files)), ["score"])
    told = await found.fitted("failed")
    assert why in told["error"]
    assert told["requirements"]["stays"]["error"] in told["error"]
    await found.scheduled()
    end = hours_ago(1)
    await found.backfill(end, end + timedelta(seconds=1))
    (ran,) = await found.judged(end)
    assert ran["status"] == "errored"
    assert ran["error"]["code"] == "WYRD_VERIFICATION_409_BASELINE_NOT_READY"
    assert why in ran["error"]["message"]
    # It has no workflow of its own: the one that found it out is named, and it is there.
    described = await stack.client.get_workflow_handle(ran["workflow_id"]).describe()
    assert described.workflow_type == contracts.SCHEDULED_WINDOW_WORKFLOW


async def test_an_errored_window_is_opened_again_once_the_baseline_is_there(stack: Stack) -> None:
    """The data may arrive after the declaration; windows until then are errors that backfill mends."""
    name, files = f"late-{uuid7()[-12:]}", {"a.parquet": parquet(score=numbers())}
    receipt, found = await _declared_together(stack, name, files)
    assert (await found.baseline() or {})["status"] == "fitting"
    await found.scheduled()
    end = hours_ago(1)
    await found.record([{"score": value} for value in numbers(150, seed=5)], end - HOUR)
    await found.backfill(end, end + timedelta(seconds=1))
    (early,) = await found.judged(end)
    assert early["error"]["code"] == "WYRD_VERIFICATION_409_BASELINE_NOT_READY"
    assert "still being fitted" in early["error"]["message"]

    await send_files(stack, receipt, files)
    await found.fitted()
    await found.backfill(end, end + timedelta(seconds=1))
    found_at = await found.until(lambda status: status["slots"][0]["verdict"] is not None)
    assert [slot["status"] for slot in found_at["slots"]] == ["completed", "errored"]
    assert outcomes(await stack.status(found_at["slots"][0]["execution_id"])) == {"stays": "passed"}


async def _declared_together(
    stack: Stack, name: str, files: dict[str, bytes]
) -> tuple[dict[str, Any], Watch]:
    """Data, Verifier and Service in one declaration, before the files are sent."""
    check = psi(["score"], name)
    check["signal"]["baseline_ref"] = sibling("Data", name)
    spec = {
        "inputs": {"samples": {"type": "samples", "features": ["score"]}},
        "requirements": [{"id": "stays", "statement": "it stays", "check": check}],
    }
    entry = {
        "verifier": sibling("Verifier", f"{name}-v"),
        "runs_on": {"kind": "schedule", "cron": "0 * * * *"},
    }
    submissions = [
        data_card(name, files),
        card("Verifier", f"{name}-v", spec),
        card("Service", f"{name}-desk", {"verified_by": [entry]}),
    ]
    answer = await stack.http.post(
        "/v1/cards", json={"submissions": submissions}, headers={"idempotency-key": f"declare-{uuid7()}"}
    )
    assert answer.status_code < 300, answer.text
    receipt: dict[str, Any] = answer.json()
    uids = {one["card_ref"]["name"]: one["card_ref"]["uid"] for one in receipt["outcomes"]}
    view = await stack.http.get(f"/v1/cards/by-uid/Service/{uids[f'{name}-desk']}")
    (binding_id,) = view.json()["card"]["status"]["verification"]["binding_ids"]
    return receipt, Watch(stack, uids, f"{name}-v", f"{name}-desk", binding_id)


async def test_p29_a_threshold_that_cries_wolf_is_told_with_the_baseline(stack: Stack) -> None:
    labels = ["common"] * 9600 + [f"rare{n}" for n in range(4)] * 100
    data = await data_of(stack, {"a.parquet": parquet(label=labels)})
    found = await watch(
        stack, psi(["label"], data, {"kind": "Fixed", "value": 0.2}, categorical=["label"]), ["label"]
    )
    told = await found.fitted()
    rates = told["requirements"]["stays"]["false_alarms"]["label"]
    assert abs(rates["100"] - 0.59) <= 0.03
    assert abs(rates["200"] - 0.15) <= 0.03
    assert rates["500"] < 0.02
    (warning,) = told["warnings"]
    assert warning.startswith("stays: label: ")
    assert told["requirements"]["stays"]["fitted_at"] is not None


async def test_a_verifier_that_nothing_binds_is_fitted_too_and_only_once(stack: Stack) -> None:
    data = await data_of(stack, {"a.parquet": parquet(score=numbers(100))})
    name = f"alone-{uuid7()[-12:]}"
    spec = {
        "inputs": {"samples": {"type": "samples", "features": ["score"]}},
        "requirements": [{"id": "chart", "statement": "it stays", "check": spc(["score"], data)}],
    }
    uids = await stack.declare(card("Verifier", name, spec))
    alone = Watch(stack, uids, name, "", "")
    first = await alone.fitted()
    assert first["requirements"]["chart"]["false_alarms"] == {}
    assert (await stack.declare(card("Verifier", name, spec))) == uids
    assert await alone.baseline() == first


async def test_storage_that_is_away_delays_a_fit_and_does_not_fail_it(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing of the data; data that were changed in it do."""
    opened = FileShelf.open
    faults = [BlockFailure(ReasonKind.EVIDENCE_UNREADABLE, "the storage is away", retryable=True)]

    @asynccontextmanager
    async def away(self: FileShelf, *arguments: Any) -> AsyncIterator[Path]:
        if faults:
            raise faults.pop()
        async with opened(self, *arguments) as path:
            yield path

    monkeypatch.setattr(FileShelf, "open", away)
    data = await data_of(stack, {"a.parquet": parquet(score=numbers(100))})
    found = await watch(stack, psi(["score"], data), ["score"])
    assert (await found.fitted())["status"] == "ready"
    assert faults == []
    faults.append(BlockFailure(ReasonKind.DIGEST_MISMATCH, "the stored file has another digest"))
    other = await watch(stack, psi(["score"], data), ["score"])
    assert (await other.fitted("failed"))["error"] == "stays: the stored file has another digest"
    assert faults == []
