"""One attempt to deliver: screen, connect to what was screened, send, and say how it went."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from activities.dispatch.requests import DispatchRequest
from activities.dispatch.screening import Destinations, Undeliverable
from store.dispatches import DispatchError, DispatchFault
from store.settings import Settings
from wyrd.wire.canonical import JsonRefused, strict_loads

ANSWER_BYTES = 64 * 1024
MOST_REDIRECTS = 3
ATTEMPT_HEADER = "Wyrd-Attempt"

RETRIED = frozenset(
    {
        DispatchFault.DESTINATION_UNREACHABLE,
        DispatchFault.ATTEMPT_TIMED_OUT,
        DispatchFault.PROVIDER_TRANSIENT,
    }
)
"""What another attempt may mend; everything else ends the dispatch."""

_SLACK_TRANSIENT = frozenset(
    {
        *("ratelimited", "rate_limited", "internal_error", "fatal_error"),
        *("service_unavailable", "request_timeout", "team_added_to_org"),
    }
)
_SLACK_CREDENTIAL = frozenset(
    {
        *("not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired"),
        *("org_login_required", "ekm_access_denied", "missing_scope", "not_allowed_token_type"),
    }
)
_SLACK_CODE = re.compile(r"[a-z0-9_]{1,64}")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_RETRY_AFTER = 86_400.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt went: `error` is None where it delivered. `retry_after`: seconds the provider asked
    for."""

    status_code: int | None
    error: DispatchError | None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: httpx.Headers
    body: bytes


class Courier:
    """Delivers for one process; every attempt has a connection of its own."""

    def __init__(self, settings: Settings) -> None:
        self._destinations = Destinations.allowing(settings.operator_destinations)
        self._addresses = {
            "slack": f"{settings.slack_url.rstrip('/')}/api/chat.postMessage",
            "pager_duty": f"{settings.pager_duty_url.rstrip('/')}/v2/enqueue",
        }
        self._tls = ssl.create_default_context()

    async def attempt(
        self,
        request: DispatchRequest,
        secret: Mapping[str, str] | None,
        *,
        dispatch_id: str,
        number: int,
        limit: float,
    ) -> Outcome:
        """Make one attempt within `limit` seconds. Never raises for what the other side does."""
        own = {"Idempotency-Key": dispatch_id, ATTEMPT_HEADER: str(number)}
        try:
            async with asyncio.timeout(limit):
                answer = await self._sent(request, secret, own)
        except TimeoutError:
            said = f"no answer within {limit:.3g} seconds"
            return Outcome(None, DispatchError(DispatchFault.ATTEMPT_TIMED_OUT, said))
        except Undeliverable as fault:
            return Outcome(None, DispatchError(fault.code, fault.message))
        return _judged(request, secret, answer)

    async def _sent(
        self, request: DispatchRequest, secret: Mapping[str, str] | None, own: Mapping[str, str]
    ) -> _Answer:
        """Send, and follow redirects within the origin."""
        url = _url(self._addresses.get(request.provider) or request.url or "")
        method, body = request.method, request.body
        for _ in range(MOST_REDIRECTS + 1):
            answer = await self._hop(request, secret, own, method, url, body)
            location = answer.headers.get("location")
            if answer.status == request.expect_status or answer.status not in _REDIRECTS or not location:
                return answer
            target = _joined(url, location)
            if _origin(target) != _origin(url):
                raise Undeliverable(
                    DispatchFault.DESTINATION_REJECTED, "the receiver redirected to another origin"
                )
            url = target
            if answer.status == 303:
                method, body = "GET", None
        raise Undeliverable(
            DispatchFault.PROVIDER_REJECTED, f"the receiver redirected more than {MOST_REDIRECTS} times"
        )

    async def _hop(
        self,
        request: DispatchRequest,
        secret: Mapping[str, str] | None,
        own: Mapping[str, str],
        method: str,
        url: httpx.URL,
        body: str | None,
    ) -> _Answer:
        port = url.port or (443 if url.scheme == "https" else 80)
        host = url.raw_host.decode("ascii")
        addresses = await self._destinations.screened(host, port)
        # From here on the destination is known to be fit for the credential.
        headers = httpx.Headers(
            {
                "Host": url.netloc.decode("ascii"),
                "User-Agent": "wyrd",
                "Accept": "*/*",
                "Accept-Encoding": "identity",
            }
        )
        headers.update(request.headers)
        headers.update(own)
        headers.update(_credential(request, secret))
        content = None if body is None else _body(request, secret, body).encode("ascii")
        unreachable = Undeliverable(DispatchFault.DESTINATION_UNREACHABLE, f"{host} has no address")
        for address in addresses:
            # The screened address itself is connected to: a second look-up could answer another one.
            pinned = url.copy_with(host=address)
            try:
                return await self._exchange(method, pinned, headers, content, host)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                unreachable = Undeliverable(
                    DispatchFault.DESTINATION_UNREACHABLE, f"no connection to {host} port {port}"
                )
            except httpx.LocalProtocolError:
                raise Undeliverable(
                    DispatchFault.INVALID_REQUEST, "the request cannot be sent over HTTP"
                ) from None
            except httpx.TransportError:
                raise Undeliverable(
                    DispatchFault.DESTINATION_UNREACHABLE,
                    f"the connection to {host} was lost before its answer",
                ) from None
        raise unreachable

    async def _exchange(
        self, method: str, url: httpx.URL, headers: httpx.Headers, content: bytes | None, host: str
    ) -> _Answer:
        # No proxy and no credentials of the environment, and no connection that another host opened.
        async with httpx.AsyncClient(verify=self._tls, trust_env=False, timeout=None) as client:
            request = client.build_request(
                method, url, headers=headers, content=content, extensions={"sni_hostname": host}
            )
            response = await client.send(request, stream=True)
            try:
                return _Answer(response.status_code, response.headers, await _beginning(response))
            finally:
                await response.aclose()


async def _beginning(response: httpx.Response) -> bytes:
    """The first 64 KiB of an answer, as far as they come."""
    read = bytearray()
    try:
        async for chunk in response.aiter_raw():
            read += chunk
            if len(read) >= ANSWER_BYTES:
                break
    except httpx.TransportError:
        # The status stands; whether the body was needed is for the reader of it to say.
        pass
    return bytes(read[:ANSWER_BYTES])


def _url(text: str) -> httpx.URL:
    try:
        return httpx.URL(text)
    except httpx.InvalidURL:
        raise Undeliverable(DispatchFault.INVALID_REQUEST, "the URL cannot be called") from None


def _joined(url: httpx.URL, location: str) -> httpx.URL:
    try:
        return url.join(location).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError):
        raise Undeliverable(DispatchFault.PROVIDER_REJECTED, "the receiver redirected to no URL") from None


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _credential(request: DispatchRequest, secret: Mapping[str, str] | None) -> dict[str, str]:
    if secret is None:
        return {}
    if request.provider == "slack":
        return {"Authorization": f"Bearer {secret['bot_token']}"}
    if request.auth_scheme == "bearer":
        return {"Authorization": f"Bearer {secret['token']}"}
    if request.auth_scheme == "basic":
        pair = f"{secret['username']}:{secret['password']}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
    if request.auth_scheme == "header" and request.auth_header is not None:
        return {request.auth_header: secret["value"]}
    return {}


def _body(request: DispatchRequest, secret: Mapping[str, str] | None, body: str) -> str:
    if request.provider != "pager_duty" or secret is None:
        return body
    # PagerDuty authenticates by a member of the event.
    return f'{{"routing_key":{json.dumps(secret["integration_key"])},{body[1:]}'


def _judged(request: DispatchRequest, secret: Mapping[str, str] | None, answer: _Answer) -> Outcome:
    status = answer.status
    expected = request.expect_status
    if status == expected or (expected is None and 200 <= status < 300):
        error, retry_after = None, None
        if request.provider == "slack":
            error = _slack_error(answer.body)
            retry_after = _retry_after(answer.headers) if error is not None else None
        return Outcome(status, error, retry_after)
    said = f"the receiver answered {status}" + ("" if expected is None else f", not {expected}")
    if status in (408, 429) or status >= 500:
        transient = DispatchError(DispatchFault.PROVIDER_TRANSIENT, said)
        return Outcome(status, transient, _retry_after(answer.headers))
    refused = status == 401 and secret is not None
    code = DispatchFault.CREDENTIAL_INVALID if refused else DispatchFault.PROVIDER_REJECTED
    return Outcome(status, DispatchError(code, said))


def _slack_error(body: bytes) -> DispatchError | None:
    """None where Slack says that the message is posted. Its error codes are quoted, nothing else is."""
    try:
        document = strict_loads(body)
    except JsonRefused:
        document = None
    if not isinstance(document, dict):
        return DispatchError(DispatchFault.PROVIDER_TRANSIENT, "Slack's answer is not a JSON object")
    if document.get("ok") is True:
        return None
    told = document.get("error")
    code = told if isinstance(told, str) and _SLACK_CODE.fullmatch(told) else "an unknown error"
    if code in _SLACK_TRANSIENT:
        fault = DispatchFault.PROVIDER_TRANSIENT
    elif code in _SLACK_CREDENTIAL:
        fault = DispatchFault.CREDENTIAL_INVALID
    else:
        fault = DispatchFault.PROVIDER_REJECTED
    return DispatchError(fault, f"Slack answered {code}")


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds that `Retry-After` asks for, as a number or as a date; None where it says nothing usable."""
    told = headers.get("retry-after", "").strip()
    try:
        seconds = float(told)
    except ValueError:
        try:
            until = parsedate_to_datetime(told)
        except ValueError:
            return None
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()
    if not math.isfinite(seconds):
        return None
    return min(max(seconds, 0.0), _MOST_RETRY_AFTER)
