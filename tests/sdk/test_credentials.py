"""Which credential and server a client uses, and how its token lives."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from tests.sdk.peer import KEY, Answer, Peer, problem
from wyrd import WyrdClient, WyrdError, aio


def test_a_client_makes_no_request_when_constructed(peer: Peer) -> None:
    WyrdClient(peer.url, KEY).close()
    assert peer.seen == []


def test_without_a_credential_there_is_a_clear_error_and_no_request(peer: Peer) -> None:
    with pytest.raises(WyrdError) as error:
        WyrdClient(peer.url)
    assert error.value.code == "WYRD_CLIENT_401_NO_CREDENTIALS"
    assert peer.seen == []


def _saved(home: Path, text: str) -> None:
    folder = home / ".config" / "wyrd"
    folder.mkdir(parents=True)
    (folder / "credentials.toml").write_text(text, encoding="utf-8")


def test_credentials_are_looked_for_in_order(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, bare_environment: Path
) -> None:
    def used() -> str:
        with WyrdClient(peer.url) as client:
            return client.access_token()

    _saved(bare_environment, '[default]\napi_key = "from-login"\n')
    assert used() == "from-login"
    Path(".wyrd").mkdir()
    Path(".wyrd/dev-key").write_text("from-dev-key\n", encoding="utf-8")
    assert used() == "from-dev-key"
    monkeypatch.setenv("WYRD_API_KEY", "from-key")
    assert used() == "from-key"
    monkeypatch.setenv("WYRD_ACCESS_TOKEN", "from-token")
    assert used() == "from-token"
    with WyrdClient(peer.url, "from-argument") as client:
        assert client.access_token() == "from-argument"
    assert peer.seen == [], "none of these is an API key, so nothing is exchanged"


def test_the_dev_key_is_not_sent_to_a_server_elsewhere() -> None:
    Path(".wyrd").mkdir()
    Path(".wyrd/dev-key").write_text("wyrd_sk_dev", encoding="utf-8")
    with pytest.raises(WyrdError) as error:
        WyrdClient("https://wyrd.example.com")
    assert error.value.code == "WYRD_CLIENT_401_NO_CREDENTIALS"


@pytest.mark.parametrize("text", ["[default", "\x00\x01"])
def test_a_saved_login_that_is_no_toml_is_refused(peer: Peer, bare_environment: Path, text: str) -> None:
    _saved(bare_environment, text)
    with pytest.raises(WyrdError) as error:
        WyrdClient(peer.url)
    assert error.value.code == "WYRD_CLIENT_401_SAVED_LOGIN_UNUSABLE"


@pytest.mark.parametrize(
    "url",
    [
        "http://wyrd.example.com",
        "http://10.0.0.1:8080",
        "ftp://localhost",
        "localhost:8080",
        "http://user:secret@localhost",
        "https://",
        "https://x/?token=1",
        "http://[::1",
        "http://localhost:99999",
    ],
)
def test_addresses_that_are_unsafe_or_none_are_refused_locally(url: str) -> None:
    with pytest.raises(WyrdError) as error:
        WyrdClient(url, KEY)
    assert error.value.code == "WYRD_CLIENT_400_CONFIG_INVALID"
    assert error.value.details["field"] == "http_config.base_url"


@pytest.mark.parametrize(
    ("url", "grpc"),
    [
        ("http://localhost:8080/", "http://localhost:50051"),
        ("http://[::1]:8080", "http://[::1]:50051"),
        ("https://wyrd.example.com/base", "https://wyrd.example.com:50051"),
    ],
)
def test_the_grpc_port_is_the_servers_own_unless_said_otherwise(url: str, grpc: str) -> None:
    with WyrdClient(url, KEY) as client:
        assert client.grpc_url == grpc
        assert not client.server_url.endswith("/")


def test_an_api_key_is_exchanged_once_and_sent_in_our_header(peer: Peer, client: WyrdClient) -> None:
    card = peer.store("Prompt", "some-prompt", {})
    from wyrd import Cards

    cards = Cards(client)
    for _ in range(2):
        cards.get(f"default/Prompt/some-prompt@1.0.0#{card['uid']}")
    (exchange,) = peer.requests("POST", "/auth/token")
    assert exchange.headers["content-type"] == "application/x-www-form-urlencoded"
    assert exchange.headers["accept"] == "application/json"
    assert "wyrd-request-id" not in exchange.headers
    form = httpx.QueryParams(exchange.body.decode())
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert form["subject_token"] == KEY
    assert form["client_id"] == "wyrd-cli"
    for one in peer.requests("GET", f"/v1/cards/by-uid/Prompt/{card['uid']}"):
        assert one.headers["x-wyrd-access-token"] == "Bearer token-1"
        assert "authorization" not in one.headers


def test_a_token_with_under_30_seconds_left_is_exchanged_again(peer: Peer, client: WyrdClient) -> None:
    peer.expires_in = 29
    assert [client.access_token(), client.access_token()] == ["token-1", "token-2"]
    peer.expires_in = 3600
    assert [client.access_token(), client.access_token()] == ["token-3", "token-3"]


def test_threads_share_one_exchange(peer: Peer, client: WyrdClient) -> None:
    threads = [threading.Thread(target=client.access_token) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(peer.tokens) == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            Answer(401, {"error": "invalid_client", "error_description": "no such key"}),
            "WYRD_AUTH_401_UNAUTHENTICATED",
        ),
        (Answer(400, {"error": "invalid_grant"}), "WYRD_AUTH_401_INVALID_TOKEN"),
        (problem(401, "WYRD_AUTH_401_API_KEY_INVALID"), "WYRD_AUTH_401_API_KEY_INVALID"),
        (Answer(200, {"access_token": "x"}), "WYRD_SPEC_502_UPSTREAM_FAILURE"),
        (Answer(200, raw=b"<html>"), "WYRD_SPEC_502_UPSTREAM_FAILURE"),
        (problem(503, "WYRD_SERVER_503_NOT_READY"), "WYRD_SERVER_503_NOT_READY"),
    ],
)
def test_a_refused_exchange_says_why_after_one_attempt(
    peer: Peer, client: WyrdClient, answer: Answer, code: str
) -> None:
    peer.queue("POST", "/auth/token", answer)
    with pytest.raises(WyrdError) as error:
        client.access_token()
    assert error.value.code == code
    assert len(peer.seen) == 1
    assert KEY not in str(error.value)


def test_http_auth_takes_the_place_of_provider_credentials(peer: Peer, client: WyrdClient) -> None:
    foreign = {"authorization": "Bearer sk-x", "x-api-key": "x", "x-goog-api-key": "x"}
    with httpx.Client(auth=client.http_auth, trust_env=False) as http:
        http.post(f"{peer.url}/v1/chat/completions", json={}, headers=foreign)
    (seen,) = peer.requests("POST", "/v1/chat/completions")
    assert seen.headers["x-wyrd-access-token"] == "Bearer token-1"
    assert not foreign.keys() & seen.headers.keys()


async def test_http_auth_works_in_an_async_client_of_both_surfaces(peer: Peer, client: WyrdClient) -> None:
    async with aio.WyrdClient(peer.url, KEY) as other:
        for auth in (client.http_auth, other.http_auth):
            async with httpx.AsyncClient(auth=auth, trust_env=False) as http:
                await http.post(f"{peer.url}/v1/chat/completions", json={})
    seen = peer.requests("POST", "/v1/chat/completions")
    assert [one.headers["x-wyrd-access-token"] for one in seen] == ["Bearer token-1", "Bearer token-2"]


def test_http_auth_keeps_the_token_from_other_servers(client: WyrdClient) -> None:
    with httpx.Client(auth=client.http_auth, trust_env=False) as http, pytest.raises(WyrdError) as error:
        http.get("http://localhost:1/elsewhere")
    assert error.value.code == "WYRD_CLIENT_400_CONFIG_INVALID"


def test_no_representation_shows_the_secret(client: WyrdClient) -> None:
    assert KEY not in repr(client)
    assert KEY not in repr(client._transport.credential)
