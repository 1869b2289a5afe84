"""One supervised child process: started tied to us, restarted when it dies, stopped for good."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wyrd.errors import Code, WyrdError

TETHER = Path(__file__).with_name("tether.py")
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
HEALTHY_AFTER = 60.0
"""Seconds a child has to run for its next death to be met with the first delay again."""


@dataclass(frozen=True, slots=True)
class Command:
    """What a child runs. `ready` is polled until it says None; any text says what is missing."""

    name: str
    arguments: list[str]
    environment: Mapping[str, str]
    log: Path
    ready: Callable[[], Awaitable[str | None]] | None = None
    ready_within: float = 60.0
    stop_within: float = 15.0
    """Seconds between the polite signal and the one that cannot be ignored."""


class Child:
    """The process of one command. `report` is told, in a sentence, of deaths and restarts."""

    def __init__(self, command: Command, report: Callable[[str], None]) -> None:
        self.command = command
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start it and wait until it is ready; from then on it is kept running.

        SERVER_503_NOT_READY, with the end of its log, when it dies or dawdles.
        """
        process = await self._spawn()
        await self._until_ready(process)
        self._keeper = asyncio.create_task(self._keep(process), name=f"keep {self.command.name}")

    async def _spawn(self) -> asyncio.subprocess.Process:
        log = os.open(self.command.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", str(TETHER), str(os.getpid())),
                *self.command.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self.command.environment),
                # A Ctrl-C in the terminal is for the supervisor, which stops its children in order.
                start_new_session=True,
            )
        finally:
            os.close(log)
        return self._process

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        if self.command.ready is None:
            return
        ended = asyncio.create_task(process.wait())
        missing: str | None = "nothing yet"
        try:
            async with asyncio.timeout(self.command.ready_within):
                while missing is not None:
                    done, _ = await asyncio.wait({ended}, timeout=0.05)
                    if done:
                        raise self._not_ready(f"ended with {_told(ended.result())} while starting")
                    missing = await self.command.ready()
        except TimeoutError:
            within = f"{self.command.ready_within:g} s"
            raise self._not_ready(f"was not ready within {within}: {missing}") from None
        finally:
            ended.cancel()
            with suppress(asyncio.CancelledError):
                await ended

    def _not_ready(self, what: str) -> WyrdError:
        return WyrdError(
            Code.SERVER_503_NOT_READY,
            f"{self.command.name} {what}; see {self.command.log}",
            process=self.command.name,
            log=str(self.command.log),
            last_lines=last_lines(self.command.log),
        )

    async def _keep(self, process: asyncio.subprocess.Process) -> None:
        loop = asyncio.get_running_loop()
        delay, name = FIRST_DELAY, self.command.name
        while True:
            started = loop.time()
            code = await process.wait()
            self._sweep(process.pid)
            if self._stopping:
                return
            if loop.time() - started >= HEALTHY_AFTER:
                delay = FIRST_DELAY
            self._report(
                f"{name} ended with {_told(code)}; starting it again in {delay:g} s (see {self.command.log})"
            )
            process = await self._again(delay)
            delay = min(delay * 2, LONGEST_DELAY)

    async def _again(self, delay: float) -> asyncio.subprocess.Process:
        while True:
            await asyncio.sleep(delay)
            try:
                return await self._spawn()
            except OSError as error:
                delay = LONGEST_DELAY
                self._report(f"{self.command.name} cannot be started: {error}; trying again in {delay:g} s")

    async def stop(self) -> None:
        """End it: SIGTERM, then SIGKILL after its grace. Also ends what it left behind."""
        self._stopping = True
        process, keeper = self._process, self._keeper
        if keeper is not None:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(self.command.stop_within):
                    await process.wait()
            except TimeoutError:
                self._report(f"{self.command.name} did not stop within {self.command.stop_within:g} s")
                self._kill(process)
                await process.wait()
        if process is not None:
            self._sweep(process.pid)

    def kill(self) -> None:
        """End it at once, without waiting."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            self._kill(self._process)

    def _kill(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.kill()
        self._sweep(process.pid)

    @staticmethod
    def _sweep(pid: int) -> None:
        """Kill what is left of the child's own process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _told(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def last_lines(log: Path, count: int = 15) -> list[str]:
    """The end of a log, for an error that has to explain itself."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16_384))
            return file.read().decode("utf-8", "replace").splitlines()[-count:]
    except OSError:
        return []
