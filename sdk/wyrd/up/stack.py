"""The embedded stack: Temporal, API and worker, started in order and stopped in the other order."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from wyrd.up.children import Child, Command
from wyrd.up.home import Home
from wyrd.up.ports import DEFAULT_API_PORT, DEFAULT_GRPC_PORT, LOOPBACK, Ports
from wyrd.up.rooms import Rooms, temporal_binary, temporal_server


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where everything listens and is kept once the stack is ready."""

    api: str
    grpc: str
    docs: str
    temporal_ui: str
    temporal: str
    home: Path
    dev_key_file: Path
    logs: Path

    def document(self) -> dict[str, str]:
        return {
            "api": self.api,
            "grpc": self.grpc,
            "docs": self.docs,
            "temporal_ui": self.temporal_ui,
            "temporal": self.temporal,
            "home": str(self.home),
            "dev_key_file": str(self.dev_key_file),
            "logs": str(self.logs),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What one `wyrd up` will run."""

    addresses: Addresses
    commands: list[Command]
    notices: list[str]


async def _listening(port: int) -> str | None:
    try:
        _reader, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError as error:
        return f"port {port}: {error.strerror or error}"
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return None


async def _answers_ready(url: str) -> str | None:
    try:
        # No TLS on loopback, so no certificates to load twenty times a second.
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=5.0) as http:
            answer = await http.get(f"{url}/readyz")
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    return None if answer.status_code == 200 else f"/readyz says {answer.status_code}: {answer.text[:300]}"


def plan(
    home: Home,
    *,
    port: int | None = None,
    grpc_port: int | None = None,
    ui_port: int | None = None,
    temporal_port: int | None = None,
) -> Plan:
    """Choose ports and commands. None means any free port; for the API 8080 and for gRPC 50051 when
    they are free, but any for gRPC where `port` is 0.
    """
    rooms, ports = Rooms.find(), Ports()
    notices: list[str] = []
    api_port = ports.preferred(DEFAULT_API_PORT) if port is None else ports.asked(port, "--port")
    if port is None and api_port != DEFAULT_API_PORT:
        notices.append(
            f"port {DEFAULT_API_PORT} is busy, so the API takes {api_port};"
            f" set WYRD_SERVER_URL=http://{LOOPBACK}:{api_port} for clients"
        )
    # Any free port for the API is asked for where several stacks run, so then for gRPC as well.
    insisted = grpc_port is None and port != 0
    grpc = ports.preferred(DEFAULT_GRPC_PORT) if insisted else ports.asked(grpc_port, "--grpc-port")
    grpc_url = f"http://{LOOPBACK}:{grpc}"
    if insisted and grpc != DEFAULT_GRPC_PORT:
        notices.append(
            f"port {DEFAULT_GRPC_PORT} is busy, so gRPC takes {grpc};"
            f" set WYRD_GRPC_URL={grpc_url} for clients that record by gRPC"
        )
    temporal = ports.asked(temporal_port, "--temporal-port")
    ui = ports.asked(ui_port, "--ui-port")
    api_url = f"http://{LOOPBACK}:{api_port}"
    ui_url = f"http://{LOOPBACK}:{ui}"
    environment = rooms.environment(
        {
            "WYRD_HOME": str(home.path),
            "WYRD_HOST": LOOPBACK,
            "WYRD_PORT": str(api_port),
            "WYRD_GRPC_PORT": str(grpc),
            "WYRD_TEMPORAL_ADDRESS": f"{LOOPBACK}:{temporal}",
            "WYRD_TEMPORAL_UI_URL": ui_url,
            "WYRD_DEV_KEY": "true",
        }
    )
    commands = [
        Command(
            "temporal",
            temporal_server(temporal_binary(), LOOPBACK, temporal, ui, home.temporal_db),
            environment,
            home.logs / "temporal.log",
            lambda: _listening(temporal),
        ),
        Command(
            "api",
            rooms.serve(LOOPBACK, api_port),
            environment,
            home.logs / "api.log",
            lambda: _answers_ready(api_url),
            ready_within=120.0,
        ),
        Command("worker", rooms.worker(), environment, home.logs / "worker.log"),
    ]
    addresses = Addresses(
        api=api_url,
        grpc=grpc_url,
        docs=f"{api_url}/docs",
        temporal_ui=ui_url,
        temporal=f"{LOOPBACK}:{temporal}",
        home=home.path,
        dev_key_file=home.dev_key,
        logs=home.logs,
    )
    return Plan(addresses, commands, notices)


class Stack:
    """Runs commands until a signal: each ready before the next starts.

    SIGINT, SIGTERM and SIGHUP stop them in reverse order; a second one kills them.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        *,
        on_ready: Callable[[], None],
        report: Callable[[str], None],
        follow: Callable[[str, str], None] | None = None,
    ) -> None:
        self._children = [Child(command, report) for command in commands]
        self._on_ready = on_ready
        self._report = report
        self._follow = follow
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Returns after an orderly stop. SERVER_503_NOT_READY when a child does not start."""
        loop = asyncio.get_running_loop()
        signals = [signal.SIGINT, signal.SIGTERM]
        if sys.platform != "win32":
            signals.append(signal.SIGHUP)
        for number in signals:
            loop.add_signal_handler(number, self._signalled)
        followers = [
            asyncio.create_task(self._tail(child.command)) for child in self._children if self._follow
        ]
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await stopping
        finally:
            starting.cancel()
            stopping.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)
            for child in reversed(self._children):
                await child.stop()
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)
            for number in signals:
                loop.remove_signal_handler(number)

    async def _start(self) -> None:
        for child in self._children:
            await child.start()
        self._on_ready()

    def _signalled(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            return
        for child in self._children:
            child.kill()

    async def _tail(self, command: Command) -> None:
        """Pass on what a child adds to its log, line by line."""
        assert self._follow is not None
        command.log.touch(mode=0o600)
        with command.log.open("r", encoding="utf-8", errors="replace") as file:
            file.seek(0, 2)
            rest = ""
            while True:
                rest += file.read()
                *lines, rest = rest.split("\n")
                for line in lines:
                    self._follow(command.name, line)
                await asyncio.sleep(0.1)
