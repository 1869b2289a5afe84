"""The process that waits behind the wall with everything imported, and forks once a call."""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import resource
import socket
import sys
from typing import Any

from . import answer, child, determinism, preload

MEMORY_BYTES = 256 * 1024 * 1024
STACK_BYTES = 8 * 1024 * 1024
DESCRIPTORS = 32

_NO_RANDOM_ADDRESSES = 0x0040000
_NEW_USER_NAMESPACE = 0x10000000
_SET_SECCOMP, _FILTER_MODE = 22, 2


class _Program(ctypes.Structure):
    """The kernel's struct sock_fprog: a filter of so many 8-byte instructions."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def _fix_addresses(libc: ctypes.CDLL) -> None:
    """Start over without address randomisation, on which the order of some sets depends."""
    current = libc.personality(ctypes.c_ulong(0xFFFFFFFF))
    if current == -1 or current & _NO_RANDOM_ADDRESSES:
        return
    # Some container runtimes refuse it; then the order of sets of None or classes may differ between workers.
    if libc.personality(ctypes.c_ulong(current | _NO_RANDOM_ADDRESSES)) != -1:
        os.execv(sys.executable, sys.orig_argv)


def _can(action: Any, *arguments: Any) -> bool:
    try:
        action(*arguments)
    except OSError:
        return False
    return True


def _facts(libc: ctypes.CDLL) -> dict[str, Any]:
    """What the outer wall alone allows, before any system call filter: the self-test judges it."""
    return {
        "python": sys.version.split()[0],
        "user": os.getuid(),
        "root": sorted(os.listdir("/")),
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "writes": [
            place for place in ("/", "/inputs", "/wyrd", "/python") if _can(os.mkdir, f"{place}/probe")
        ],
        "namespaces": libc.unshare(_NEW_USER_NAMESPACE) == 0,
        "environment": sorted(os.environ),
    }


def _confine(libc: ctypes.CDLL, program: _Program, timeout: float) -> None:
    seconds = math.ceil(timeout)
    for limit, soft, hard in (
        (resource.RLIMIT_CPU, seconds, seconds + 1),
        (resource.RLIMIT_AS, MEMORY_BYTES, MEMORY_BYTES),
        (resource.RLIMIT_STACK, STACK_BYTES, STACK_BYTES),
        (resource.RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
    ):
        resource.setrlimit(limit, (soft, hard))
    # Not a wall, a courtesy: an import that fails says more than a memory error deep inside.
    for name in ("ctypes", "_ctypes"):
        sys.modules[name] = None  # type: ignore[assignment]
    if libc.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) != 0:
        os._exit(70)


def main() -> None:
    """Arguments: the descriptor of the control socket, and the system call filter in hexadecimal."""
    control = socket.socket(fileno=int(sys.argv[1]))
    instructions = bytes.fromhex(sys.argv[2])
    program = _Program(len(instructions) // 8, instructions)
    libc = ctypes.CDLL(None)
    _fix_addresses(libc)
    determinism.install()
    preload.load()
    os.environ.clear()
    sys.path[:] = [place for place in sys.path if place.startswith("/python")]
    sys.argv[:] = [""]
    sys.orig_argv[:] = []
    # The null device, on which all three stand from here on: errors at start went to the worker's pipe.
    os.dup2(0, 1)
    os.dup2(0, 2)
    control.send(json.dumps(_facts(libc)).encode("ascii"))
    gc.collect()
    gc.freeze()

    def run(call: int, reply: int, timeout: float) -> int:
        _confine(libc, program, timeout)
        answer.serve(call, reply)
        return 0

    child.serve(control, run)
