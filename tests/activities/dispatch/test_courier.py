"""One attempt on real connections: what is sent, what counts as delivered, and where it may go."""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from activities.dispatch.courier import RETRIED, Courier, Outcome
from activities.dispatch.requests import DispatchRequest
from store.dispatches import DispatchFault
from store.settings import Settings
from tests.receivers import (
    CLOSE,
    ENDLESS,
    HANG,
    SLACK_LIMITED,
    Answer,
    PagerDuty,
    Receiver,
    receiving,
    slack,
    slack_error,
)

TOKEN = "xoxb-token"
ROUTING_KEY = "routing-key-of-32-characters-xyz"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as opened:
        yield opened


def courier(allowed: str = "127.0.0.1", **settings: Any) -> Courier:
    return Courier(Settings(operator_destinations=(allowed,), **settings))


async def attempt(
    request: DispatchRequest,
    secret: Mapping[str, str] | None = None,
    *,
    by: Courier | None = None,
    number: int = 1,
    limit: float = 10.0,
) -> Outcome:
    return await (by or courier()).attempt(
        request, secret, dispatch_id="the-dispatch", number=number, limit=limit
    )


def to(url: str, **more: Any) -> DispatchRequest:
    return DispatchRequest(provider="http", url=url, **more)


def fault(outcome: Outcome) -> DispatchFault | None:
    return None if outcome.error is None else outcome.error.code


async def test_p20_every_attempt_carries_the_same_id_and_bytes_and_its_own_number(receiver: Receiver) -> None:
    request = to(f"{receiver.url}/hook?a=1", body='{"a": "\\u2603"}', headers={"X-Own": "yes"})
    receiver.next(CLOSE)
    assert fault(await attempt(request, number=1)) is DispatchFault.DESTINATION_UNREACHABLE
    assert fault(await attempt(request, number=2)) is None
    one, two = receiver.received
    assert (one.method, one.target, one.body) == ("POST", "/hook?a=1", b'{"a": "\\u2603"}')
    assert one.body == two.body
    assert one.headers["idempotency-key"] == two.headers["idempotency-key"] == "the-dispatch"
    assert (one.headers["wyrd-attempt"], two.headers["wyrd-attempt"]) == ("1", "2")
    assert {**one.headers, "wyrd-attempt": ""} == {**two.headers, "wyrd-attempt": ""}
    assert one.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert one.headers["x-own"] == "yes"


@pytest.mark.parametrize(
    ("scheme", "header", "secret", "name", "value"),
    [
        ("bearer", None, {"token": "abc"}, "authorization", "Bearer abc"),
        (
            "basic",
            None,
            {"username": "desk", "password": "p\N{LATIN SMALL LETTER A WITH DIAERESIS}ss:word"},
            "authorization",
            "Basic "
            + base64.b64encode("desk:p\N{LATIN SMALL LETTER A WITH DIAERESIS}ss:word".encode()).decode(),
        ),
        ("header", "X-Api-Key", {"value": "abc"}, "x-api-key", "abc"),
    ],
)
async def test_a_credential_goes_where_its_scheme_says(
    receiver: Receiver, scheme: Any, header: str | None, secret: dict[str, str], name: str, value: str
) -> None:
    outcome = await attempt(to(receiver.url, auth_scheme=scheme, auth_header=header), secret)
    assert fault(outcome) is None
    assert receiver.received[0].headers[name] == value


async def test_a_path_arrives_as_it_was_escaped(receiver: Receiver) -> None:
    target = "/a%2Fb%3Fc%23d/%2e%2e%20%E2%98%83/x?g=%26%3D%2B%25&empty="
    assert fault(await attempt(to(f"{receiver.url}{target}"))) is None
    assert receiver.received[0].target == target


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_the_authored_method_is_used(receiver: Receiver, method: str) -> None:
    assert fault(await attempt(to(receiver.url, method=method))) is None
    assert (receiver.received[0].method, receiver.received[0].body) == (method, b"")


@pytest.mark.parametrize(
    ("status", "expected", "code"),
    [
        (200, None, None),
        (204, None, None),
        (299, None, None),
        (201, 201, None),
        (200, 201, DispatchFault.PROVIDER_REJECTED),
        (404, 404, None),
        (302, 302, None),
        (503, 503, None),
        (300, None, DispatchFault.PROVIDER_REJECTED),
        (304, None, DispatchFault.PROVIDER_REJECTED),
        (400, None, DispatchFault.PROVIDER_REJECTED),
        (401, None, DispatchFault.PROVIDER_REJECTED),
        (403, None, DispatchFault.PROVIDER_REJECTED),
        (404, None, DispatchFault.PROVIDER_REJECTED),
        (408, None, DispatchFault.PROVIDER_TRANSIENT),
        (409, None, DispatchFault.PROVIDER_REJECTED),
        (422, None, DispatchFault.PROVIDER_REJECTED),
        (429, None, DispatchFault.PROVIDER_TRANSIENT),
        (500, None, DispatchFault.PROVIDER_TRANSIENT),
        (502, 200, DispatchFault.PROVIDER_TRANSIENT),
        (503, None, DispatchFault.PROVIDER_TRANSIENT),
        (504, None, DispatchFault.PROVIDER_TRANSIENT),
    ],
)
async def test_p21_what_an_answer_means(
    receiver: Receiver, status: int, expected: int | None, code: DispatchFault | None
) -> None:
    receiver.next(Answer(status, b""))
    outcome = await attempt(to(receiver.url, expect_status=expected))
    assert (outcome.status_code, fault(outcome)) == (status, code)
    assert (code in RETRIED) is (code is DispatchFault.PROVIDER_TRANSIENT)


async def test_a_refused_credential_is_told_apart(receiver: Receiver) -> None:
    receiver.next(Answer(401))
    outcome = await attempt(to(receiver.url, auth_scheme="bearer"), {"token": "wrong"})
    assert fault(outcome) is DispatchFault.CREDENTIAL_INVALID


async def test_p21_a_receiver_that_hangs_runs_out_of_its_time(receiver: Receiver) -> None:
    receiver.next(HANG)
    assert fault(await attempt(to(receiver.url), limit=0.3)) is DispatchFault.ATTEMPT_TIMED_OUT


async def test_an_endless_answer_is_read_no_further_than_it_is_looked_at(receiver: Receiver) -> None:
    receiver.next(ENDLESS)
    assert fault(await attempt(to(receiver.url))) is None


async def test_p21_nobody_listening_is_unreachable_and_may_come_up_later() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        outcome = await attempt(to(f"http://127.0.0.1:{held.getsockname()[1]}/"))
    assert fault(outcome) is DispatchFault.DESTINATION_UNREACHABLE


@pytest.mark.parametrize(
    ("told", "least", "most"),
    [
        ("3600", 3600, 3600),
        ("0", 0, 0),
        ("-5", 0, 0),
        ("1e300", 86_400, 86_400),
        ("Fri, 31 Dec 2100 23:59:59 GMT", 86_400, 86_400),
        ("Fri, 01 Jan 2021 00:00:00 GMT", 0, 0),
        ("nan", None, None),
        ("soon", None, None),
        ("", None, None),
    ],
)
async def test_retry_after_is_read_as_seconds_and_as_a_date(
    receiver: Receiver, told: str, least: float | None, most: float | None
) -> None:
    receiver.next(Answer(429, b"", {"retry-after": told}))
    found = (await attempt(to(receiver.url))).retry_after
    if least is None or most is None:
        assert found is None
    else:
        assert found is not None
        assert least <= found <= most


def moved(status: int, location: str) -> Answer:
    return Answer(status, b"", {"location": location})


async def test_redirects_within_the_origin_are_followed_three_times(receiver: Receiver) -> None:
    request = to(f"{receiver.url}/0", body="{}", auth_scheme="bearer")
    receiver.next(moved(302, "/1"), moved(307, "2?x=1"), moved(308, f"{receiver.url}/3"))
    assert fault(await attempt(request, {"token": "abc"})) is None
    assert [(one.method, one.target, one.body) for one in receiver.received] == [
        ("POST", target, b"{}") for target in ("/0", "/1", "/2?x=1", "/3")
    ]
    assert {one.headers["authorization"] for one in receiver.received} == {"Bearer abc"}
    receiver.always(moved(302, "/again"))
    receiver.received.clear()
    assert fault(await attempt(request)) is DispatchFault.PROVIDER_REJECTED
    assert len(receiver.received) == 4


async def test_see_other_is_fetched_without_the_body(receiver: Receiver) -> None:
    receiver.next(moved(303, "/done"))
    assert fault(await attempt(to(receiver.url, body="{}"))) is None
    assert [(one.method, one.body) for one in receiver.received] == [("POST", b"{}"), ("GET", b"")]


async def test_p21_a_redirect_to_another_origin_is_refused_and_the_other_never_hears_of_it(
    receiver: Receiver,
) -> None:
    async with receiving() as other:
        for location in (
            other.url,
            f"//127.0.0.1:{other.port}/",
            f"https://127.0.0.1:{receiver.port}/",
            f"http://localhost:{receiver.port}/",
            f"http://127.0.0.1:{receiver.port}@127.0.0.1:{other.port}/",
        ):
            receiver.next(moved(302, location))
            outcome = await attempt(to(receiver.url, auth_scheme="bearer"), {"token": "abc"})
            assert fault(outcome) is DispatchFault.DESTINATION_REJECTED
        assert other.connections == 0


async def test_p21_a_private_destination_is_refused_before_anything_is_sent(receiver: Receiver) -> None:
    public_only = Courier(Settings())
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        outcome = await attempt(to(f"http://{host}:{receiver.port}/"), by=public_only)
        assert fault(outcome) is DispatchFault.DESTINATION_REJECTED
    assert receiver.connections == 0
    metadata = await attempt(to("http://169.254.169.254/latest/meta-data/"), by=public_only)
    assert fault(metadata) is DispatchFault.DESTINATION_REJECTED


async def test_the_name_is_looked_up_once_and_what_was_screened_is_connected_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name whose second answer would be another address (DNS rebinding)."""
    real, asked = socket.getaddrinfo, []

    def look_up(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host != "hooks.test":
            return real(host, port, *more, **named)
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "127.0.0.2"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    outcome = await attempt(to(f"http://hooks.test:{receiver.port}/"), by=courier("127.0.0.1/32"))
    assert fault(outcome) is None
    assert asked == ["hooks.test"]
    assert receiver.received[0].headers["host"] == f"hooks.test:{receiver.port}"
    again = await attempt(to(f"http://hooks.test:{receiver.port}/"), by=courier("127.0.0.1/32"))
    assert fault(again) is DispatchFault.DESTINATION_REJECTED


async def test_proxies_of_the_environment_are_not_asked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert fault(await attempt(to(receiver.url))) is None
        assert proxy.connections == 0


def certificate(folder: Path, host: str) -> Path:
    """A self-signed certificate with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{host}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


async def test_tls_is_for_the_name_although_the_address_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certificate(tmp_path, "localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    named: list[str | None] = []
    tls.sni_callback = lambda _socket, name, _context: named.append(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    trusting = courier("localhost")
    async with receiving(tls=tls) as receiver:
        outcome = await attempt(to(f"https://localhost:{receiver.port}/"), by=trusting)
        assert fault(outcome) is None
        assert set(named) == {"localhost"}
        monkeypatch.delenv("SSL_CERT_FILE")
        untrusted = await attempt(to(f"https://localhost:{receiver.port}/"), by=courier("localhost"))
        assert fault(untrusted) is DispatchFault.DESTINATION_UNREACHABLE
        assert len(receiver.received) == 1


def message(channel: str = "C0SUPPORT", text: str = "hello") -> DispatchRequest:
    return DispatchRequest(
        provider="slack",
        connection="desk",
        headers={"content-type": "application/json; charset=utf-8"},
        body=json.dumps({"channel": channel, "text": text}),
    )


async def test_slack_has_posted_it_only_when_it_says_ok() -> None:
    async with receiving(slack(TOKEN)) as workspace:
        by = courier(slack_url=workspace.url)
        assert fault(await attempt(message(), {"bot_token": TOKEN}, by=by)) is None
        wrong = await attempt(message(), {"bot_token": "another"}, by=by)
        assert (fault(wrong), wrong.status_code) == (DispatchFault.CREDENTIAL_INVALID, 200)
        nowhere = await attempt(message("C0NOWHERE"), {"bot_token": TOKEN}, by=by)
        assert fault(nowhere) is DispatchFault.PROVIDER_REJECTED
        assert nowhere.error is not None
        assert "channel_not_found" in nowhere.error.message
        assert {one.target for one in workspace.received} == {"/api/chat.postMessage"}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (slack_error("ratelimited"), DispatchFault.PROVIDER_TRANSIENT),
        (SLACK_LIMITED, DispatchFault.PROVIDER_TRANSIENT),
        (slack_error("internal_error"), DispatchFault.PROVIDER_TRANSIENT),
        (slack_error("fatal_error"), DispatchFault.PROVIDER_TRANSIENT),
        (slack_error("service_unavailable"), DispatchFault.PROVIDER_TRANSIENT),
        (slack_error("token_revoked"), DispatchFault.CREDENTIAL_INVALID),
        (slack_error("is_archived"), DispatchFault.PROVIDER_REJECTED),
        (slack_error("<script>"), DispatchFault.PROVIDER_REJECTED),
        (Answer.of({"ok": "true"}), DispatchFault.PROVIDER_REJECTED),
        (Answer.of([]), DispatchFault.PROVIDER_TRANSIENT),
        (Answer(200, b"<html>"), DispatchFault.PROVIDER_TRANSIENT),
        (Answer(200, b'{"ok": true, "x": "' + b"x" * 70_000 + b'"}'), DispatchFault.PROVIDER_TRANSIENT),
    ],
)
async def test_p21_slack_answers_that_are_no_success(answer: Answer, code: DispatchFault) -> None:
    async with receiving(slack(TOKEN)) as workspace:
        workspace.next(answer)
        outcome = await attempt(message(), {"bot_token": TOKEN}, by=courier(slack_url=workspace.url))
        assert fault(outcome) is code
        assert outcome.error is not None
        assert "<" not in outcome.error.message


async def test_p20_pager_duty_makes_one_incident_of_two_attempts() -> None:
    playing = PagerDuty(ROUTING_KEY)
    payload = {"summary": "s", "source": "a/Service/b@1.0.0", "severity": "error", "custom_details": {}}
    body = json.dumps({"event_action": "trigger", "dedup_key": "the-dispatch", "payload": payload})
    request = DispatchRequest(
        provider="pager_duty", connection="p", headers={"content-type": "application/json"}, body=body
    )
    async with receiving(playing) as service:
        by = courier(pager_duty_url=service.url)
        for number in (1, 2):
            outcome = await attempt(request, {"integration_key": ROUTING_KEY}, by=by, number=number)
            assert (outcome.status_code, fault(outcome)) == (202, None)
        assert playing.incidents == {"the-dispatch": 2}
        assert len({one.body for one in service.received}) == 1
        wrong = await attempt(request, {"integration_key": "another"}, by=by)
        assert (wrong.status_code, fault(wrong)) == (400, DispatchFault.PROVIDER_REJECTED)


async def test_no_log_record_holds_a_secret(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.next(Answer(500, b"you sent secret-of-the-test"))
    outcome = await attempt(to(receiver.url, auth_scheme="bearer"), {"token": "secret-of-the-test"})
    assert fault(outcome) is DispatchFault.PROVIDER_TRANSIENT
    told = [record.getMessage() + str(record.args) for record in caplog.records]
    assert told
    assert not [line for line in [*told, str(outcome)] if "secret-of-the-test" in line]
