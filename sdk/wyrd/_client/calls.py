"""One authenticated call: headers, request id, retries, the renewal after a 401, deadlines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from wyrd._client.answers import M, error_of, json_of, model_of, unanswered_error
from wyrd._client.flow import FileBody, Flow, Pause, Reply, Send, Token, Unanswered
from wyrd._client.traceparent import trace_headers
from wyrd.errors import WyrdError
from wyrd.wire.canonical import canonical_json
from wyrd.wire.ids import uuid7

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
PAUSES = (0.1, 1.0)
"""Seconds between the attempts of a call that may be repeated; there is one attempt more than pauses."""
TIMEOUT = 30.0
EXECUTE_TIMEOUT = 70.0
"""Seconds: `execute` answers within 60 on the server's side."""

_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})


class DeadlinePassed(Exception):
    """The caller's own deadline ended a call; `last` is what it had met so far, if anything."""

    def __init__(self, last: WyrdError | None) -> None:
        super().__init__("deadline passed")
        self.last = last


@dataclass(frozen=True, slots=True)
class Call:
    """A request before it has a token and a request id. `path` is absolute or under the server.

    `json` is the body as a JSON value (`...` for none, since null is a body), `content` one that is
    written already, of the content type among the headers; `deadline` is a monotonic time that cuts
    attempts and pauses; `bare` leaves authentication out; `streamed` leaves the answer's body unread.
    """

    method: str
    path: str
    query: Mapping[str, Any] | None = None
    json: Any = ...
    file: FileBody | None = None
    content: bytes | None = None
    headers: Mapping[str, str] | None = None
    idempotency_key: str | None = None
    timeout: float = TIMEOUT
    deadline: float | None = None
    bare: bool = False
    streamed: bool = False

    def url(self, server_url: str) -> str:
        url = self.path if "://" in self.path else f"{server_url}{self.path}"
        given = {
            key: ("true" if value else "false") if isinstance(value, bool) else str(value)
            for key, value in (self.query or {}).items()
            if value is not None
        }
        return f"{url}?{urlencode(given)}" if given else url

    def _headers(self) -> dict[str, str]:
        headers = dict(self.headers or {})
        if not self.bare:
            headers["wyrd-request-id"] = uuid7()
            headers.update(trace_headers())
        if self.json is not ...:
            headers["content-type"] = "application/json"
        if self.idempotency_key is not None:
            headers["idempotency-key"] = self.idempotency_key
        return headers

    def run(self, server_url: str) -> Flow[Reply]:
        """Send it, repeating as its method and key allow; the 2xx answer.

        Errors: the server's, as it sent it; SPEC_500_INTERNAL on a time-out;
        CLIENT_503_TRANSPORT_DOWN; `DeadlinePassed` where a deadline was given.
        """
        url, headers = self.url(server_url), self._headers()
        body: bytes | FileBody | None = self.content if self.content is not None else self.file
        if self.json is not ...:
            body = canonical_json(self.json)
        pauses = list(PAUSES) if self.method in _REPEATABLE or self.idempotency_key is not None else []
        token: str | None = None
        renewed = False
        last: WyrdError | None = None
        while True:
            if not self.bare and token is None:
                token = yield Token()
            if token is not None:
                headers["x-wyrd-access-token"] = f"Bearer {token}"
            timeout = self._left(self.timeout, last)
            try:
                reply: Reply = yield Send(self.method, url, headers, body, timeout, self.streamed)
            except Unanswered as fault:
                last = unanswered_error(fault)
            else:
                if 200 <= reply.status < 300:
                    return reply
                last = error_of(reply)
                if reply.status == 401 and token is not None and not renewed:
                    renewed = True
                    newer = yield Token(refused=token)
                    if newer != token:
                        token = newer
                        continue
                if reply.status not in RETRIED:
                    raise last
            if not pauses:
                self._left(0.0, last)
                raise last
            yield Pause(self._left(pauses.pop(0), last))

    def _left(self, seconds: float, last: WyrdError | None) -> float:
        if self.deadline is None:
            return seconds
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise DeadlinePassed(last)
        return min(seconds, left)

    def model(self, server_url: str, answer: type[M]) -> Flow[M]:
        """Run it and read the answer as that model (SPEC_502_UPSTREAM_FAILURE when it is none)."""
        reply = yield from self.run(server_url)
        return model_of(reply, answer)

    def value(self, server_url: str) -> Flow[Any]:
        """Run it and read the answer as plain JSON."""
        reply = yield from self.run(server_url)
        return json_of(reply)
