"""`wyrd bindings …`, `wyrd executions show --plot` and what `wyrd declare` says of baselines: the command
line over a socket, against everything that runs behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import pytest_asyncio
import uvicorn
import yaml

import api.bindings
from activities.drift.windows import schedule_id
from examples.scripted_provider import ScriptedProvider
from store.clock import shifted
from store.executions import Executions, NewExecution
from tests.cli.conftest import Said
from tests.e2e.drifting import HOUR, Watch, custom, hours_ago, watch
from tests.e2e.stack import Bound, Stack, asserting, in_process
from tests.servers import free_ports
from wyrd.cli.app import run
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionSource

pytestmark = pytest.mark.asyncio(loop_scope="module")

Wyrd = Callable[..., Awaitable[Said]]
PLAIN = {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_truthy")]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(
    temporal: str, provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    async with in_process(tmp_path_factory.mktemp("home"), temporal, window_margin_seconds=0.5) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(stack: Stack) -> AsyncIterator[str]:
    """Where the application of the stack listens."""
    app: Any = getattr(stack.http._transport, "app")  # noqa: B009
    port = free_ports(1)[0]
    config = uvicorn.Config(app, host="127.0.0.1", port=port, lifespan="off", log_level="warning", ws="none")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done()
        await asyncio.sleep(0.005)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await running


@pytest.fixture
def wyrd(
    stack: Stack,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Wyrd:
    """Run one command line beside the server; its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WYRD_SERVER_URL", url)
    monkeypatch.setenv("WYRD_API_KEY", stack.http.headers["authorization"].removeprefix("Bearer "))

    async def command(*arguments: str) -> Said:
        capsys.readouterr()
        code = await asyncio.to_thread(run, arguments)
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return command


async def watched(stack: Stack, **more: Any) -> Watch:
    found = await watch(stack, custom("score", 0.0, 1.0), ["score"], **more)
    await found.scheduled()
    return found


def lines(said: Said) -> dict[str, str]:
    """What `bindings show` prints above its slots, by name."""
    assert (said.code, said.err) == (0, ""), said
    top = said.out.partition("\n\n")[0].splitlines()
    return {name.strip(): value for name, _, value in (line.partition("  ") for line in top)}


def told(said: Said, name: str) -> str:
    return lines(said)[name].strip()


async def test_bindings_are_listed_page_by_page_and_shown_by_id_and_as_the_latest(
    stack: Stack, wyrd: Wyrd
) -> None:
    plain = await stack.bind(PLAIN)
    found = await watched(stack, cron="30 6 * * MON-FRI", tz="Europe/Berlin")
    page = (await stack.http.get("/v1/verification/bindings")).json()
    assert (await wyrd("bindings", "list", "--format", "json")).json == page
    printed = (await wyrd("bindings", "list")).out.splitlines()
    assert printed[0].split() == ["binding", "verifier", "owner", "runs", "on", "active"]
    (line,) = [one for one in printed if one.startswith(found.binding_id)]
    assert "schedule 30 6 * * MON-FRI Europe/Berlin" in line
    assert line.endswith("yes")
    assert sum("verify and submit" in one for one in printed) >= 1
    seen, cursor = [], None
    while True:
        more = () if cursor is None else ("--cursor", cursor)
        said = await wyrd("bindings", "list", "--limit", "1", "--format", "json", *more)
        (one,) = said.json["items"]
        seen.append(one)
        cursor = said.json.get("next_cursor")
        if cursor is None:
            break
    assert seen == page["items"]
    assert f"more: --cursor {seen[0]['binding_id']}" in (await wyrd("bindings", "list", "--limit", "1")).out

    status = await found.status()
    assert (await wyrd("bindings", "show", found.binding_id, "--format", "json")).json == status
    assert (await wyrd("bindings", "show", "latest", "--format", "json")).json == status
    assert lines(await wyrd("bindings", "show", found.binding_id)).keys() == {
        *("binding", "verifier", "subject", "owner", "runs on", "active", "next run", "health")
    }
    shown = await wyrd("bindings", "show", "latest")
    assert told(shown, "owner") == f"tests/Service/{found.service}@1.0.0"
    assert told(shown, "health") == "ok"
    assert plain.verifier in {one["verifier"]["uid"] for one in seen}


async def test_run_now_judges_the_last_window_and_its_picture_is_written(
    stack: Stack, wyrd: Wyrd, tmp_path: Path
) -> None:
    found = await watched(stack)
    end = hours_ago(0)
    await found.record([{"score": 5.0}], end - HOUR / 2)
    said = await wyrd("bindings", "run-now", found.binding_id, "--format", "json")
    assert said.json["binding_id"] == found.binding_id
    (ran,) = await found.judged(end)
    shown = await wyrd("bindings", "show", found.binding_id)
    assert told(shown, "last execution") == ran["execution_id"]
    slots = shown.out.partition("\n\n")[2].splitlines()
    assert slots[1].split() == [(end - HOUR).isoformat(), end.isoformat(), ran["execution_id"], "failed"]

    drawn = await stack.http.get(f"/v1/verification/executions/{ran['execution_id']}/drift.svg")
    show = ("executions", "show", ran["execution_id"])
    pictured = await wyrd(*show, "--plot", "drift.svg")
    assert (pictured.code, pictured.err) == (0, "")
    assert pictured.out == (await wyrd(*show)).out
    assert (tmp_path / "drift.svg").read_bytes() == drawn.content
    assert ElementTree.fromstring(drawn.content).tag.endswith("svg")
    (tmp_path / "again.svg").write_text("what was there before", encoding="utf-8")
    assert (await wyrd(*show, "--plot", "again.svg", "--format", "json")).json == ran
    assert (tmp_path / "again.svg").read_bytes() == drawn.content


async def test_a_picture_that_there_is_not_or_that_cannot_be_written_is_said(
    stack: Stack, wyrd: Wyrd, tmp_path: Path
) -> None:
    bound: Bound = await stack.bind(PLAIN)
    execution_id = await stack.submit(bound, a=1)
    await stack.ended(execution_id)
    show = ("executions", "show", execution_id, "--plot", "drift.svg", "--format", "json")
    said = await wyrd(*show)
    assert (said.code, said.error["code"]) == (1, "WYRD_VERIFICATION_422_INPUT_UNSUPPORTED")
    assert said.error["message"].endswith("the execution has no drift report")
    said = await wyrd("executions", "show", uuid7(), "--plot", "drift.svg", "--format", "json")
    assert (said.code, said.error["code"]) == (66, "WYRD_VERIFICATION_404_EXECUTION_NOT_FOUND")
    assert not (tmp_path / "drift.svg").exists()

    found = await watched(stack)
    end = hours_ago(1)
    await found.backfill(end, end + timedelta(seconds=1))
    (ran,) = await found.judged(end)
    for place in ("no-such-folder/drift.svg", "."):
        command = ("executions", "show", ran["execution_id"], "--plot", place, "--format", "json")
        said = await wyrd(*command)
        assert (said.code, said.error["code"]) == (74, "WYRD_LOADER_400_IO")
        assert said.error["details"]["path"] == place


async def test_backfill_judges_the_slots_of_a_span_and_says_where_to_go_on_when_there_are_too_many(
    stack: Stack, wyrd: Wyrd, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await watched(stack)
    end = hours_ago(1)
    times = [end - n * HOUR for n in range(6)]
    backfill = ("bindings", "backfill", found.binding_id, "--format", "json")
    monkeypatch.setattr(api.bindings, "MOST_SLOTS", 3)
    refused = await wyrd(*backfill, "--from", times[3].isoformat(), "--to", times[0].isoformat())
    assert (refused.code, refused.error["code"]) == (64, "WYRD_VERIFICATION_400_INVALID_WINDOW")
    assert refused.error["details"]["next"] == times[0].isoformat()
    # Both ends belong to the span, and no slot that lies before it.
    inside = times[3] + timedelta(milliseconds=500)
    said = await wyrd(*backfill, "--from", inside.isoformat(), "--to", times[0].isoformat())
    assert said.code == 0, said
    assert len(await found.judged(*times[:3])) == 3
    monkeypatch.undo()
    ends = [datetime.fromisoformat(slot["window_end"]) for slot in (await found.status())["slots"]]
    assert ends == times[:3]


async def test_a_backfill_of_more_slots_than_the_server_lists_at_once_is_refused_by_their_number(
    stack: Stack, wyrd: Wyrd
) -> None:
    found = await watched(stack, cron="* * * * *")
    backfill = ("bindings", "backfill", found.binding_id, "--format", "json")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for end in (start + timedelta(minutes=500), start + timedelta(days=3), datetime(2026, 9, 1, tzinfo=UTC)):
        said = await wyrd(*backfill, "--from", start.isoformat(), "--to", end.isoformat())
        assert (said.code, said.error["code"]) == (64, "WYRD_VERIFICATION_400_INVALID_WINDOW")
        assert "more than 500 slots" in said.error["message"]
        assert said.error["details"]["next"] == (start + timedelta(minutes=500)).isoformat()
    ahead = datetime.now(UTC) + timedelta(days=1)
    said = await wyrd(*backfill, "--from", start.isoformat(), "--to", ahead.isoformat())
    assert (said.code, said.error["details"]["field"]) == (64, "to")
    said = await wyrd(*backfill, "--from", "yesterday", "--to", start.isoformat())
    assert (said.code, said.error["code"]) == (64, "WYRD_VERIFICATION_400_INVALID_WINDOW")
    assert "from" in said.error["details"]["field"]
    assert (await found.status())["slots"] == []


async def test_only_a_scheduled_binding_that_is_there_is_run_by_hand(stack: Stack, wyrd: Wyrd) -> None:
    bound = await stack.bind(PLAIN)
    page = await stack.http.get("/v1/verification/bindings", params={"verifier_uid": bound.verifier})
    (plain,) = page.json()["items"]
    said = await wyrd("bindings", "run-now", plain["binding_id"], "--format", "json")
    assert (said.code, said.error["code"]) == (1, "WYRD_VERIFICATION_422_INPUT_UNSUPPORTED")
    shown = await wyrd("bindings", "show", plain["binding_id"])
    assert (told(shown, "runs on"), told(shown, "health")) == ("verify and submit", "ok")
    for command in ("show", "run-now"):
        for unknown in (uuid7(), "not-an-id"):
            said = await wyrd("bindings", command, unknown, "--format", "json")
            assert (said.code, said.error["code"]) == (66, "WYRD_VERIFICATION_404_BINDING_NOT_FOUND")


async def test_p33_health_says_for_how_many_slots_a_binding_has_not_run(stack: Stack, wyrd: Wyrd) -> None:
    """Nobody judged what passed, as when every worker is gone."""
    found = await watched(stack)
    next_hour = hours_ago(-1, datetime.fromisoformat((await found.status())["created_at"]))

    def until(moment: datetime) -> Callable[[], timedelta]:
        return lambda: moment - datetime.now(UTC)

    cases = [
        (next_hour + timedelta(seconds=1), "ok"),
        (next_hour + timedelta(minutes=1), "late: has not run for 1 slot"),
        (next_hour + 4 * HOUR + timedelta(minutes=1), "late: has not run for 5 slots"),
        (next_hour + timedelta(days=400), "late: has not run for 1000 or more slots"),
    ]
    for moment, health in cases:
        with shifted(until(moment)):
            shown = await wyrd("bindings", "show", found.binding_id)
            assert told(shown, "health") == health
    with shifted(until(next_hour + timedelta(minutes=61))):
        status = await found.status()
        assert status["health"]["slots_not_run"] == 2
        assert (await wyrd("bindings", "show", "latest", "--format", "json")).json == status


async def test_a_paused_and_an_inactive_binding_say_why(stack: Stack, wyrd: Wyrd) -> None:
    found = await watched(stack)
    handle = stack.client.get_schedule_handle(schedule_id(stack.tenant, found.binding_id))
    await handle.pause(note="the data are being moved")
    shown = await wyrd("bindings", "show", found.binding_id)
    assert told(shown, "health") == "paused: the data are being moved"
    assert "next run" not in lines(shown)
    await handle.unpause()
    ref = f"tests/Service/{found.service}@1.0.0"
    assert (await wyrd("cards", "deactivate", ref)).code == 0
    await found.until(lambda status: status["health"]["status"] == "paused")
    shown = await wyrd("bindings", "show", found.binding_id)
    assert told(shown, "active") == "no"
    assert told(shown, "health") == "paused: the owner is deprecated"
    assert (await wyrd("cards", "reactivate", ref)).code == 0
    await found.until(lambda status: status["health"]["status"] == "ok")
    assert told(await wyrd("bindings", "show", found.binding_id), "active") == "yes"


async def test_the_last_hundred_slots_are_shown_the_latest_first(stack: Stack, wyrd: Wyrd) -> None:
    found = await watched(stack)
    end = hours_ago(1)
    ids = [uuid7() for _ in range(105)]

    def ended(connection: Any) -> None:
        for number, execution_id in enumerate(ids):
            slot = end - number * HOUR
            new = NewExecution(
                execution_id=execution_id,
                source=ExecutionSource.SCHEDULE.value,
                verifier_uid=found.uids[found.verifier],
                verifier="v",
                subject_uid=found.uids[found.service],
                subject="s",
                owner_uid=found.uids[found.service],
                owner="s",
                binding_id=found.binding_id,
                principal_id=None,
                run_id=None,
                group_id=None,
                inputs="{}",
                timeout_seconds=60,
                created_at=slot,
                window_start=slot - HOUR,
                window_end=slot,
            )
            error = WyrdError(Code.VERIFICATION_409_BASELINE_NOT_READY, "it is being fitted")
            Executions(connection, stack.tenant).add_errored(new, error, workflow_id="w")

    await stack.services.database.write(ended)
    status = await found.status()
    assert [slot["execution_id"] for slot in status["slots"]] == ids[:100]
    assert status["last_execution_id"] == ids[0]
    told_why = {"code": "WYRD_VERIFICATION_409_BASELINE_NOT_READY", "message": "it is being fitted"}
    assert status["slots"][99]["error"] == told_why
    shown = (await wyrd("bindings", "show", found.binding_id)).out.partition("\n\n")[2].splitlines()
    assert [line.split()[2] for line in shown[1:]] == ids[:10]


def _cards(folder: Path, threshold: float) -> Path:
    """A Service that watches one label, every category but one of which is rare."""
    name = f"r{uuid7().replace('-', '')[-20:]}"

    def write(kind: str, tail: str, spec: dict[str, Any]) -> Path:
        metadata = {"name": f"{name}-{tail}", "version": "1.0.0", "space": "tests"}
        document = {"apiVersion": "wyrd/v1", "kind": kind, "metadata": metadata, "spec": spec}
        path = folder / f"{tail}.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    write("Data", "data", {"interface": {"kind": "table"}})
    check = {
        "kind": "drift",
        "on": "inputs.samples",
        "method": "Psi",
        "signal": {"kind": "Distribution", "features": ["label"], "baseline_ref": "./data.yaml"},
        "condition": {"kind": "Statistical"},
        "profile": {
            "kind": "Psi",
            "binning_strategy": {"kind": "Quantile", "n_bins": 5},
            "threshold": {"kind": "Fixed", "value": threshold},
            "categorical_features": ["label"],
        },
    }
    write(
        "Verifier",
        "watch",
        {
            "inputs": {"samples": {"type": "samples", "features": ["label"]}},
            "requirements": [{"id": "usual", "statement": "labels are as usual", "check": check}],
        },
    )
    entry = {"verifier": "./watch.yaml", "runs_on": {"kind": "schedule", "cron": "0 6 * * *"}}
    labels = ["label", *["common"] * 960, *(f"rare{number}" for number in range(4) for _ in range(10))]
    (folder / "labels.csv").write_text("\n".join(labels), encoding="utf-8")
    return write("Service", "desk", {"verified_by": [entry]})


@pytest.mark.parametrize(("threshold", "warned"), [(0.2, True), (30.0, False)])
async def test_p29_declaring_warns_of_a_threshold_that_an_unchanged_window_often_passes(
    stack: Stack, wyrd: Wyrd, tmp_path: Path, threshold: float, warned: bool
) -> None:
    desk = _cards(tmp_path, threshold)
    name = yaml.safe_load(desk.read_text(encoding="utf-8"))["metadata"]["name"].removesuffix("-desk")
    said = await wyrd("declare", str(desk), "--file", f"tests/Data/{name}-data=labels.csv")
    assert (said.code, said.err) == (0, ""), said
    assert f"tests/Verifier/{name}-watch@1.0.0" in said.out.partition("baseline of")[2]
    warnings = [line for line in said.out.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == warned
    shown = await wyrd("bindings", "show", "latest")
    assert told(shown, "baseline") == "ready"
    again = [line for line in shown.out.splitlines() if line.startswith("warning: ")]
    assert [line.removeprefix("warning: ") for line in again] == [
        line.removeprefix(f"warning: {name}-watch: ") for line in warnings
    ]
    if warned:
        assert "of unchanged windows of" in warnings[0]
