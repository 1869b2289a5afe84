"""One process behind the wall that serves one call at a time, and our end of its control socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from activities.folder import Folder
from activities.sandbox.call import MAX_REPLY_BYTES, CodeCall, Ending, judged
from engine.failure import BlockFailure, ReasonKind
from wyrd.wire.canonical import JsonRefused, strict_loads

START_SECONDS = 30.0
GRACE_SECONDS = 1.0
"""How long after a call's time-out the whole worker is killed, should it not have killed the call itself."""

_MESSAGE_BYTES = 64 * 1024


class WorkerLost(Exception):
    """The worker's process is gone or does not answer. The sentence says what it said last."""


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start. `environment` is all of its environment; `user` is whom to become first."""

    arguments: tuple[str, ...]
    executable: Path
    environment: Mapping[str, str]
    user: int | None


class Wall(Protocol):
    """An engine: how to start its workers, and what is wrong with one that started."""

    @property
    def name(self) -> str: ...

    def command(self, inputs: Path, control: int) -> Command: ...

    def objections(self, facts: dict[str, object]) -> list[str]: ...


def _place(inputs: Path, call: CodeCall) -> None:
    for name, source in call.files.items():
        target = inputs / name
        shutil.copyfile(source, target)
        # The file's age must not differ between two runs of the same check.
        os.utime(target, ns=(call.nanoseconds, call.nanoseconds))
        target.chmod(0o444)


def _empty(inputs: Path) -> None:
    for entry in inputs.iterdir():
        entry.unlink()


def _spawned(command: Command, control: int) -> subprocess.Popen[bytes]:
    # Not asyncio's: its watcher may start processes from a thread of its own, and ours die with their thread.
    return subprocess.Popen(
        command.arguments,
        executable=command.executable,
        env=command.environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(control,),
        start_new_session=True,
        user=command.user,
        group=command.user,
        extra_groups=None if command.user is None else (),
    )


class Worker:
    """Start with `Worker.start`; `lost` says that it must be replaced."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, inputs: Path) -> None:
        self._process = process
        self._control = control
        self.inputs = inputs
        self.facts: dict[str, Any] = {}
        self.calls = 0
        self.lost = False
        self._serving = asyncio.Lock()

    @classmethod
    async def start(cls, wall: Wall, folder: Folder) -> Worker:
        """Start a process and wait until it serves. Raises `WorkerLost`, or OSError where it cannot even
        start.

        Call it from a thread that lives as long as the worker: the process dies with the thread that started
        it.
        """
        inputs = folder.new("inputs")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ours.setblocking(False)
            process = _spawned(wall.command(inputs, theirs.fileno()), theirs.fileno())
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        worker = cls(process, ours, inputs)
        try:
            await worker._greet(wall)
        except BaseException:
            await worker.stop()
            raise
        return worker

    async def _greet(self, wall: Wall) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                self.facts = await self._heard()
        except TimeoutError:
            raise WorkerLost(f"{wall.name} did not start within {START_SECONDS:g} s") from None
        except WorkerLost:
            raise WorkerLost(f"{wall.name} did not start: {await self._last_words()}") from None
        objections = wall.objections(self.facts)
        if objections:
            raise WorkerLost(f"{wall.name} does not confine: {'; '.join(objections)}")

    async def _last_words(self) -> str:
        """What it wrote to its error stream before it went."""
        self.kill()
        stream = self._process.stderr
        said = await asyncio.to_thread(stream.read, 4096) if stream is not None else b""
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"

    async def _heard(self) -> dict[str, Any]:
        """The next message of the worker."""
        try:
            message = await asyncio.get_running_loop().sock_recv(self._control, _MESSAGE_BYTES)
            document = strict_loads(message) if message else None
        except (OSError, JsonRefused):
            document = None
        if not isinstance(document, dict):
            self.lost = True
            raise WorkerLost("the sandbox's process ended")
        return document

    async def run(self, call: CodeCall) -> tuple[Any, str]:
        """The value the call returns and what it printed. Raises `BlockFailure` as `judged` does.

        After a cancellation, or an answer that does not end, the worker is lost.
        """
        self.calls += 1
        payload = call.payload()
        try:
            async with self._serving:
                if call.files:
                    await asyncio.to_thread(_place, self.inputs, call)
                ending = await self._exchange(payload, call.timeout)
                if call.files and not self.lost:
                    await asyncio.to_thread(_empty, self.inputs)
        except OSError as error:
            self.kill()
            raise BlockFailure(
                ReasonKind.EVIDENCE_UNREADABLE,
                f"a file of the call cannot be laid out for the sandbox: {error.strerror}",
            ) from None
        except BaseException:
            self.kill()
            raise
        return judged(ending, call)

    async def _exchange(self, payload: bytes, timeout: float) -> Ending:
        reply, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            document = os.memfd_create("call", os.MFD_CLOEXEC)
            try:
                _fill(document, payload)
                socket.send_fds(self._control, [repr(timeout).encode("ascii")], [document, theirs])
            finally:
                os.close(document)
        except OSError as error:
            os.close(reply)
            raise BlockFailure(
                ReasonKind.SANDBOX_FAILED, f"the sandbox cannot be reached: {error.strerror}", retryable=True
            ) from None
        finally:
            os.close(theirs)
        try:
            return await self._awaited(reply, timeout)
        finally:
            os.close(reply)

    async def _awaited(self, reply: int, timeout: float) -> Ending:
        try:
            async with asyncio.timeout(timeout + GRACE_SECONDS):
                data = await _read_all(reply, MAX_REPLY_BYTES)
                if len(data) > MAX_REPLY_BYTES:
                    self.kill()
                    return Ending(b"", overflowed=True)
                told = await self._heard()
        except TimeoutError:
            self.kill()
            return Ending(b"", timed_out=True)
        except WorkerLost:
            raise BlockFailure(
                ReasonKind.SANDBOX_FAILED, "the sandbox's process died during the call", retryable=True
            ) from None
        return Ending(
            data,
            timed_out=told.get("timed_out") is True,
            exit_code=_number(told.get("exit")),
            signal=_number(told.get("signal")),
        )

    @property
    def alive(self) -> bool:
        """Whether its process still runs."""
        return not self.lost and self._process.poll() is None

    def kill(self) -> None:
        """End the process and with it everything behind the wall. It serves no more."""
        self.lost = True
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)

    async def stop(self) -> None:
        """Kill it, wait until it and the call it served are gone, and delete its folder."""
        self.kill()
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        await asyncio.to_thread(self._process.wait)
        # Not before the call has noticed: a descriptor closed under the event loop wakes nobody.
        async with self._serving:
            self._control.close()
            if self._process.stderr is not None:
                self._process.stderr.close()
            await asyncio.to_thread(shutil.rmtree, self.inputs, ignore_errors=True)


def _fill(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)


def _number(value: object) -> int | None:
    return value if type(value) is int else None


async def _read_all(descriptor: int, limit: int) -> bytes:
    """What is written to the pipe until its last writer is gone; stops a little after `limit` bytes."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    data = bytearray()
    done = loop.create_future()

    def read() -> None:
        try:
            part = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        except OSError as error:
            if not done.done():
                done.set_exception(error)
            return
        data.extend(part)
        if (not part or len(data) > limit) and not done.done():
            done.set_result(None)

    loop.add_reader(descriptor, read)
    try:
        await done
    finally:
        loop.remove_reader(descriptor)
    return bytes(data)
