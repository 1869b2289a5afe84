"""Traces as evidence: checks, code and agents read the recorded spans, pinned, on both paths."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection

from activities.bundle import Bundles
from activities.context import ExecutionContext
from activities.ledger import MemoryLedger
from bifrost.reading import Cuts
from bifrost.traces import trace_document
from engine.evidence import Evidence
from examples.scripted_provider import Reply, ScriptedProvider
from store.caller import Role
from store.database import utc_now
from store.first_start import ensure_tenant
from store.identity import Identity
from tests.e2e.stack import Bound, Stack, agent_spec, asserting, coded, judged, outcomes, requirement, step
from wyrd.wire.canonical import canonical_json, digest, sha256_hex, strict_loads
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNTS = (
    "def check(trace):\n"
    "    failed = [s for s in trace['spans'] if s['status'] == 'error']\n"
    "    return {'outcome': 'failed' if failed else 'passed', 'reason': str(len(trace['spans'])),"
    " 'citations': [{'slot': 'trace', 'locator': {'json_pointer': '/spans/0/name'}}]}"
)


def traced(selector: str, operator: str, expected: Any = None, id: str = "rule") -> dict[str, Any]:
    check = {"kind": "trace", "on": "inputs.trace", "span_selector": selector, "operator": operator}
    if expected is not None:
        check["expected"] = expected
    return {"id": id, "statement": f"{selector} {operator}", "check": check}


def reading(*requirements: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"inputs": {"trace": {"type": "trace"}}, "requirements": list(requirements), **more}


def new_trace() -> str:
    return secrets.token_hex(16)


def span(trace_id: str, name: str, start: int, **more: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": start, "endTimeUnixNano": start + 5_000_000}
    return {"traceId": trace_id, "spanId": secrets.token_hex(8), "name": name, **times, **more}


async def record(
    stack: Stack, spans: Sequence[dict[str, Any]], http: httpx.AsyncClient | None = None
) -> None:
    document = {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}
    answer = await (http or stack.http).post("/v1/traces", json=document)
    assert (answer.status_code, answer.json()) == (200, {})


def given(trace_id: str) -> dict[str, Any]:
    return {"kind": "trace", "trace_id": trace_id}


async def judge(stack: Stack, path: str, bound: Bound, trace_id: str) -> dict[str, Any]:
    """The result of a verify, or of a submit once it has ended."""
    if path == "verify":
        answer = await stack.verify(bound, trace=given(trace_id))
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found
    ended = await stack.ended(await stack.submit(bound, trace=given(trace_id)))
    assert ended["status"] == "completed", ended
    result: dict[str, Any] = ended["result"]
    return result


BOTH = pytest.mark.parametrize("path", ["verify", "submit"])


@BOTH
async def test_trace_checks_read_the_recorded_spans(stack: Stack, path: str) -> None:
    trace_id = new_trace()
    await record(
        stack,
        [
            span(trace_id, "model", 2_000_000_001, kind="SPAN_KIND_CLIENT", status={"code": 2}),
            span(trace_id, "answer", 1_000_000_001, kind="SPAN_KIND_SERVER"),
        ],
    )
    bound = await stack.bind(
        reading(
            traced("$.spans[*].name", "equals", ["answer", "model"], id="in-order"),
            traced(
                "$.spans[?@.kind == 'server'].start_time", "equals", "1970-01-01T00:00:01.000000001Z", "times"
            ),
            traced("$.spans[?@.status == 'error'].name", "equals", "answer", id="fails"),
            traced("$.spans[?@.name == 'nobody']", "is_truthy", id="no-match"),
            asserting("inputs.trace.spans[1].duration_ms", "equals", 5, id="asserted"),
        )
    )
    result = await judge(stack, path, bound, trace_id)
    assert outcomes(result) == {
        "in-order": "passed",
        "times": "passed",
        "fails": "failed",
        "no-match": "inconclusive",
        "asserted": "passed",
    }
    assert result["outcome"]["evidence"] == {"trace": given(trace_id)}
    document = await trace_document(stack.services.bifrost.cuts, stack.tenant, trace_id, wait=0)
    assert result["outcome"]["evidence_digests"] == {"trace": digest(document)}
    kept = await stack.services.blobs.get(stack.tenant, digest(document))
    assert kept == canonical_json(document)


@BOTH
async def test_code_and_agents_read_traces_and_cite_places_in_them(
    stack: Stack, provider: ScriptedProvider, path: str
) -> None:
    trace_id = new_trace()
    await record(stack, [span(trace_id, "a-name-of-its-own", 1)])
    verdict = {
        "outcome": "passed",
        "reason": "it is there",
        "citations": [
            {"slot": "trace", "locator": {"json_pointer": "/spans/0/name"}},
            {"slot": "trace", "locator": {"json_pointer": "/spans/7"}},
        ],
    }
    provider.script([Reply(json=verdict)])
    bound = await stack.bind(
        reading(
            coded(COUNTS, {"trace": "inputs.trace"}, id="code"),
            judged({"trace": "inputs.trace"}, "Judge {{trace}}", id="agent"),
        )
    )
    result = await judge(stack, path, bound, trace_id)
    assert outcomes(result) == {"code": "passed", "agent": "passed"}
    for id in ("code", "agent"):
        cited = requirement(result, id)["citations"]
        assert cited == [{"slot": "trace", "locator": {"json_pointer": "/spans/0/name"}}], id
    assert "a-name-of-its-own" in str(provider.requests[-1])


@BOTH
async def test_a_trace_that_is_recorded_while_it_is_waited_for_is_judged(
    stack: Stack, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace_id = new_trace()
    looked = asyncio.Event()
    cuts_rows = Cuts.rows

    async def looking(*given: Any, **named: Any) -> Any:
        found = await cuts_rows(*given, **named)
        looked.set()
        return found

    monkeypatch.setattr(Cuts, "rows", looking)
    bound = await stack.bind(reading(traced("$.spans[0].name", "equals", "late")))
    judging = asyncio.create_task(judge(stack, path, bound, trace_id))
    await looked.wait()
    await record(stack, [span(trace_id, "late", 1)])
    assert outcomes(await judging) == {"rule": "passed"}


@BOTH
async def test_a_trace_that_nobody_recorded_is_missing_evidence_and_named(
    stack: Stack, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.traces.WAIT_SECONDS", 0.1)
    trace_id = new_trace()
    bound = await stack.bind(
        reading(
            traced("$.spans[0].name", "equals", "x", id="check"),
            coded(COUNTS, {"trace": "inputs.trace"}, "code"),
        )
    )
    result = await judge(stack, path, bound, trace_id)
    for id in ("check", "code"):
        found = requirement(result, id)
        assert (found["outcome"], found["reason_kind"]) == ("inconclusive", "missing_evidence")
        assert trace_id in found["reason"]
    assert result["outcome"]["evidence_digests"] == {"trace": digest(trace_id)}


@BOTH
async def test_another_tenants_spans_of_the_same_trace_are_no_evidence(
    stack: Stack, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.traces.WAIT_SECONDS", 0.1)
    rival = await ensure_tenant(stack.services.database, "rival")

    def key_of(connection: Connection) -> str:
        identity = Identity(connection, rival)
        return identity.issue_key(identity.create(f"rob-{uuid7()}", [Role.ADMIN])).key

    key = await stack.services.database.write(key_of)
    trace_id = new_trace()
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        transport=stack.http._transport, base_url="http://wyrd.test", headers=headers
    ) as http:
        await record(stack, [span(trace_id, "theirs", 1)], http)
    assert await trace_document(stack.services.bifrost.cuts, rival, trace_id, wait=0) is not None
    bound = await stack.bind(reading(traced("$.spans[*].name", "is_truthy")))
    assert requirement(await judge(stack, path, bound, trace_id))["reason_kind"] == "missing_evidence"


@BOTH
async def test_a_caller_bound_to_a_card_is_judged_on_the_spans_it_may_read(stack: Stack, path: str) -> None:
    other = await stack.bind(reading(traced("$.spans", "is_truthy")))
    bound = await stack.bind(reading(traced("$.spans[*].name", "equals", ["mine", "nobodys"])))

    def key_of(connection: Connection) -> str:
        identity = Identity(connection, stack.tenant)
        principal = identity.create(f"bound-{uuid7()}", [Role.SERVICE], card_uid=bound.subject, card_ref={})
        return identity.issue_key(principal).key

    key = await stack.services.database.write(key_of)
    trace_id = new_trace()

    def about(card_uid: str) -> list[dict[str, Any]]:
        return [{"key": "wyrd.card_uid", "value": {"stringValue": card_uid}}]

    await record(
        stack,
        [
            span(trace_id, "mine", 1, attributes=about(bound.subject)),
            span(trace_id, "theirs", 2, attributes=about(other.subject)),
            span(trace_id, "nobodys", 3),
        ],
    )
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        transport=stack.http._transport, base_url="http://wyrd.test", headers=headers, timeout=30
    ) as http:
        mine = Stack(
            stack.settings, stack.services, stack.client, http, stack.tenant, stack.workshop, stack.workers
        )
        assert outcomes(await judge(mine, path, bound, trace_id)) == {"rule": "passed"}
    seen_by_all = await judge(stack, path, bound, trace_id)
    assert outcomes(seen_by_all) == {"rule": "failed"}


async def test_what_is_recorded_after_the_first_block_read_changes_nothing(
    stack: Stack, provider: ScriptedProvider
) -> None:
    """A span arrives between two attempts of a step: its retry, the checks after it in another worker
    and the digest of the result are still about what the first attempt read."""
    trace_id = new_trace()
    await record(stack, [span(trace_id, "the-first-span", 1)])
    before = await trace_document(stack.services.bifrost.cuts, stack.tenant, trace_id, wait=0)
    provider.script(
        [Reply(status=503, error={"message": "busy", "type": "server_error"}), Reply(text="fine")]
    )
    action = {"kind": "agent", "agent": agent_spec("Read {{trace}}"), "inputs": {"trace": "inputs.trace"}}
    bound = await stack.bind(
        reading(
            traced("$.spans[*].name", "equals", "the-first-span", id="check"),
            asserting("steps.ask.output", "equals", "fine", id="after"),
            steps=[{"id": "ask", "action": action, "retries": 1}],
        )
    )
    earlier = len(provider.requests)
    execution_id = await stack.submit(bound, trace=given(trace_id))
    assert await asyncio.to_thread(provider.wait_requests, earlier + 1)
    await record(stack, [span(trace_id, "the-second-span", 2)])
    result = (await stack.ended(execution_id))["result"]
    assert outcomes(result) == {"check": "passed", "after": "passed"}
    assert step(result, "ask")["attempts"] == 2
    assert ["the-second-span" in one.text for one in provider.requests[earlier:]] == [False, False]
    assert ["the-first-span" in one.text for one in provider.requests[earlier:]] == [True, True]
    assert result["outcome"]["evidence_digests"] == {"trace": digest(before)}


async def test_a_second_process_reads_what_the_first_one_pinned(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found or missing: what an execution was pinned to is what every later reader gets."""
    bound = await stack.bind(reading(traced("$.spans[*].name", "is_truthy")))
    recorded, missing = new_trace(), new_trace()
    await record(stack, [span(recorded, "first", 1)])
    bundle = await Bundles(stack.services.database).of(stack.tenant, bound.verifier)
    for trace_id in (recorded, missing):
        ledger = MemoryLedger(0)

        def seen(trace_id: str = trace_id, ledger: MemoryLedger = ledger) -> ExecutionContext:
            evidence = Evidence(bundle.plan.spec, {"trace": given(trace_id)})
            return ExecutionContext(stack.tenant, uuid7(), utc_now(), bundle, evidence, ledger)

        first, second = seen(), seen()
        await stack.traces.pin(first, None, wait=0.0)
        await record(stack, [span(trace_id, "later", 2)])
        await stack.traces.pin(second, None, wait=0.0)
        assert first.evidence.digests() == second.evidence.digests()
        assert str(first.evidence.traces) == str(second.evidence.traces)


async def test_evidence_that_may_not_be_kept_leaves_no_copy_of_the_trace(stack: Stack) -> None:
    trace_id = new_trace()
    await record(stack, [span(trace_id, "secret", 1)])
    bound = await stack.bind(reading(traced("$.spans[*].name", "equals", "secret"), context_capture="hash"))
    for path in ("verify", "submit"):
        result = await judge(stack, path, bound, trace_id)
        assert outcomes(result) == {"rule": "passed"}
        sha256 = result["outcome"]["evidence_digests"]["trace"]
        assert await stack.services.blobs.size(stack.tenant, sha256) is None


async def test_a_span_that_was_recorded_twice_appears_once(stack: Stack) -> None:
    trace_id = new_trace()
    twice = span(trace_id, "twice", 1)
    await record(stack, [twice])
    await record(stack, [twice, span(trace_id, "other", 2)])
    document = await trace_document(stack.services.bifrost.cuts, stack.tenant, trace_id, wait=0)
    assert document is not None
    assert [one["name"] for one in document["spans"]] == ["twice", "other"]
    assert set(document["spans"][0]) == {
        "trace_id",
        "span_id",
        "parent_span_id",
        "name",
        "kind",
        "start_time",
        "end_time",
        "duration_ms",
        "status",
        "attributes",
        "events",
        "links",
    }
    assert sha256_hex(canonical_json(strict_loads(canonical_json(document)))) == digest(document)
