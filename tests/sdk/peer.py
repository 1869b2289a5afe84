"""A loopback HTTP peer that speaks the API as far as clients see it, and records what they send."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from wyrd.wire.ids import uuid7

KEY = "wyrd_sk_test"
NOW = "2026-01-01T00:00:00Z"


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    hang: threading.Event | None = None


Rule = Callable[[Seen], Answer]


def problem(status: int, code: str, detail: str = "told by the peer", **details: Any) -> Answer:
    return Answer(status, {"code": code, "detail": detail, "details": details})


class Peer:
    """Answers from queued answers first, then from its routes."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.queued: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        self.routes: dict[tuple[str, str], Rule] = {}
        self.tokens: list[str] = []
        self.expires_in = 3600
        self.cards: dict[str, dict[str, Any]] = {}
        self.blobs: dict[str, bytes] = {}
        self.url = ""

    def requests(self, method: str, path: str) -> list[Seen]:
        return [one for one in self.seen if one.method == method and one.path == path]

    def queue(self, method: str, path: str, *answers: Answer) -> None:
        self.queued[method, path].extend(answers)

    def answer(self, one: Seen) -> Answer:
        self.seen.append(one)
        waiting = self.queued.get((one.method, one.path))
        if waiting:
            return waiting.popleft()
        if (rule := self.routes.get((one.method, one.path))) is not None:
            return rule(one)
        return self._usual(one)

    def _usual(self, one: Seen) -> Answer:
        if one.path == "/auth/token":
            token = f"token-{len(self.tokens) + 1}"
            self.tokens.append(token)
            return Answer(body={"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in})
        if one.method == "PUT" and one.path.startswith("/blobs/"):
            digest = one.path.removeprefix("/blobs/")
            if hashlib.sha256(one.body).hexdigest() != digest:
                return problem(400, "WYRD_STORAGE_400_SHA256_MISMATCH")
            self.blobs[digest] = one.body
            return Answer(raw=b"")
        if one.path == "/v1/verification/evidence":
            return Answer(
                body={
                    "uploads": [
                        {
                            "sha256": file["sha256"],
                            "plan": {
                                "protocol": "local_fs",
                                "data": {"put_url": f"/blobs/{file['sha256']}", "ttl_secs": 60},
                            },
                        }
                        for file in one.json["files"]
                        if file["sha256"] not in self.blobs
                    ]
                }
            )
        if one.path == "/v1/verification/execute":
            return Answer(body=result(one.json))
        if one.path == "/v1/verification/enqueue":
            return Answer(202, {"execution_id": uuid7(), "workflow_id": "local/verification/x"})
        if one.method == "GET" and one.path.startswith("/v1/cards/by-uid/"):
            return self._card(self.cards.get(one.path.rsplit("/", 1)[1]))
        if one.method == "GET" and one.path == "/v1/cards/by-ref":
            named = [
                card
                for card in self.cards.values()
                if card["kind"] == one.query["kind"]
                and all(card["metadata"][key] == one.query[key] for key in ("name", "space", "version"))
            ]
            return self._card(named[0] if named else None)
        if one.method == "GET" and one.path == "/v1/cards":
            return Answer(
                body={
                    "items": [
                        {
                            "card_uid": card["metadata"]["uid"],
                            "kind": card["kind"],
                            "space": card["metadata"]["space"],
                            "name": card["metadata"]["name"],
                            "version": card["metadata"]["version"],
                            "spec_hash": "0" * 64,
                            "status": "active",
                            "created_at": NOW,
                            "updated_at": NOW,
                        }
                        for card in self.cards.values()
                        if one.query.get("kind", card["kind"]) == card["kind"]
                        and one.query.get("name", card["metadata"]["name"]) == card["metadata"]["name"]
                    ]
                }
            )
        return problem(404, "WYRD_SPEC_404_NOT_FOUND")

    @staticmethod
    def _card(card: dict[str, Any] | None) -> Answer:
        if card is None:
            return problem(404, "WYRD_REGISTRY_404_CARD_NOT_FOUND")
        return Answer(body={"card": card, "created_at": NOW, "updated_at": NOW})

    def store(
        self,
        kind: str,
        name: str,
        spec: dict[str, Any],
        *,
        version: str = "1.0.0",
        refers_to: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Store a Card; its exact reference."""
        ref = {"kind": kind, "name": name, "version": version, "space": "default", "uid": uuid7()}
        self.cards[ref["uid"]] = {
            "apiVersion": "wyrd/v1",
            "kind": kind,
            "metadata": {key: ref[key] for key in ("name", "version", "space", "uid")},
            "spec": spec,
            "relationships": {"outbound_refs": [{"ref": target} for target in refers_to or []]},
        }
        return ref


def result(body: dict[str, Any], verdict: str = "passed") -> dict[str, Any]:
    """A result document for an execute body."""
    ref = {"name": "some-card", "version": "1.0.0", "space": "default"}
    return {
        "execution_id": uuid7(),
        "run_id": body.get("run_id"),
        "verifier": {"kind": "Verifier", "uid": body["verifier_card_uid"], **ref},
        "subject": {"kind": "Service", "uid": body["card_uid"], **ref},
        "outcome": {
            "verdict": verdict,
            "requirements": [
                {
                    "id": "polite",
                    "statement": "The answer is polite",
                    "outcome": verdict,
                    "reason": "it says please",
                    "check": {"kind": "assert"},
                    "citations": [
                        {"slot": "answer", "locator": {"json_pointer": "/text"}},
                        {"slot": "letter", "locator": {"lines": {"start": 2, "end": 2}}},
                    ],
                }
            ],
            "steps": [{"id": "read", "status": "succeeded", "attempts": 1, "duration_ms": 3}],
            "evidence": body["inputs"],
        },
    }


def full_result() -> dict[str, Any]:
    """A result document with every member that the server has, and one that no client knows yet."""
    ref = {"name": "some-card", "version": "1.0.0", "space": "default", "uid": uuid7()}
    attempts = [
        {"number": 1, "started_at": NOW, "duration_ms": 2, "error": {"kind": "timeout", "message": "slow"}},
        {"number": 2, "started_at": NOW, "duration_ms": 1},
    ]
    requirement = {
        "id": "polite",
        "statement": "The answer is polite",
        "outcome": "inconclusive",
        "reason": "the judge was cut off",
        "reason_kind": "judge_truncated",
        "check": {"kind": "agent"},
        "citations": [],
        "stdout": "printed",
        "attempt_log": attempts,
    }
    step = {
        "id": "read",
        "status": "succeeded",
        "attempts": 2,
        "duration_ms": 3,
        "attempt_log": attempts,
        "output_sha256": "0" * 64,
        "output_bytes": 40_000,
    }
    failed = {"id": "write", "status": "failed", "attempts": 1, "duration_ms": 3, "reason_kind": "timeout"}
    counts = {"passed": 0, "failed": 0, "inconclusive": 1, "not_applicable": 0, "applicable": 1}
    return {
        "execution_id": uuid7(),
        "run_id": uuid7(),
        "verifier": {"kind": "Verifier", **ref},
        "subject": {"kind": "Agent", **ref},
        "owner": {"kind": "Service", **ref},
        "binding_id": uuid7(),
        "group_id": "talk-1",
        "workflow_id": "local/verification/1",
        "source": "submit",
        "started_at": NOW,
        "ended_at": NOW,
        "of_a_newer_server": {"copy": 1},
        "outcome": {
            "verdict": "inconclusive",
            "reason": "1 of 1 requirement inconclusive",
            "counts": counts,
            "pass_rate": 0.0,
            "requirements": [requirement],
            "steps": [step, {**failed, "reason": "it took too long"}],
            "evidence": {"answer": {"kind": "json", "value": 1}},
            "evidence_digests": {"answer": "0" * 64},
        },
    }


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        if self.headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        headers = {key.lower(): value for key, value in self.headers.items()}
        answer = self.server.peer.answer(Seen(self.command, parts.path, query, headers, body))
        if answer.hang is not None:
            answer.hang.wait(30)
            self.close_connection = True
            return
        content = answer.raw
        if content is None:
            content = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for key, value in answer.headers.items():
            self.send_header(key, value)
        if answer.status != 204:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if answer.status != 204:
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve

    def log_message(self, *_: Any) -> None:
        return


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    peer: Peer

    def handle_error(self, *_: Any) -> None:
        return


@contextmanager
def running() -> Iterator[Peer]:
    server = _Server(("127.0.0.1", 0), _Answering)
    server.peer = Peer()
    server.peer.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.peer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
