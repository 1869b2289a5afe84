"""Clients that submit to a service whose processes die: each request until it is acknowledged."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.e2e.kept_running import Pace, Service

SENDERS = 10


@dataclass(frozen=True)
class Submit:
    """One submit of a client: always with the same key and body. `group` is empty for one that fails."""

    group: str
    number: int
    body: dict[str, Any]
    key: str
    twice: bool


@dataclass
class Clients:
    """Submit as clients do: the same request until it is acknowledged, a conversation's turns in their
    order, and here and there once more, as after an answer that was lost."""

    service: Service
    pace: Pace
    work: list[Submit]
    turns: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    failing: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """Conversations of which a turn was recorded and withdrawn, since Temporal was away for too long."""

    def run(self) -> None:
        self._left: Iterator[Submit] = iter(self.work)
        self._lock = threading.Condition()
        with ThreadPoolExecutor(SENDERS) as threads:
            for sender in [threads.submit(self._send_all) for _ in range(SENDERS)]:
                sender.result()

    def _send_all(self) -> None:
        with self.service.client() as http:
            while True:
                with self._lock:
                    submit = next(self._left, None)
                if submit is None:
                    return
                self._send(http, submit)

    def _send(self, http: httpx.Client, submit: Submit) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: self._follows(submit), 300), "the turn before did not arrive"
        execution_id = self._acknowledged(http, submit)
        if submit.twice:
            assert self._acknowledged(http, submit) == execution_id
        with self._lock:
            (self.turns[submit.group] if submit.group else self.failing).append(execution_id)
            self._lock.notify_all()

    def _follows(self, submit: Submit) -> bool:
        return not submit.group or len(self.turns[submit.group]) == submit.number

    def _acknowledged(self, http: httpx.Client, submit: Submit) -> str:
        self.pace.send()
        pause, headers = threading.Event(), {"idempotency-key": submit.key}
        while True:
            try:
                answer = http.post("/v1/verification/enqueue", json=submit.body, headers=headers)
            except httpx.TransportError:
                pause.wait(0.05)
                continue
            if answer.status_code != 503:
                break
            if answer.json()["code"] == "WYRD_SERVER_503_SERVICE_UNAVAILABLE":
                self.refused.add(submit.group)
            pause.wait(0.05)
        assert answer.status_code == 202, answer.text
        execution_id: str = answer.json()["execution_id"]
        return execution_id
