"""Retries, the renewal after a 401, request ids, and what errors become."""

from __future__ import annotations

import threading

import pytest

from tests.sdk.peer import KEY, Answer, Peer, problem
from wyrd import Cards, WyrdClient, WyrdError, aio
from wyrd._client.calls import Call
from wyrd.wire.ids import is_uuid7

PATH = "/v1/thing"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses asked for, without their length."""
    asked: list[float] = []
    monkeypatch.setattr("wyrd._client.transport.time.sleep", asked.append)
    return asked


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_be_repeated_has_three_attempts_under_one_request_id(
    peer: Peer, client: WyrdClient, short_pauses: list[float], status: int
) -> None:
    peer.queue("GET", PATH, *[problem(status, "WYRD_SERVER_503_NOT_READY")] * 3)
    with pytest.raises(WyrdError) as error:
        client._run(Call("GET", PATH).value(client.server_url))
    assert error.value.code == "WYRD_SERVER_503_NOT_READY"
    seen = peer.requests("GET", PATH)
    assert len(seen) == 3
    (request_id,) = {one.headers["wyrd-request-id"] for one in seen}
    assert is_uuid7(request_id)
    assert short_pauses == [0.1, 1.0]


def test_503_then_200_is_an_ordinary_answer(peer: Peer, client: WyrdClient) -> None:
    peer.queue("GET", PATH, problem(503, "WYRD_SERVER_503_NOT_READY"), Answer(body={"ok": True}))
    assert client._run(Call("GET", PATH).value(client.server_url)) == {"ok": True}


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422, 507])
def test_a_refusal_is_not_repeated(peer: Peer, client: WyrdClient, status: int) -> None:
    peer.queue("GET", PATH, problem(status, "WYRD_SPEC_409_CONFLICT"))
    with pytest.raises(WyrdError):
        client._run(Call("GET", PATH).value(client.server_url))
    assert len(peer.requests("GET", PATH)) == 1


def test_a_post_is_repeated_only_under_an_idempotency_key(peer: Peer, client: WyrdClient) -> None:
    peer.queue("POST", PATH, *[problem(503, "WYRD_SERVER_503_NOT_READY")] * 4)
    with pytest.raises(WyrdError):
        client._run(Call("POST", PATH, json={}).value(client.server_url))
    assert len(peer.requests("POST", PATH)) == 1
    with pytest.raises(WyrdError):
        client._run(Call("POST", PATH, json={}, idempotency_key="key-0001").value(client.server_url))
    repeated = peer.requests("POST", PATH)[1:]
    assert [one.headers["idempotency-key"] for one in repeated] == ["key-0001"] * 3


def test_a_401_exchanges_the_key_again_once_even_for_a_post(peer: Peer, client: WyrdClient) -> None:
    peer.queue("POST", PATH, problem(401, "WYRD_AUTH_401_TOKEN_EXPIRED"), Answer(body={"ok": True}))
    assert client._run(Call("POST", PATH, json={}).value(client.server_url)) == {"ok": True}
    sent = [one.headers["x-wyrd-access-token"] for one in peer.requests("POST", PATH)]
    assert sent == ["Bearer token-1", "Bearer token-2"]


def test_a_second_401_is_raised(peer: Peer, client: WyrdClient) -> None:
    peer.queue("GET", PATH, *[problem(401, "WYRD_AUTH_401_INVALID_TOKEN")] * 3)
    with pytest.raises(WyrdError) as error:
        client._run(Call("GET", PATH).value(client.server_url))
    assert error.value.code == "WYRD_AUTH_401_INVALID_TOKEN"
    assert len(peer.requests("GET", PATH)) == 2


def test_a_given_token_cannot_be_renewed_so_its_401_is_final(peer: Peer) -> None:
    peer.queue("GET", PATH, *[problem(401, "WYRD_AUTH_401_TOKEN_EXPIRED")] * 2)
    with WyrdClient(peer.url, "a-token") as client, pytest.raises(WyrdError):
        client._run(Call("GET", PATH).value(client.server_url))
    assert len(peer.seen) == 1


def test_an_error_keeps_its_code_detail_and_details(peer: Peer, client: WyrdClient) -> None:
    details = {"path": "inputs.answer", "code": "x", "detail": "y"}
    peer.queue(
        "GET",
        PATH,
        Answer(400, {"code": "WYRD_SPEC_400_VALIDATION", "detail": "no", "details": details, "more": 1}),
    )
    with pytest.raises(WyrdError) as error:
        client._run(Call("GET", PATH).value(client.server_url))
    assert (error.value.code, error.value.message) == ("WYRD_SPEC_400_VALIDATION", "no")
    assert error.value.details == details


@pytest.mark.parametrize(
    ("answer", "original"),
    [
        (problem(418, "WYRD_TEA_418_POT", "short and stout", a=1), "WYRD_TEA_418_POT"),
        (Answer(500, raw=b"<html>oops"), None),
        (Answer(400, raw=b""), None),
        (Answer(302, raw=b"", headers={"location": "http://elsewhere.example.com"}), None),
        (Answer(400, ["not", "an", "object"]), None),
    ],
)
def test_what_is_no_error_of_ours_becomes_an_upstream_failure(
    peer: Peer, client: WyrdClient, answer: Answer, original: str | None
) -> None:
    peer.queue("POST", PATH, answer)
    with pytest.raises(WyrdError) as error:
        client._run(Call("POST", PATH, json={}).value(client.server_url))
    assert error.value.code == "WYRD_SPEC_502_UPSTREAM_FAILURE"
    assert error.value.message.startswith("server error:")
    assert error.value.details["original_code"] == original


@pytest.mark.parametrize(
    "answer",
    [
        Answer(204),
        Answer(200, raw=b""),
        Answer(200, raw=b"{"),
        Answer(200, raw=b'{"a": NaN}'),
        Answer(200, {"items": "no list"}),
        Answer(200, {"items": [{"card_uid": 1}]}),
    ],
)
def test_an_answer_that_does_not_fit_is_an_upstream_failure(
    peer: Peer, client: WyrdClient, answer: Answer
) -> None:
    peer.queue("GET", "/v1/cards", answer)
    with pytest.raises(WyrdError) as error:
        Cards(client).list()
    assert error.value.code == "WYRD_SPEC_502_UPSTREAM_FAILURE"


def test_a_silent_server_is_a_time_out_named_by_its_transport(peer: Peer, client: WyrdClient) -> None:
    hang = threading.Event()
    peer.queue("POST", PATH, Answer(hang=hang))
    with pytest.raises(WyrdError) as error:
        client._run(Call("POST", PATH, json={}, timeout=0.2).value(client.server_url))
    hang.set()
    assert error.value.code == "WYRD_SPEC_500_INTERNAL"
    assert error.value.details == {"transport": "http"}


def test_a_server_that_is_not_there_is_a_transport_failure(
    unused_port: int, short_pauses: list[float]
) -> None:
    with (
        WyrdClient(f"http://127.0.0.1:{unused_port}", "a-token") as client,
        pytest.raises(WyrdError) as error,
    ):
        Cards(client).list()
    assert error.value.code == "WYRD_CLIENT_503_TRANSPORT_DOWN"
    assert short_pauses == [0.1, 1.0]


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(
    peer: Peer, client: WyrdClient, monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port}")
    peer.queue("GET", PATH, Answer(body=1))
    assert client._run(Call("GET", PATH).value(client.server_url)) == 1


async def test_the_async_surface_retries_and_renews_by_the_same_rules(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    async def sleep(seconds: float) -> None:
        asked.append(seconds)

    monkeypatch.setattr("wyrd._client.async_transport.asyncio.sleep", sleep)
    peer.queue(
        "GET",
        "/v1/cards",
        problem(401, "WYRD_AUTH_401_TOKEN_EXPIRED"),
        problem(503, "WYRD_SERVER_503_NOT_READY"),
        Answer(body={"items": []}),
    )
    async with aio.WyrdClient(peer.url, KEY) as client:
        page = await aio.Cards(client).list(kind="Agent")
    assert page.items == []
    assert asked == [0.1]
    assert [one.headers["x-wyrd-access-token"] for one in peer.requests("GET", "/v1/cards")] == [
        "Bearer token-1",
        "Bearer token-2",
        "Bearer token-2",
    ]


def test_only_given_filters_are_sent(peer: Peer, client: WyrdClient) -> None:
    Cards(client).list(kind="Agent", limit=3)
    (seen,) = peer.requests("GET", "/v1/cards")
    assert seen.query == {"kind": "Agent", "limit": "3", "include_prerelease": "false"}
