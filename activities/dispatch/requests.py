"""What an Operator sends for one dispatch: rendered once and stored, so that repeats are the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

from activities.dispatch.templates import (
    TemplateFault,
    filled,
    filled_header,
    filled_leaves,
    filled_url,
    for_slack,
    plain,
)
from wyrd.cards import HttpOperator, NotifyOperator, OperatorSpec
from wyrd.cards.operator import HeaderAuth, PagerDutyChannel, SlackChannel
from wyrd.wire.canonical import sha256_hex

SLACK_TEXT = 40_000
PAGER_DUTY_SUMMARY = 1024
PAGER_DUTY_DEDUP_KEY = 255
"""Characters that the providers take; they refuse or cut what is longer."""

Fields = Mapping[str, str]


class DispatchRequest(BaseModel):
    """One request without its credential. `url` is None for the providers whose address is a setting.

    `body` is the text that is sent; PagerDuty's gets its routing key when it is sent. `auth_scheme`
    and `auth_header` say how provider http attaches the secret.
    """

    provider: Literal["slack", "pager_duty", "http"]
    connection: str | None = None
    method: str = "POST"
    url: str | None = None
    headers: dict[str, str] = {}
    body: str | None = None
    auth_scheme: Literal["bearer", "basic", "header"] | None = None
    auth_header: str | None = None
    timeout_seconds: int | None = None
    expect_status: int | None = None


def request_of(spec: OperatorSpec, fields: Fields) -> DispatchRequest:
    """The request of an Operator. Raises `TemplateFault` where its texts cannot be filled in."""
    if isinstance(spec, NotifyOperator):
        channel = spec.channel
        if isinstance(channel, SlackChannel):
            return _slack(channel, fields)
        return _pager_duty(channel, fields)
    if isinstance(spec, HttpOperator):
        return _http(spec, fields)
    raise TemplateFault("the Operator is of no known kind")


def _slack(channel: SlackChannel, fields: Fields) -> DispatchRequest:
    text = filled(channel.text, fields, for_slack)
    return DispatchRequest(
        provider="slack",
        connection=channel.connection,
        headers={"Content-Type": "application/json; charset=utf-8"},
        body=_json({"channel": channel.channel_id, "text": _cut(text, SLACK_TEXT)}),
    )


def _pager_duty(channel: PagerDutyChannel, fields: Fields) -> DispatchRequest:
    dedup_key = filled(channel.dedup_key or "", fields, plain).strip() or fields["dispatch_id"]
    if len(dedup_key) > PAGER_DUTY_DEDUP_KEY:
        # Cut off, two different keys could become one; the digest keeps them apart.
        told = sha256_hex(dedup_key.encode("utf-8", "surrogatepass"))
        dedup_key = f"{dedup_key[: PAGER_DUTY_DEDUP_KEY - len(told) - 1]}-{told}"
    payload = {
        "summary": _cut(filled(channel.summary, fields, plain), PAGER_DUTY_SUMMARY),
        "source": fields["subject_ref"],
        "severity": channel.severity,
        "custom_details": {"route": channel.route, **{name: told for name, told in fields.items() if told}},
    }
    return DispatchRequest(
        provider="pager_duty",
        connection=channel.connection,
        headers={"Content-Type": "application/json"},
        body=_json({"event_action": "trigger", "dedup_key": dedup_key, "payload": payload}),
    )


def _http(spec: HttpOperator, fields: Fields) -> DispatchRequest:
    headers = {name: filled_header(value, fields) for name, value in spec.headers.items()}
    body = None if spec.body is None else _json(filled_leaves(spec.body, fields))
    if body is not None and "content-type" not in {name.lower() for name in headers}:
        headers["Content-Type"] = "application/json"
    return DispatchRequest(
        provider="http",
        connection=None if spec.auth is None else spec.auth.connection,
        method=spec.method.upper(),
        url=filled_url(spec.url, fields),
        headers=headers,
        body=body,
        auth_scheme=None if spec.auth is None else spec.auth.scheme,
        auth_header=spec.auth.name if isinstance(spec.auth, HeaderAuth) else None,
        timeout_seconds=spec.timeout_seconds,
        expect_status=spec.expect_status,
    )


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
