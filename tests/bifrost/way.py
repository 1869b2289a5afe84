"""The way to a server on loopback, which can be shut, left hanging, and opened again at its address."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any


class Way:
    """Carries connections to `endpoint` (`http://host:port`), from an address of its own."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("http://").partition(":")
        self._target = host, int(port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._passing = threading.Event()
        self._passing.set()

    def __enter__(self) -> Way:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """After `close`: connections are carried again."""
        self._passing.set()
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._start()

    def hang(self) -> None:
        """Take connections and what is sent on them, and carry nothing further, until `close`."""
        self._passing.clear()

    def close(self) -> None:
        """Refuse connections, and break off those that there are."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._passing.set()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()
        self._ends, self._threads = [], []

    def _start(self) -> None:
        self._run(self._accept, self._listening)

    def _run(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket) -> None:
        for client in _clients(listening):
            server = socket.create_connection(self._target)
            self._ends += [client, server]
            self._run(self._carry, client, server)
            self._run(self._carry, server, client)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._passing.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def _clients(listening: socket.socket) -> Iterator[socket.socket]:
    with contextlib.suppress(OSError):
        while True:
            yield listening.accept()[0]
