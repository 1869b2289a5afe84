"""Schedules follow the life of their owner, what somebody does by hand stands, and callers see their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio
from temporalio.client import ScheduleHandle, ScheduleOverlapPolicy
from temporalio.service import RPCError, RPCStatusCode

from activities.drift.windows import schedule_id
from activities.schedules import Schedules
from examples.scripted_provider import ScriptedProvider
from store.caller import Role
from store.identity import Identity
from store.tenants import make_tenant
from tests.e2e.drifting import HOUR, Watch, custom, hours_ago, watch
from tests.e2e.stack import Stack, asserting, in_process, outcomes
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHECK = custom("score", 0.0, 1.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(
    temporal: str, provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    async with in_process(tmp_path_factory.mktemp("home"), temporal, window_margin_seconds=0.5) as opened:
        yield opened


async def watched(stack: Stack, **more: Any) -> Watch:
    found = await watch(stack, CHECK, ["score"], **more)
    await found.scheduled()
    return found


async def turned(found: Watch, turn: str) -> None:
    uid = found.uids[found.service]
    answer = await found.stack.http.post(f"/v1/cards/by-uid/Service/{uid}/{turn}")
    assert answer.status_code == 200, answer.text


def schedule(found: Watch) -> ScheduleHandle:
    return found.stack.client.get_schedule_handle(schedule_id(found.stack.tenant, found.binding_id))


def health(status: str, message: str | None = None) -> Any:
    def holds(found: dict[str, Any]) -> bool:
        told = found["health"]
        return bool(told["status"] == status and (message is None or message in told["message"]))

    return holds


async def slot_of(found: Watch) -> dict[str, Any]:
    """How the slot of the last hour ends, whoever asked for it."""
    end = hours_ago(1)
    await found.record([{"score": 5.0}], end - HOUR)
    await found.slot(end)
    (ran,) = await found.judged(end)
    return ran


async def test_deactivation_pauses_a_schedule_and_reactivation_restores_it(stack: Stack) -> None:
    found = await watched(stack)
    described = await schedule(found).describe()
    assert await described.memo() == {
        "cron": "0 * * * *",
        "tz": "UTC",
        "binding": f"tests/{found.verifier}@1.0.0 of tests/Service/{found.service}@1.0.0",
    }
    assert described.schedule.policy.catchup_window == timedelta(hours=24)
    assert described.schedule.policy.overlap is ScheduleOverlapPolicy.ALLOW_ALL
    await turned(found, "deactivate")
    paused = await found.until(health("paused", "the owner is deprecated"))
    assert (paused["active"], paused["next_run_at"]) == (False, None)
    await turned(found, "reactivate")
    running = await found.until(health("ok"))
    assert running["active"]
    assert running["next_run_at"] is not None


async def test_p33_a_slot_of_an_inactive_owner_leaves_a_record_with_its_reason(stack: Stack) -> None:
    """A slot may come between the deactivation and the pause."""
    found = await watched(stack)
    await turned(found, "deactivate")
    ran = await slot_of(found)
    assert (ran["status"], ran["error"]["code"]) == ("errored", "WYRD_VERIFICATION_404_BINDING_NOT_FOUND")
    assert "is deprecated" in ran["error"]["message"]
    await turned(found, "reactivate")
    end = hours_ago(1)
    await found.backfill(end, end + timedelta(seconds=1))
    status = await found.until(lambda status: status["slots"][0]["verdict"] is not None)
    assert outcomes(await stack.status(status["slots"][0]["execution_id"])) == {"stays": "failed"}


async def test_p33_a_slot_of_a_refused_owner_leaves_a_record_with_its_reason(stack: Stack) -> None:
    found = await watched(stack)

    def bind(connection: Any) -> str:
        identity = Identity(connection, stack.tenant)
        principal = identity.create(f"p-{uuid7()[-12:]}", [Role.SERVICE], card_uid=found.uids[found.service])
        identity.issue_key(principal)
        identity.suspend(principal, "for the test")
        return principal

    await stack.services.database.write(bind)
    ran = await slot_of(found)
    assert (ran["status"], ran["error"]["code"]) == ("errored", "WYRD_PERMISSION_403_DENIED_RBAC")
    assert (await found.status())["last_execution_id"] == ran["execution_id"]


async def test_an_error_is_not_added_to_a_window_that_was_judged(stack: Stack) -> None:
    found = await watched(stack)
    ran = await slot_of(found)
    assert outcomes(ran) == {"stays": "failed"}
    await turned(found, "deactivate")
    await found.slot(hours_ago(1))
    assert [slot["execution_id"] for slot in (await found.status())["slots"]] == [ran["execution_id"]]


async def test_what_somebody_paused_by_hand_stays_paused(stack: Stack) -> None:
    found = await watched(stack)
    await schedule(found).pause(note="holidays")
    assert health("paused", "holidays")(await found.status())
    for turn in ("deactivate", "reactivate"):
        await turned(found, turn)
        # A duty that has just started, as after an outage: it knows nothing of what was done before.
        await Schedules(stack.services.database, stack.client).pass_once()
        state = (await schedule(found).describe()).schedule.state
        assert (state.paused, state.note) == (True, "holidays")
    await schedule(found).unpause(note="back")
    await Schedules(stack.services.database, stack.client).pass_once()
    assert health("ok")(await found.status())


async def test_a_schedule_that_was_deleted_by_hand_comes_back(stack: Stack) -> None:
    found = await watched(stack)
    await schedule(found).delete()
    assert health("pending")(await found.status())
    duty = Schedules(stack.services.database, stack.client)
    for _ in range(50):
        # The server's list of Schedules may lag behind.
        duty._known = None
        await duty.pass_once()
        if (await found.status())["next_run_at"] is not None:
            break
    assert health("ok")(await found.status())


async def test_a_newer_version_takes_the_schedule_over_and_gives_it_back(stack: Stack) -> None:
    older = await watched(stack)
    newer = await watch(stack, CHECK, ["score"], name=older.verifier, version="1.1.0")
    assert newer.binding_id != older.binding_id
    await older.until(health("paused", "a higher version of the owner runs"))
    await newer.until(health("ok"))
    candidate = await watch(stack, CHECK, ["score"], name=older.verifier, version="2.0.0-rc.1")
    assert (await candidate.status())["active"]
    await turned(newer, "deactivate")
    await older.until(health("ok"))
    await newer.until(health("paused", "the owner is deprecated"))
    assert (await candidate.status())["next_run_at"] is None


async def test_the_schedule_of_a_deleted_owner_goes(stack: Stack) -> None:
    found = await watched(stack)
    uid = found.uids[found.service]
    answer = await stack.http.delete(f"/v1/cards/by-uid/Service/{uid}")
    assert answer.status_code == 200, answer.text
    status = await found.until(health("inactive", "the owner is deleted"))
    assert not status["active"]
    with pytest.raises(RPCError) as gone:
        await schedule(found).describe()
    assert gone.value.status is RPCStatusCode.NOT_FOUND


async def keyed(
    stack: Stack, card_uid: str | None = None, slug: str | None = None, role: Role = Role.ADMIN
) -> httpx.AsyncClient:
    """A client of another caller: bound to a Card, of another tenant, or of another role."""

    def made(connection: Any) -> str:
        tenant = stack.tenant if slug is None else make_tenant(connection, slug)
        identity = Identity(connection, tenant)
        roles = [role] if card_uid is None else [Role.SERVICE]
        principal = identity.create(f"p-{uuid7()[-12:]}", roles, card_uid=card_uid)
        return identity.issue_key(principal).key

    key = await stack.services.database.write(made)
    transport = stack.http._transport
    return httpx.AsyncClient(
        transport=transport, base_url="http://wyrd.test", headers={"authorization": f"Bearer {key}"}
    )


async def test_callers_see_the_bindings_of_their_own_graph_and_tenant(stack: Stack) -> None:
    mine, other = await watched(stack), await watched(stack)
    bound = await keyed(stack, mine.uids[mine.service])
    page = (await bound.get("/v1/verification/bindings")).json()
    assert [one["binding_id"] for one in page["items"]] == [mine.binding_id]
    stranger = await keyed(stack, slug=f"t{uuid7().replace('-', '')[-12:]}")
    assert (await stranger.get("/v1/verification/bindings")).json()["items"] == []
    for client, binding_id in ((bound, other.binding_id), (stranger, mine.binding_id)):
        root = f"/v1/verification/bindings/{binding_id}"
        for answer in (
            await client.get(root),
            await client.post(f"{root}/run-now"),
            await client.post(
                f"{root}/backfill", json={"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
            ),
        ):
            denied = ("WYRD_VERIFICATION_404_BINDING_NOT_FOUND", "WYRD_PERMISSION_403_DENIED_RBAC")
            assert answer.json()["code"] in denied, answer.text
    assert (await other.status())["slots"] == []


async def test_only_a_schedule_is_run_by_hand_and_only_over_a_span_of_time(stack: Stack) -> None:
    bound = await stack.bind(
        {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_truthy")]}
    )
    page = await stack.http.get("/v1/verification/bindings", params={"verifier_uid": bound.verifier})
    (plain,) = page.json()["items"]
    root = f"/v1/verification/bindings/{plain['binding_id']}"
    assert (await stack.http.post(f"{root}/run-now")).json()[
        "code"
    ] == "WYRD_VERIFICATION_422_INPUT_UNSUPPORTED"
    execution_id = await stack.submit(bound, a=1)
    await stack.ended(execution_id)
    assert (await stack.http.get(root)).json()["last_execution_id"] == execution_id
    found = await watched(stack, cron="*/15 * * * *")
    spans = [
        ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "from"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "from"),
        ("2026-01-01T00:00:01Z", "2026-01-01T00:14:59Z", "from"),
        ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "from"),
        ("2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z", "to"),
    ]
    for start, end, field in spans:
        answer = await stack.http.post(
            f"/v1/verification/bindings/{found.binding_id}/backfill",
            json={"from": start, "to": end},
        )
        assert answer.json()["code"] == "WYRD_VERIFICATION_400_INVALID_WINDOW", answer.text
        assert answer.json()["details"]["field"] == field
    assert (await found.status())["slots"] == []


async def test_bindings_are_filtered_and_a_page_has_bounds(stack: Stack) -> None:
    first, second = await watched(stack), await watched(stack)
    await turned(second, "deactivate")

    async def ids(**filters: Any) -> list[str]:
        answer = await stack.http.get("/v1/verification/bindings", params=filters)
        assert answer.status_code == 200, answer.text
        return [one["binding_id"] for one in answer.json()["items"]]

    for one in (first, second):
        assert await ids(verifier_uid=one.uids[one.verifier]) == [one.binding_id]
        assert await ids(owner_uid=one.uids[one.service]) == [one.binding_id]
        assert await ids(subject_uid=one.uids[one.service], limit=1000) == [one.binding_id]
    mine = {"verifier_uid": second.uids[second.verifier]}
    assert (await ids(active=True, **mine), await ids(active=False, **mine)) == ([], [second.binding_id])
    assert await ids(owner_uid=uuid7()) == []
    for limit in (0, 1001):
        answer = await stack.http.get("/v1/verification/bindings", params={"limit": limit})
        assert answer.json()["code"] == "WYRD_REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE"


async def test_who_may_only_look_does_not_run_bindings(stack: Stack) -> None:
    found = await watched(stack)
    viewer = await keyed(stack, role=Role.VIEWER)
    root = f"/v1/verification/bindings/{found.binding_id}"
    assert (await viewer.get(root)).json()["binding_id"] == found.binding_id
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}
    for answer in (await viewer.post(f"{root}/run-now"), await viewer.post(f"{root}/backfill", json=span)):
        assert (answer.status_code, answer.json()["code"]) == (403, "WYRD_PERMISSION_403_DENIED_RBAC")


async def test_without_temporal_a_binding_is_still_shown_and_is_not_run(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await watched(stack)
    ran = await slot_of(found)

    async def away(*_: Any, **__: Any) -> None:
        raise RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr(ScheduleHandle, "describe", away)
    monkeypatch.setattr(ScheduleHandle, "trigger", away)
    status = await found.status()
    assert health("unknown", "Temporal cannot be reached")(status)
    assert [slot["execution_id"] for slot in status["slots"]] == [ran["execution_id"]]
    answer = await stack.http.post(f"/v1/verification/bindings/{found.binding_id}/run-now")
    assert (answer.status_code, answer.json()["code"]) == (503, "WYRD_SERVER_503_SERVICE_UNAVAILABLE")
