"""Receivers of what Operators send, on loopback: Slack, PagerDuty and a plain HTTP endpoint.

Each answers as its publisher's documentation says (Slack's `chat.postMessage`, PagerDuty's Events
API v2), checks what the real one checks, and can be told to fail in the ways the real one fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs


@dataclass(frozen=True)
class Received:
    """One request as it arrived: names of headers in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b"ok"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Any, status: int = 200, **headers: str) -> Answer:
        told = {"content-type": "application/json; charset=utf-8"}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(status, json.dumps(document).encode(), told)


HANG = "hang"
"""Read the request, then say nothing until the sender hangs up."""
CLOSE = "close"
"""Read the request, then close the connection: accepted, and the answer lost."""
ENDLESS = "endless"
"""Answer 200, and never stop sending the body."""

Behaviour = Answer | str
Playing = Callable[[Received], Behaviour]


class Receiver:
    """A server that keeps every request it got. What `next` was given is done first, in that order;
    `always` stays. Without either it answers as what it plays."""

    def __init__(self, playing: Playing) -> None:
        self._playing = playing
        self._next: deque[Behaviour] = deque()
        self._always: Behaviour | None = None
        self._arrived = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.received: list[Received] = []
        self.connections = 0
        self.port = 0
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def next(self, *behaviours: Behaviour) -> None:
        self._next.extend(behaviours)

    def always(self, behaviour: Behaviour | None) -> None:
        self._always = behaviour

    def about(self, dispatch_id: str) -> list[Received]:
        """The requests of one dispatch."""
        return [one for one in self.received if one.headers.get("idempotency-key") == dispatch_id]

    async def arrived(self, count: int) -> None:
        """Wait until that many requests have been read."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) >= count)

    async def open(self, tls: ssl.SSLContext | None = None) -> None:
        self.scheme = "http" if tls is None else "https"
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {}
        for line in head[1:-2]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        got = Received(method, target, headers, body)
        async with self._arrived:
            self.received.append(got)
            self._arrived.notify_all()
        behaviour = self._next.popleft() if self._next else self._always or self._playing(got)
        if behaviour == CLOSE:
            return
        if behaviour == HANG:
            await reader.read()
            return
        if behaviour == ENDLESS:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
            while True:
                writer.write(b"x" * 4096)
                await writer.drain()
        assert isinstance(behaviour, Answer)
        told = {"content-length": str(len(behaviour.body)), "connection": "close", **behaviour.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        writer.write(f"HTTP/1.1 {behaviour.status} Told\r\n{lines}\r\n".encode("latin-1") + behaviour.body)
        await writer.drain()


def plain(_: Received) -> Answer:
    """A webhook that takes everything."""
    return Answer()


SLACK_CHANNELS = frozenset({"C0SUPPORT", "C0OTHER"})


def slack(token: str) -> Playing:
    """`POST /api/chat.postMessage`: 200 whatever happens, `ok` says whether it did."""

    def play(got: Received) -> Answer:
        if got.method != "POST" or got.target != "/api/chat.postMessage":
            return Answer.of({"ok": False, "error": "unknown_method"}, req_method=got.target)
        kind = got.headers.get("content-type", "").partition(";")[0]
        if kind == "application/json":
            try:
                sent = got.json
            except ValueError:
                return Answer.of({"ok": False, "error": "invalid_json"})
        elif kind == "application/x-www-form-urlencoded":
            sent = {name: values[0] for name, values in parse_qs(got.body.decode()).items()}
        else:
            return Answer.of({"ok": False, "error": "invalid_post_type"})
        authorization = got.headers.get("authorization", "")
        if not authorization:
            return Answer.of({"ok": False, "error": "not_authed"})
        if authorization != f"Bearer {token}":
            return Answer.of({"ok": False, "error": "invalid_auth"})
        if sent.get("channel") not in SLACK_CHANNELS:
            return Answer.of({"ok": False, "error": "channel_not_found"})
        text = sent.get("text")
        if not text:
            return Answer.of({"ok": False, "error": "no_text"})
        if len(text) > 40_000:
            return Answer.of({"ok": False, "error": "msg_too_long"})
        message = {"type": "message", "bot_id": "B0WYRD", "text": text, "ts": "1503435956.000247"}
        return Answer.of(
            {"ok": True, "channel": sent["channel"], "ts": "1503435956.000247", "message": message}
        )

    return play


def slack_error(code: str) -> Answer:
    return Answer.of({"ok": False, "error": code})


SLACK_LIMITED = Answer.of({"ok": False, "error": "ratelimited"}, 429, retry_after="30")


class PagerDuty:
    """`POST /v2/enqueue`: 202 with the dedup key; one incident a key, however often it is triggered."""

    def __init__(self, routing_key: str) -> None:
        self.routing_key = routing_key
        self.incidents: dict[str, int] = {}

    def __call__(self, got: Received) -> Answer:
        if got.method != "POST" or got.target != "/v2/enqueue":
            return Answer.of({"status": "not found", "message": "Not Found"}, 404)
        try:
            event = got.json
        except ValueError:
            return _invalid("JSON is malformed")
        errors = list(_event_errors(event))
        if not errors and event["routing_key"] != self.routing_key:
            errors = ["'routing_key' is invalid"]
        if errors:
            return _invalid(*errors)
        key = event.get("dedup_key") or f"made-up-{len(self.incidents)}"
        self.incidents[key] = self.incidents.get(key, 0) + 1
        return Answer.of({"status": "success", "message": "Event processed", "dedup_key": key}, 202)


def _event_errors(event: Any) -> Any:
    if not isinstance(event, dict):
        yield "the event is no object"
        return
    if not isinstance(event.get("routing_key"), str):
        yield "'routing_key' is missing or blank"
    if event.get("event_action") not in ("trigger", "acknowledge", "resolve"):
        yield "'event_action' is missing or invalid"
    if len(event.get("dedup_key") or "") > 255:
        yield "'dedup_key' is longer than 255 characters"
    payload = event.get("payload")
    if not isinstance(payload, dict):
        yield "'payload' is missing"
        return
    for member in ("summary", "source"):
        if not payload.get(member):
            yield f"'payload.{member}' is missing or blank"
    if len(payload.get("summary") or "") > 1024:
        yield "'payload.summary' is longer than 1024 characters"
    if payload.get("severity") not in ("critical", "warning", "error", "info"):
        yield "'payload.severity' is invalid (must be one of the following: critical, warning, error, info)"
    unknown = set(payload) - {
        *("summary", "source", "severity", "timestamp", "component", "group", "class", "custom_details"),
    }
    if unknown:
        yield f"'payload.{min(unknown)}' is unknown"


def _invalid(*errors: str) -> Answer:
    return Answer.of(
        {"status": "invalid event", "message": "Event object is invalid", "errors": list(errors)}, 400
    )


@contextlib.asynccontextmanager
async def receiving(playing: Playing = plain, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver, open for as long as the block runs."""
    receiver = Receiver(playing)
    await receiver.open(tls)
    try:
        yield receiver
    finally:
        await receiver.close()
