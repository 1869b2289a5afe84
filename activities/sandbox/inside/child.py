"""The life of one call's process, as the process that forked it sees it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable

CRASHED = 71
"""Exit code of a child in which our own code failed."""


def _awaited(child: int, control: socket.socket, timeout: float) -> dict[str, object]:
    """Wait for the child to end; kill it when its time is over, or when nobody waits for it any more."""
    timed_out = False
    handle = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(control, 0)  # only that the other end is gone
        ready = poll.poll(timeout * 1000)
        if not any(descriptor == handle for descriptor, _ in ready):
            timed_out = not ready
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(handle)
    code = os.waitstatus_to_exitcode(status)
    return {
        "timed_out": timed_out,
        "exit": code if code >= 0 else None,
        "signal": -code if code < 0 else None,
    }


def serve(control: socket.socket, run: Callable[[int, int, float], int]) -> None:
    """Fork once for each call that arrives, until the other end is gone.

    A call is its time-out in seconds, with two descriptors: the document to read and the pipe for the answer.
    `run` gets them in the child and returns its exit code. They are handed through unread, so that nothing of
    one call is left in the memory from which the next is forked.
    """
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 64, 2)
        if not message:
            return
        call, reply = descriptors
        timeout = float(message)
        child = os.fork()
        if child == 0:
            code = CRASHED
            try:
                control.close()
                code = run(call, reply, timeout)
            finally:
                os._exit(code)
        os.close(call)
        os.close(reply)
        control.send(json.dumps(_awaited(child, control, timeout)).encode("ascii"))
