"""A model provider that answers from a script: no model, no key, no network beyond loopback.

It speaks the wire of OpenAI (chat completions and responses), Anthropic (messages) and Google
(generateContent), so the examples and the tests run the real gateway over real HTTP. Every
answer names its model as `scripted/<requested name>`, so no result can be taken for a model's.

    python examples/scripted_provider.py --port 0 --script script.json

A script is JSON: `{"rules": [{"when_contains": ["words"], "replies": [REPLY, ...]}, ...]}`. The
first rule whose words all occur in the request's text answers, its replies in order, the last
one for ever after. `{"replies": [...]}` is one rule without words. What no rule matches is
refused with 400: an unscripted request never gets an invented answer. The members of a REPLY
are those of `Reply` below, all optional.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Self

Behaviour = Literal["answer", "echo", "hang", "hold", "drop", "drip", "no_choices"]
BEHAVIOURS = ("answer", "echo", "hang", "hold", "drop", "drip", "no_choices")


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted answer.

    `text` is the completion (None is a null content), `json` instead of it is written as JSON.
    `body` replaces the whole HTTP body, verbatim. `behaviour`: `echo` completes with the request's
    own text, `hang` reads the request and never answers, `hold` answers after `release()`, `drop`
    closes the connection, `drip` sends the body one byte every `delay_seconds`, `no_choices`
    completes without any choice.
    Otherwise `delay_seconds` passes before the answer.
    """

    text: str | None = None
    json: Any = None
    refusal: str | None = None
    finish_reason: str = "stop"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    content_type: str = "application/json"
    error: Mapping[str, Any] | None = None
    behaviour: Behaviour = "answer"
    delay_seconds: float = 0.0
    input_tokens: int = 7
    output_tokens: int = 5

    @classmethod
    def read(cls, data: Any) -> Reply:
        """A reply from its JSON form. `ValueError` names an unknown member."""
        if not isinstance(data, dict):
            raise ValueError("a reply is an object")
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise ValueError(f"a reply has no member {unknown[0]!r}")
        if data.get("behaviour", "answer") not in BEHAVIOURS:
            raise ValueError(f"behaviour is one of {', '.join(BEHAVIOURS)}")
        return cls(**data)

    def completion(self) -> str | None:
        return self.text if self.json is None else json.dumps(self.json, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """Replies for the requests whose text holds every one of `when_contains`."""

    replies: Sequence[Reply]
    when_contains: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived: header names in lower case, `body` parsed, `text` its string leaves."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    text: str


def read_script(document: Any) -> list[Rule]:
    """Rules from a script's JSON document. `ValueError` says what is wrong."""
    if not isinstance(document, dict):
        raise ValueError("a script is an object with rules or replies")
    rules = document.get("rules", [document])
    if not isinstance(rules, list) or not rules:
        raise ValueError("rules is a list with at least one rule")
    found = []
    for rule in rules:
        if not isinstance(rule, dict) or not isinstance(rule.get("replies"), list) or not rule["replies"]:
            raise ValueError("every rule has a list of replies")
        words = rule.get("when_contains", [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("when_contains is a list of strings")
        found.append(Rule([Reply.read(reply) for reply in rule["replies"]], tuple(words)))
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


class ScriptedProvider:
    """The server, on loopback, in threads of this process. Use it as a context manager.

    `requests` holds what arrived, oldest first; `abandoned` counts the connections that a client
    closed while they were hanging or dripping.
    """

    def __init__(self, rules: Sequence[Rule] | Sequence[Reply] = (), *, port: int = 0) -> None:
        self._changed = threading.Condition()
        self._rules: list[Rule] = []
        self._used: list[int] = []
        self._connections: set[socket.socket] = set()
        self.requests: list[Received] = []
        self.abandoned = 0
        self._released = 0
        self.script(rules)
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL to configure, ending in `/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def script(self, rules: Sequence[Rule] | Sequence[Reply]) -> None:
        """Answer from these rules from now on; bare replies make one rule without words."""
        bare = [item for item in rules if isinstance(item, Reply)]
        with self._changed:
            self._rules = [Rule(bare)] if bare else [item for item in rules if isinstance(item, Rule)]
            self._used = [0] * len(self._rules)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close the port and every open connection, hanging ones too."""
        self.release()
        self._server.shutdown()
        self._thread.join()
        with self._changed:
            open_connections = list(self._connections)
        for connection in open_connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_abandoned(self, count: int, timeout: float = 10.0) -> bool:
        """Wait until that many clients have hung up. False when `timeout` seconds pass first."""
        with self._changed:
            return self._changed.wait_for(lambda: self.abandoned >= count, timeout)

    def wait_requests(self, count: int, timeout: float = 10.0) -> bool:
        """Wait until that many requests have arrived. False when `timeout` seconds pass first."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.requests) >= count, timeout)

    def release(self) -> None:
        """Let every reply that is held now be answered."""
        with self._changed:
            self._released += 1
            self._changed.notify_all()

    def hold(self) -> None:
        """Wait for the next release."""
        with self._changed:
            before = self._released
            self._changed.wait_for(lambda: self._released > before)

    def take(self, received: Received) -> tuple[int, Reply | None]:
        """Note a request and choose its reply; the number counts requests from 1."""
        with self._changed:
            self.requests.append(received)
            self._changed.notify_all()
            for index, rule in enumerate(self._rules):
                if all(word in received.text for word in rule.when_contains):
                    reply = rule.replies[min(self._used[index], len(rule.replies) - 1)]
                    self._used[index] += 1
                    return len(self.requests), reply
            return len(self.requests), None

    def abandon(self) -> None:
        with self._changed:
            self.abandoned += 1
            self._changed.notify_all()

    def opened(self, connection: socket.socket, is_open: bool) -> None:
        with self._changed:
            (self._connections.add if is_open else self._connections.discard)(connection)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], provider: ScriptedProvider) -> None:
        self.provider = provider
        super().__init__(address, _Exchange)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the script."""


class _Exchange(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "scripted-provider"

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: `requests` is the log."""

    def setup(self) -> None:
        super().setup()
        self.server.provider.opened(self.connection, True)

    def finish(self) -> None:
        self.server.provider.opened(self.connection, False)
        super().finish()

    def do_POST(self) -> None:
        self.close_connection = True
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        try:
            body = json.loads(raw) if raw else {}  # noqa: TID251 - this server runs without the package
        except ValueError:
            body = {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.command, self.path, headers, body, "\n".join(_strings(body)))
        number, reply = self.server.provider.take(received)
        if reply is None:
            message = "no scripted reply matches this request"
            reply = Reply(status=400, error={"message": message, "type": "invalid_request_error"})
        if reply.behaviour == "hang":
            if not self.connection.recv(1):
                self.server.provider.abandon()
            return
        if reply.behaviour == "drop":
            return
        if reply.behaviour == "hold":
            self.server.provider.hold()
        self._answer(reply, _body(received, number, reply))

    def _answer(self, reply: Reply, body: bytes) -> None:
        drip = reply.behaviour == "drip"
        if not drip and reply.delay_seconds:
            time.sleep(reply.delay_seconds)
        self.send_response(reply.status)
        self.send_header("content-type", reply.content_type)
        self.send_header("content-length", str(len(body)))
        self.send_header("connection", "close")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for piece in (body[i : i + 1] for i in range(len(body))) if drip else (body,):
                self.wfile.write(piece)
                if drip:
                    time.sleep(reply.delay_seconds)
        except OSError:
            self.server.provider.abandon()


def _body(received: Received, number: int, reply: Reply) -> bytes:
    if reply.body is not None:
        return reply.body.encode()
    if reply.error is not None:
        return json.dumps({"error": dict(reply.error)}).encode()
    text = received.text if reply.behaviour == "echo" else reply.completion()
    path = received.path.partition("?")[0]
    asked = received.body.get("model") if isinstance(received.body, dict) else None
    if path.endswith("/chat/completions"):
        document = _chat_completion(reply, text)
    elif path.endswith("/responses"):
        document = _response(reply, text)
    elif path.endswith("/messages"):
        document = _message(reply, text)
    elif path.endswith(":generateContent"):
        asked = path.rpartition("/")[2].removesuffix(":generateContent")
        document = _generated_content(reply, text)
    else:
        document = {"error": {"message": f"no such path {path}"}}
    name = f"scripted/{asked}"
    identity = {"responseId" if "candidates" in document else "id": f"scripted-{number:06d}"}
    model = {"modelVersion" if "candidates" in document else "model": name}
    return json.dumps({**identity, **model, **document}, ensure_ascii=False).encode()


def _chat_completion(reply: Reply, text: str | None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": reply.refusal}
    choice = {"index": 0, "finish_reason": reply.finish_reason, "message": message, "logprobs": None}
    usage = {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens}
    usage["total_tokens"] = reply.input_tokens + reply.output_tokens
    choices = [] if reply.behaviour == "no_choices" else [choice]
    return {"object": "chat.completion", "created": 1700000000, "choices": choices, "usage": usage}


def _response(reply: Reply, text: str | None) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if text is not None:
        content.append({"type": "output_text", "text": text, "annotations": []})
    if reply.refusal is not None:
        content.append({"type": "refusal", "refusal": reply.refusal})
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    document: dict[str, Any] = {"object": "response", "created_at": 1700000000, "status": "completed"}
    if reply.finish_reason in ("length", "content_filter"):
        reason = "max_output_tokens" if reply.finish_reason == "length" else "content_filter"
        document |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    document["output"] = [] if reply.behaviour == "no_choices" else [item]
    usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
    return document | {"usage": usage | {"total_tokens": reply.input_tokens + reply.output_tokens}}


def _message(reply: Reply, text: str | None) -> dict[str, Any]:
    stops = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    blocks = [] if text is None or reply.behaviour == "no_choices" else [{"type": "text", "text": text}]
    usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
    stop = "refusal" if reply.refusal is not None else stops.get(reply.finish_reason, reply.finish_reason)
    return {"type": "message", "role": "assistant", "content": blocks, "stop_reason": stop, "usage": usage}


def _generated_content(reply: Reply, text: str | None) -> dict[str, Any]:
    stops = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
    parts = [] if text is None else [{"text": text}]
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
    candidate["finishReason"] = stops.get(reply.finish_reason, reply.finish_reason)
    usage = {"promptTokenCount": reply.input_tokens, "candidatesTokenCount": reply.output_tokens}
    usage["totalTokenCount"] = reply.input_tokens + reply.output_tokens
    candidates = [] if reply.behaviour == "no_choices" else [candidate]
    return {"candidates": candidates, "usageMetadata": usage}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A model provider that answers from a script.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the address is printed")
    parser.add_argument("--script", type=Path, required=True, help="JSON file of rules")
    options = parser.parse_args(arguments)
    try:
        rules = read_script(json.loads(options.script.read_text(encoding="utf-8")))  # noqa: TID251
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{options.script}: {error}\n")
        return 64
    with ScriptedProvider(rules, port=options.port) as provider:
        sys.stdout.write(f"{provider.url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
