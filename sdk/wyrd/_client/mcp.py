"""MCP over standard input and output: each line goes to the server's `/mcp`, each answer comes back as one.

The server keeps no sessions, so neither does this: what a message needs beside itself, the headers
of its protocol, is read from the message.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from wyrd._client.answers import error_of, unanswered_error
from wyrd._client.calls import EXECUTE_TIMEOUT
from wyrd._client.flow import Flow, Reply, Send, Token, Unanswered
from wyrd.client import WyrdClient
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonRefused, canonical_json, strict_loads
from wyrd.wire.ids import uuid7

MOST_BYTES = 512 * 1024
"""Of a line; the server takes no more."""

_AT_ONCE = 8
_PARSE_ERROR, _INTERNAL_ERROR = -32700, -32603
_STATED_VERSION: Final = "io.modelcontextprotocol/protocolVersion"


class Relay:
    """Passes on the messages of one peer; `write` gets each line of the answers, one at a time."""

    def __init__(self, client: WyrdClient, write: Callable[[bytes], None]) -> None:
        self._client = client
        self._write = write
        self._writing = threading.Lock()
        self._agreed: str | None = None

    def run(self, lines: Iterable[bytes]) -> None:
        """Returns when the lines have ended and every one of them is answered."""
        turns = threading.BoundedSemaphore(_AT_ONCE)
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="wyrd-mcp")
        failed: list[BaseException] = []

        def passed(message: dict[str, Any], line: bytes) -> None:
            try:
                self._pass_on(message, line)
            except BaseException as error:
                failed.append(error)
            finally:
                turns.release()

        try:
            for line in lines:
                message = self._read(line)
                if message is None:
                    continue
                if message.get("method") == "initialize":
                    # What it agrees on goes with every later message.
                    self._pass_on(message, line)
                    continue
                turns.acquire()
                if failed:
                    break
                pool.submit(passed, message, line)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()
        if failed:
            raise failed[0]

    def _read(self, line: bytes) -> dict[str, Any] | None:
        if not line.strip():
            return None
        try:
            if len(line) > MOST_BYTES:
                raise JsonRefused(f"over {MOST_BYTES} bytes")
            message = strict_loads(line)
        except JsonRefused as refused:
            self._error(None, _PARSE_ERROR, f"the line is {refused.reason}")
            return None
        # What is no message is the server's to refuse.
        return message if isinstance(message, dict) else {}

    def _pass_on(self, message: dict[str, Any], line: bytes) -> None:
        try:
            reply = self._client._run(_posted(self._client.server_url, line, self._headers(message)))
        except (Unanswered, WyrdError) as fault:
            self._failed(message, unanswered_error(fault) if isinstance(fault, Unanswered) else fault)
            return
        answer = _message_in(reply)
        if answer is not None:
            if message.get("method") == "initialize" and isinstance(answer.get("result"), dict):
                self._agreed = answer["result"].get("protocolVersion")
            self._send(b" ".join(reply.body.splitlines()))
        elif not 200 <= reply.status < 300:
            self._failed(message, error_of(reply))
        elif "id" in message:
            self._failed(
                message, WyrdError(Code.SPEC_502_UPSTREAM_FAILURE, "the answer is not an MCP message")
            )

    def _headers(self, message: dict[str, Any]) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "wyrd-request-id": uuid7(),
        }
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        version = meta.get(_STATED_VERSION) if isinstance(meta, dict) else None
        if version is None:
            if self._agreed is not None and message.get("method") != "initialize":
                headers["mcp-protocol-version"] = self._agreed
            return headers
        stated = {
            "mcp-protocol-version": version,
            "mcp-method": message.get("method"),
            "mcp-name": params.get("name"),
        }
        # The server compares them with the message, and says what it misses.
        return headers | {name: text for name, text in stated.items() if _is_header_value(text)}

    def _failed(self, message: dict[str, Any], error: WyrdError) -> None:
        if "id" in message:
            self._error(message["id"], _INTERNAL_ERROR, str(error), error.problem())

    def _error(self, ident: Any, number: int, sentence: str, data: Any = None) -> None:
        error = {"code": number, "message": sentence}
        if data is not None:
            error["data"] = data
        self._send(canonical_json({"jsonrpc": "2.0", "id": ident, "error": error}))

    def _send(self, line: bytes) -> None:
        with self._writing:
            self._write(line)


def _posted(server_url: str, body: bytes, headers: dict[str, str]) -> Flow[Reply]:
    """The answer, whatever its status. Raises `Unanswered`; the token is renewed once after a 401."""
    token: str = yield Token()
    renewed = False
    while True:
        sent = {**headers, "x-wyrd-access-token": f"Bearer {token}"}
        reply: Reply = yield Send("POST", f"{server_url}/mcp", sent, body, EXECUTE_TIMEOUT)
        if reply.status != 401 or renewed:
            return reply
        renewed = True
        newer = yield Token(refused=token)
        if newer == token:
            return reply
        token = newer


def _message_in(reply: Reply) -> dict[str, Any] | None:
    try:
        found = strict_loads(reply.body, max_depth=256)
    except JsonRefused:
        return None
    return found if isinstance(found, dict) and "jsonrpc" in found else None


def _is_header_value(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and text.isprintable()
