"""The process that parses nothing itself: it has the parsers imported and forks one child a file.

Its parent sends it, over the control socket, one end of a socket pair for each file. The child
reads its request from it and writes its answer:

    parent -> child    u32 length, request (JSON)
    child  -> parent   b"S", then u64 length, answer (JSON)
    zygote -> parent   i32 wait status, after the child's end; then end of stream

When the parent shuts its end down, the child is killed; when the parent goes, so do all children.
"""

from __future__ import annotations

import codecs
import contextlib
import gc
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass

from activities.extract.answer import answer
from activities.extract.confine import Confinement
from activities.extract.framing import ANSWER_LENGTH, REQUEST_LENGTH, STARTED, STATUS
from wyrd.wire.canonical import strict_loads

_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
_PEER_SHUT = getattr(select, "POLLRDHUP", 0)
_CHILD_SOCKET = 3
_ENCODINGS = (
    "utf-8",
    "utf-16-le",
    "utf-16-be",
    "utf-32-le",
    "utf-32-be",
    "cp1252",
    "cp437",
    "ascii",
    "latin-1",
    "idna",
)


@dataclass(slots=True)
class _Child:
    """One file being parsed: its process until that is reaped, then the status to hand over."""

    pid: int | None
    stream: socket.socket
    status: bytes = b""


def serve(control_descriptor: int, parent: int) -> None:
    """Fork children on demand until the control socket or the parent process ends."""
    for encoding in _ENCODINGS:
        codecs.lookup(encoding)
    zygote = _Zygote(socket.socket(fileno=control_descriptor), parent)
    # What exists now is shared by all children; a collection in one would copy its pages.
    gc.collect()
    gc.freeze()
    gc.disable()
    zygote.run()


class _Zygote:
    def __init__(self, control: socket.socket, parent: int) -> None:
        self._control = control
        self._confinement = Confinement()
        self._children: dict[int, _Child] = {}
        self._pid = os.getpid()
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._poll.register(self._wake, select.POLLIN)
        # The control socket could outlive the parent in a process that it forked; this cannot.
        self._parent = os.pidfd_open(parent) if hasattr(os, "pidfd_open") else -1
        if self._parent >= 0:
            self._poll.register(self._parent, select.POLLIN)

    def run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            for child in self._children.values():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGKILL)

    def _turn(self) -> bool:
        """One round of events; False when there is nobody left to serve."""
        ready = dict(self._poll.poll())
        if self._parent in ready:
            return False
        for descriptor, child in list(self._children.items()):
            if descriptor in ready:
                self._attend(child, ready[descriptor])
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
            self._reap()
        # Last: what it opens may get the number of a descriptor that was closed in this round.
        return self._control.fileno() not in ready or self._accept()

    def _accept(self) -> bool:
        """Take one stream and fork its child. False when the control socket has ended."""
        message, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        if not message:
            return False
        for descriptor in descriptors:
            stream = socket.socket(fileno=descriptor)
            try:
                pid = os.fork()
            except OSError:
                # The parent sees the end of the stream without a start, and may try again.
                stream.close()
                continue
            if pid == 0:
                _live(descriptor, self._pid, self._confinement)
            self._children[descriptor] = _Child(pid, stream)
            self._poll.register(descriptor, _PEER_SHUT)
        return True

    def _attend(self, child: _Child, events: int) -> None:
        descriptor = child.stream.fileno()
        if child.pid is not None:
            # The parent has given up. The child is not reaped yet, so its id is still its own.
            if events & (_GONE | _PEER_SHUT):
                os.kill(child.pid, signal.SIGKILL)
                self._poll.unregister(descriptor)
        elif events & select.POLLOUT or events & _GONE:
            self._hand_over(child)

    def _reap(self) -> None:
        for child in list(self._children.values()):
            if child.pid is None:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                child.pid = None
                child.status = STATUS.pack(status)
                self._hand_over(child)

    def _hand_over(self, child: _Child) -> None:
        """Send the status, or wait until the parent has read enough to make room for it."""
        descriptor = child.stream.fileno()
        try:
            sent = child.stream.send(child.status, socket.MSG_DONTWAIT)
            child.status = child.status[sent:]
        except BlockingIOError:
            pass
        except OSError:
            child.status = b""
        with contextlib.suppress(KeyError):
            self._poll.unregister(descriptor)
        if child.status:
            self._poll.register(descriptor, select.POLLOUT)
        else:
            del self._children[descriptor]
            child.stream.close()


def _live(descriptor: int, zygote: int, confinement: Confinement) -> None:
    """The whole life of a child; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Nothing of the zygote's is kept: not the control socket, not the streams of other files.
        os.dup2(1, 2)
        if descriptor != _CHILD_SOCKET:
            os.dup2(descriptor, _CHILD_SOCKET)
        os.closerange(_CHILD_SOCKET + 1, os.sysconf("SC_OPEN_MAX"))
        os.write(_CHILD_SOCKET, STARTED)
        (length,) = REQUEST_LENGTH.unpack(_read(REQUEST_LENGTH.size))
        request = strict_loads(_read(length))
        confinement.limit(request["timeout"], zygote)
        found = answer(request, confinement.seal)
        _write(ANSWER_LENGTH.pack(len(found)))
        _write(found)
        os._exit(0)
    finally:
        os._exit(1)


def _read(length: int) -> bytes:
    pieces: list[bytes] = []
    while length:
        piece = os.read(_CHILD_SOCKET, length)
        if not piece:
            os._exit(1)
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def _write(data: bytes) -> None:
    # write(2): the calls that sockets have of their own are denied by now.
    view = memoryview(data)
    while view:
        view = view[os.write(_CHILD_SOCKET, view) :]


def main() -> None:
    """`zygote <control descriptor> <parent process id>`."""
    serve(int(sys.argv[1]), int(sys.argv[2]))
