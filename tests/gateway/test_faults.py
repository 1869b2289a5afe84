"""Every way a provider misbehaves, over real HTTP: the exact class of failure, and no secret in it."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from engine.failure import BlockFailure, ReasonKind
from engine.prompts import BlockPart, RenderedMessage, TextPart
from examples.scripted_provider import Reply, ScriptedProvider
from gateway.calls import ModelCall, ModelReply
from gateway.deployments import GatewayConfig
from gateway.failures import retry_after
from gateway.gateway import Gateway

ADAPTERS = ["openai", "claude", "gemini"]
QUESTION = (RenderedMessage("user", (TextPart("Is the letter fair?"),)),)


def call(deployment: str | None = "openai", **changes: Any) -> ModelCall:
    return ModelCall(
        **{
            "provider": "openai",
            "model": "gpt-6-luna",
            "deployment": deployment,
            "messages": QUESTION,
            "settings": {"max_output_tokens": 64},
            "timeout_seconds": 30.0,
            **changes,
        }
    )


async def failure(gateway: Gateway, asked: ModelCall) -> BlockFailure:
    with pytest.raises(BlockFailure) as raised:
        await gateway.complete(asked)
    found = raised.value
    for secret in ("sk-test", "sk-native", "mk-1", "4f1c9a"):
        assert secret not in found.reason
    assert found.__cause__ is None
    assert found.__context__ is None
    return found


@pytest.mark.parametrize("deployment", ADAPTERS)
@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_a_transient_status_may_be_retried(
    gateway: Gateway, provider: ScriptedProvider, deployment: str, status: int
) -> None:
    provider.script([Reply(status=status, error={"message": "sk-test-4f1c9a", "code": "busy"})])
    found = await failure(gateway, call(deployment))
    assert (found.kind, found.retryable) == (ReasonKind.PROVIDER_ERROR, True)
    assert str(status) in found.reason
    assert len(provider.requests) == 1


@pytest.mark.parametrize("deployment", ADAPTERS)
@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 413, 422, 501])
async def test_a_lasting_status_is_not_retried(
    gateway: Gateway, provider: ScriptedProvider, deployment: str, status: int
) -> None:
    error = {"message": "Incorrect API key provided: sk-test-4f1c9a", "code": "no_good"}
    headers = {"location": provider.url, "retry-after": "3"}
    provider.script([Reply(status=status, error=error, headers=headers)])
    found = await failure(gateway, call(deployment))
    assert (found.kind, found.retryable, found.retry_after) == (ReasonKind.PROVIDER_ERROR, False, None)
    assert f"{status}" in found.reason
    assert "no_good" in found.reason
    assert len(provider.requests) == 1


async def test_p17_the_third_call_succeeds_after_two_503(
    gateway: Gateway, provider: ScriptedProvider
) -> None:
    provider.script([Reply(status=503), Reply(status=503), Reply(text="fair")])
    for _ in range(2):
        assert (await failure(gateway, call())).retryable
    assert (await gateway.complete(call())).text == "fair"
    assert len(provider.requests) == 3


@pytest.mark.parametrize("member", ["code", "type"])
async def test_a_used_up_quota_is_not_retried(
    gateway: Gateway, provider: ScriptedProvider, member: str
) -> None:
    error = {"message": "You exceeded your current quota", member: "insufficient_quota"}
    provider.script([Reply(status=429, error=error, headers={"retry-after": "5"})])
    found = await failure(gateway, call())
    assert (found.kind, found.retryable, found.retry_after) == (ReasonKind.PROVIDER_ERROR, False, None)
    assert "quota" in found.reason


@pytest.mark.parametrize("deployment", ADAPTERS)
async def test_the_provider_names_its_own_wait_in_seconds(
    gateway: Gateway, provider: ScriptedProvider, deployment: str
) -> None:
    provider.script([Reply(status=429, error={"message": "slow down"}, headers={"Retry-After": "17"})])
    assert (await failure(gateway, call(deployment))).retry_after == 17.0


async def test_the_provider_names_its_own_wait_as_a_date(
    gateway: Gateway, provider: ScriptedProvider
) -> None:
    then = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    provider.script([Reply(status=503, headers={"Retry-After": then})])
    wait = (await failure(gateway, call())).retry_after
    assert wait is not None
    assert 3000 < wait <= 3600


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:05 GMT"}, 5.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "Thu, 99 Jan 2026 00:00:05 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_strictly(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers, datetime(2026, 1, 1, tzinfo=UTC)) == expected


@pytest.mark.parametrize("deployment", ADAPTERS)
async def test_p16_a_provider_that_never_answers_is_a_timeout_and_is_hung_up_on(
    gateway: Gateway, provider: ScriptedProvider, deployment: str
) -> None:
    provider.script([Reply(behaviour="hang")])
    found = await failure(gateway, call(deployment, timeout_seconds=0.3))
    assert found.kind is ReasonKind.TIMEOUT
    assert "0.3 s" in found.reason
    assert await asyncio.to_thread(provider.wait_abandoned, 1)


async def test_p16_a_slow_drip_is_a_timeout_though_every_read_succeeds(
    gateway: Gateway, provider: ScriptedProvider
) -> None:
    provider.script([Reply(behaviour="drip", delay_seconds=0.05, text="x")])
    assert (await failure(gateway, call(timeout_seconds=0.5))).kind is ReasonKind.TIMEOUT
    assert await asyncio.to_thread(provider.wait_abandoned, 1)


async def test_p16_stuck_calls_do_not_hold_up_a_healthy_one(
    gateway: Gateway, provider: ScriptedProvider
) -> None:
    provider.script([Reply(behaviour="hang")] * 8 + [Reply(text="fair")])
    stuck = [asyncio.create_task(failure(gateway, call(timeout_seconds=20.0))) for _ in range(8)]
    assert await asyncio.to_thread(provider.wait_requests, 8)
    assert (await gateway.complete(call())).text == "fair"
    assert not any(task.done() for task in stuck)
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    assert await asyncio.to_thread(provider.wait_abandoned, 8)


async def test_a_cancelled_call_hangs_up_and_stays_cancelled(
    gateway: Gateway, provider: ScriptedProvider
) -> None:
    provider.script([Reply(behaviour="hang")])
    task = asyncio.create_task(gateway.complete(call()))
    assert await asyncio.to_thread(provider.wait_requests, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(provider.wait_abandoned, 1)


async def test_a_refused_connection_may_be_retried() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    deployment = {"adapter": "openai_compatible", "base_url": base_url}
    async with Gateway(GatewayConfig.parse({"deployments": {"local": deployment}}), {}) as gateway:
        found = await failure(gateway, call("local"))
    assert (found.kind, found.retryable) == (ReasonKind.PROVIDER_ERROR, True)
    assert "no connection to 127.0.0.1" in found.reason


@pytest.mark.parametrize("deployment", ADAPTERS)
async def test_a_connection_that_breaks_off_may_be_retried(
    gateway: Gateway, provider: ScriptedProvider, deployment: str
) -> None:
    provider.script([Reply(behaviour="drop")])
    found = await failure(gateway, call(deployment))
    assert (found.kind, found.retryable) == (ReasonKind.PROVIDER_ERROR, True)
    assert "closed the connection" in found.reason


@pytest.mark.parametrize("deployment", ADAPTERS)
@pytest.mark.parametrize(
    "reply",
    [
        Reply(body="<html>Bad gateway</html>", content_type="text/html"),
        Reply(body='{"choices": []}', content_type="text/plain"),
        Reply(body="<html>", content_type="application/json"),
        Reply(body="", content_type="application/json"),
        Reply(body="[1]"),
        Reply(body='"yes"'),
        Reply(body='{"choices": 5, "content": 5, "candidates": 5}'),
        Reply(body='{"choices": [{}], "content": "x", "candidates": [1]}'),
        Reply(body='{"choices": [{"message": {"content": 5}}], "content": [{"type": "text", "text": 5}]}'),
        Reply(body='{"choices": NaN}'),
        Reply(body="[" * 100_000),
    ],
    ids=lambda reply: repr(reply.body)[:24],
)
async def test_a_success_that_is_no_answer_is_a_provider_error(
    gateway: Gateway, provider: ScriptedProvider, deployment: str, reply: Reply
) -> None:
    provider.script([reply])
    found = await failure(gateway, call(deployment))
    assert (found.kind, found.retryable) == (ReasonKind.PROVIDER_ERROR, True)
    assert "html" not in found.reason.lower()


@pytest.mark.parametrize("deployment", ["openai", "gemini"])
async def test_an_answer_without_choices_is_a_provider_error(
    gateway: Gateway, provider: ScriptedProvider, deployment: str
) -> None:
    provider.script([Reply(behaviour="no_choices")])
    found = await failure(gateway, call(deployment))
    assert (found.kind, found.retryable) == (ReasonKind.PROVIDER_ERROR, True)


async def test_two_choices_are_not_one_answer(gateway: Gateway, provider: ScriptedProvider) -> None:
    choice = '{"finish_reason": "stop", "message": {"content": "a"}}'
    provider.script([Reply(body=f'{{"choices": [{choice}, {choice}]}}')])
    assert (await failure(gateway, call())).kind is ReasonKind.PROVIDER_ERROR


async def test_p63_a_reply_of_three_megabytes_is_over_the_limit_and_not_retried(
    gateway: Gateway, provider: ScriptedProvider
) -> None:
    provider.script([Reply(text="x" * 3_000_000)])
    found = await failure(gateway, call())
    assert (found.kind, found.retryable) == (ReasonKind.LIMIT_EXCEEDED, False)
    assert "3000000" in found.reason


async def test_an_answer_without_end_is_dropped_at_the_limit(
    gateway: Gateway, provider: ScriptedProvider
) -> None:
    provider.script([Reply(body=" " * (17 * 1024 * 1024))])
    found = await failure(gateway, call())
    assert (found.kind, found.retryable) == (ReasonKind.LIMIT_EXCEEDED, False)


async def test_an_unasked_compression_is_not_unpacked(gateway: Gateway, provider: ScriptedProvider) -> None:
    provider.script([Reply(text="x", headers={"content-encoding": "gzip, gzip"})])
    assert (await failure(gateway, call())).kind is ReasonKind.PROVIDER_ERROR
    assert provider.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("deployment", "model", "words"),
    [
        ("absent", "gpt-6-luna", "no deployment 'absent'"),
        ("narrow", "gpt-7", "does not offer the model 'gpt-7'"),
        ("keyless", "gpt-6-luna", "needs NOT_SET"),
    ],
)
async def test_what_is_not_configured_is_said_and_nothing_is_sent(
    gateway: Gateway, provider: ScriptedProvider, deployment: str, model: str, words: str
) -> None:
    found = await failure(gateway, call(deployment, model=model))
    assert (found.kind, found.retryable) == (ReasonKind.NOT_CONFIGURED, False)
    assert words in found.reason
    assert provider.requests == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("anthropic", "needs ANTHROPIC_API_KEY"),
        ("google", "needs GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("vertex", "needs VERTEX_API_KEY"),
        ("acme", "set ACME_BASE_URL"),
    ],
)
async def test_the_native_route_names_the_variable_it_misses(gateway: Gateway, name: str, words: str) -> None:
    found = await failure(gateway, call(None, provider=name))
    assert found.kind is ReasonKind.NOT_CONFIGURED
    assert words in found.reason


async def test_an_image_url_is_never_fetched_from_here(gateway: Gateway, provider: ScriptedProvider) -> None:
    image = {"type": "url", "url": "http://169.254.169.254/latest/meta-data"}
    messages = (RenderedMessage("user", (BlockPart("image", image),)),)
    for deployment in ("claude", "gemini", "vertex"):
        found = await failure(gateway, call(deployment, messages=messages))
        assert found.kind is ReasonKind.NOT_CONFIGURED
    assert provider.requests == []


async def test_a_stop_word_of_the_providers_own_is_passed_on_as_it_is(
    gateway: Gateway, provider: ScriptedProvider
) -> None:
    provider.script([Reply(text="x", finish_reason="ran_dry")])
    replies: list[ModelReply] = [await gateway.complete(call(name)) for name in ADAPTERS]
    assert [reply.finish_reason for reply in replies] == ["ran_dry"] * 3


@pytest.mark.parametrize("deployment", ADAPTERS)
async def test_p07_the_stop_cause_comes_through(
    gateway: Gateway, provider: ScriptedProvider, deployment: str
) -> None:
    complete = '{"outcome":"passed","reason":"ok","citations":[]}'
    provider.script([Reply(text=complete, finish_reason="length")])
    assert (await gateway.complete(call(deployment))).finish_reason == "length"
    provider.script([Reply(text=None, finish_reason="content_filter")])
    reply = await gateway.complete(call(deployment))
    assert reply.finish_reason == ("refusal" if deployment == "claude" else "content_filter")
    assert reply.text is None


async def test_p07_a_refusal_comes_through_beside_a_null_content(
    gateway: Gateway, provider: ScriptedProvider
) -> None:
    provider.script([Reply(text=None, refusal="I cannot help with that")])
    reply = await gateway.complete(call())
    assert (reply.text, reply.refusal) == (None, "I cannot help with that")


@pytest.mark.parametrize(
    "text",
    [
        'Sure! {"outcome":"passed"}',
        '{"outcome":"passed"} {"outcome":"failed"}',
        '<think>hm</think>{"outcome":"passed"}',
        '```json\n{"outcome":"passed"}\n```',
        '  {"outcome" : "passed", "outcome":"failed"}\n',
        "",
        "\u2028é\U0001f600",
    ],
)
@pytest.mark.parametrize("deployment", ADAPTERS)
async def test_p05_the_text_is_handed_on_character_for_character(
    gateway: Gateway, provider: ScriptedProvider, deployment: str, text: str
) -> None:
    provider.script([Reply(text=text)])
    assert (await gateway.complete(call(deployment))).text == text
