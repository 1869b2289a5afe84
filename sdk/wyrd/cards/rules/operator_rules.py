"""Operators at registration: template fields, addresses, header names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from wyrd.cards.decode import Path
from wyrd.cards.operator import HeaderAuth, HttpOperator, NotifyOperator, OperatorSpec, SlackChannel
from wyrd.cards.rules.fault import RuleFault
from wyrd.errors import Code

TEMPLATE_FIELDS: Final = frozenset(
    [
        "execution_id",
        "run_id",
        "binding_id",
        "dispatch_id",
        "verifier_ref",
        "subject_ref",
        "verdict",
        "previous_verdict",
        "group_id",
        "completed_at",
        "summary",
        "failed_requirements",
        "requirement_count",
        "result_url",
    ]
)
"""What `{{ field }}` may name in an Operator's texts."""

TEMPLATE: Final = re.compile(r"\{\{([^{}]*)\}\}")
MAX_URL: Final = 8192
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_FORBIDDEN_HEADERS: Final = frozenset(
    [
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "wyrd-attempt",
    ]
)
_CREDENTIAL_HEADERS: Final = frozenset(["authorization", "cookie", "proxy-authorization"])


def operator_faults(spec: OperatorSpec, at: Path) -> Iterator[RuleFault]:
    """Every fault that registration refuses with INVALID_OPERATOR."""
    found: Iterator[tuple[Path, str]]
    if isinstance(spec, NotifyOperator):
        found = _notify(spec)
    elif isinstance(spec, HttpOperator):
        found = _http(spec)
    else:
        return
    if spec.budget is not None and spec.budget.max_wall_seconds == 0:
        why = "max_wall_seconds must be at least 1"
        found = itertools.chain(found, [(("budget", "max_wall_seconds"), why)])
    for path, message in found:
        yield RuleFault(
            message, (*at, *path), code=Code.SPEC_400_INVALID_OPERATOR, extra={"rule": "operator"}
        )


def template_fault(text: str) -> str | None:
    """Why the text is not a template over the known fields, or None."""
    for found in TEMPLATE.finditer(text):
        name = found.group(1).strip()
        if name not in TEMPLATE_FIELDS:
            return f"{{{{{name[:40]}}}}} is not a field; the fields are {', '.join(sorted(TEMPLATE_FIELDS))}"
    rest = TEMPLATE.sub("", text)
    return "a {{ is not closed by }}" if "{{" in rest else None


def _notify(spec: NotifyOperator) -> Iterator[tuple[Path, str]]:
    channel = spec.channel
    members = ("text",) if isinstance(channel, SlackChannel) else ("summary", "dedup_key")
    for member in members:
        text = getattr(channel, member)
        if text is not None:
            why = template_fault(text)
            if why is not None:
                yield ("channel", member), why
    plain = ("channel_id", "text") if isinstance(channel, SlackChannel) else ("route", "summary")
    for member in plain:
        if not getattr(channel, member).strip():
            yield ("channel", member), f"{member} is blank"


def _http(spec: HttpOperator) -> Iterator[tuple[Path, str]]:
    why = url_fault(spec.url)
    if why is not None:
        yield ("url",), why
    seen: set[str] = set()
    for name, value in spec.headers.items():
        why = _header_fault(name, value)
        if why is None and name.lower() in seen:
            why = f"{name[:40]!r} is given twice"
        seen.add(name.lower())
        if why is not None:
            yield ("headers", name), why
    for path, text in _leaves(spec.body, ("body",)):
        why = template_fault(text)
        if why is not None:
            yield path, why
    if isinstance(spec.auth, HeaderAuth):
        name = spec.auth.name
        if _TOKEN.fullmatch(name) is None or name.lower() in _FORBIDDEN_HEADERS - _CREDENTIAL_HEADERS:
            yield ("auth", "name"), f"{name[:40]!r} is not a header that a credential can go into"
    if spec.timeout_seconds == 0:
        yield ("timeout_seconds",), "timeout_seconds must be at least 1"
    if spec.expect_status is not None and not 100 <= spec.expect_status <= 599:
        yield ("expect_status",), "expect_status must lie from 100 to 599"


def url_fault(url: str) -> str | None:
    """Why the text is not an address that an Operator may call, or None."""
    if len(url) > MAX_URL or any(ord(char) <= 32 or ord(char) == 127 for char in TEMPLATE.sub("", url)):
        return f"a URL has at most {MAX_URL} characters, and no white space or control characters"
    try:
        # Fields are not part of the address's own form; their values are escaped when they are known.
        parts = urlsplit(TEMPLATE.sub("x", url))
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        return f"not a URL: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return "a URL starts with https:// or http:// and names a host"
    if parts.username is not None or parts.password is not None:
        return "credentials never stand in a URL: name a connection under auth"
    if parts.fragment:
        return "a URL that is called has no fragment"
    origin = url.split("://", 1)[-1]
    origin = re.split(r"[/?]", origin, maxsplit=1)[0]
    if "{{" in origin:
        return "fields may stand in the path and the query only"
    return template_fault(url)


def _header_fault(name: str, value: str) -> str | None:
    if _TOKEN.fullmatch(name) is None:
        return f"{name[:40]!r} is not a header name"
    if name.lower() in _CREDENTIAL_HEADERS:
        return f"{name} carries a credential: name a connection under auth"
    if name.lower() in _FORBIDDEN_HEADERS:
        return f"{name} is set by the delivery itself"
    if any(ord(char) < 32 or ord(char) == 127 for char in value):
        return "a header value has no control characters"
    return template_fault(value)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
