"""Which TCP ports of this machine's loopback are free."""

from __future__ import annotations

import errno
import secrets
import socket

from wyrd.errors import Code, WyrdError

LOOPBACK = "127.0.0.1"
DEFAULT_API_PORT = 8080
DEFAULT_GRPC_PORT = 50051
_QUIET = range(15_000, 32_768)


def _free_on(family: socket.AddressFamily, address: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            # A machine without IPv6 has nothing listening there either.
            return family is socket.AF_INET6 and error.errno not in (errno.EADDRINUSE, errno.EACCES)
    return True


def is_free(port: int) -> bool:
    """Whether nothing listens there on either loopback: `localhost` may mean both."""
    try:
        return _free_on(socket.AF_INET, LOOPBACK, port) and _free_on(socket.AF_INET6, "::1", port)
    except OSError:
        return _free_on(socket.AF_INET, LOOPBACK, port)


class Ports:
    """Picks ports for one start, no port twice."""

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def asked(self, port: int | None, option: str) -> int:
        """The port asked for, or any free one for None and 0.

        CLIENT_400_CONFIG_INVALID when it is not free.
        """
        if not port:
            return self.any()
        if port in self._taken or not is_free(port):
            raise WyrdError(
                Code.CLIENT_400_CONFIG_INVALID,
                f"port {port} is busy; choose another {option}",
                field=option,
                port=port,
            )
        self._taken.add(port)
        return port

    def preferred(self, port: int) -> int:
        """That port when it is free, else any."""
        if port not in self._taken and is_free(port):
            self._taken.add(port)
            return port
        return self.any()

    def any(self) -> int:
        """A free port that no outgoing connection is given before its server listens: the system takes
        those from higher up (from 32768 on Linux, from 49152 elsewhere)."""
        while True:
            port = secrets.choice(_QUIET)
            if port not in self._taken and is_free(port):
                self._taken.add(port)
                return port
