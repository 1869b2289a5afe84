"""The driver of flows in the calling thread."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wyrd._client.credentials import Credential
from wyrd._client.flow import Flow, Offload, Pause, Reply, Send, T, Token
from wyrd._client.saving import Save

if TYPE_CHECKING:
    import httpx


class Transport:
    """Drives flows in the calling thread. Safe to share between threads and across a fork."""

    def __init__(self, server_url: str, credential: Credential) -> None:
        self.server_url = server_url
        self.credential = credential
        self._token_lock = threading.Lock()
        self._open_lock = threading.Lock()
        self._http: httpx.Client | None = None
        self._pid = 0

    def _pool(self) -> httpx.Client:
        from wyrd._client.connections import open_pool

        with self._open_lock:
            if self._http is None or self._pid != os.getpid():
                self._http = open_pool()
                self._pid = os.getpid()
            return self._http

    def close(self) -> None:
        with self._open_lock:
            if self._http is not None and self._pid == os.getpid():
                self._http.close()
            self._http = None

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    def token(self, refused: str | None = None) -> str:
        with self._token_lock:
            return self.run(self.credential.token(self.server_url, refused))

    def _send(self, effect: Send) -> Reply:
        from wyrd._client.connections import attempt

        return attempt(self._pool(), effect)

    def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Send):
            return self._send(effect)
        if isinstance(effect, Pause):
            return time.sleep(effect.seconds)
        if isinstance(effect, Token):
            return self.token(effect.refused)
        if isinstance(effect, Save):
            from wyrd._client.connections import save

            return save(effect)
        assert isinstance(effect, Offload)
        return effect.work()

    def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its value or its error."""
        try:
            effect = next(flow)
            while True:
                try:
                    outcome = self._perform(effect)
                except Exception as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(outcome)
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            flow.close()
