"""The process around WebAssembly: holds CPython's compiled module and forks once a call to run a fresh
instance.

The fork, not the runtime's own interruption, is what ends a call in time: it also ends a guest that waits
inside the runtime, and it leaves nothing of one call for the next.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import wasmtime

from . import child

MEMORY_BYTES = 256 * 1024 * 1024
TRAPPED = 134

_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
_ARGUMENTS = ["python", "-S", "-B", "-s", "-P", "-X", "utf8", "-c", "from inside.wasi import main; main()"]
_ENVIRONMENT = [("PYTHONHASHSEED", "0"), ("PYTHONPATH", "/wyrd")]


def _compile(source: str, target: str) -> None:
    module = wasmtime.Module.from_file(wasmtime.Engine(), source)
    Path(target).write_bytes(module.serialize())


def _die_with(parent: int, libc: ctypes.CDLL) -> None:
    libc.prctl(_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _lower(user: int | None, parent: int, libc: ctypes.CDLL) -> None:
    """Give up what this process does not need, and die with the one that started it."""
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _die_with(parent, libc)  # after the change of user, which clears it
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(limit, (0, 0))


def _guest(engine: wasmtime.Engine, module: wasmtime.Module, folders: dict[str, str]) -> int:
    """Run the module on our own standard streams, with those folders read-only. Its exit code."""
    store = wasmtime.Store(engine)
    store.set_limits(memory_size=MEMORY_BYTES)
    wasi = wasmtime.WasiConfig()
    wasi.argv = _ARGUMENTS
    wasi.env = _ENVIRONMENT
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    for inside, path in folders.items():
        wasi.preopen_dir(path, inside, wasmtime.DirPerms.READ_ONLY, wasmtime.FilePerms.READ_ONLY)
    store.set_wasi(wasi)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    start = linker.instantiate(store, module).exports(store)["_start"]
    assert isinstance(start, wasmtime.Func)
    try:
        start(store)
    except wasmtime.ExitTrap as ended:
        return ended.code
    except (wasmtime.Trap, wasmtime.WasmtimeError):
        return TRAPPED
    return 0


def _serve(descriptor: str, settings: dict[str, Any]) -> None:
    control = socket.socket(fileno=int(descriptor))
    engine = wasmtime.Engine()
    module = wasmtime.Module.deserialize_file(engine, settings["module"])
    libc = ctypes.CDLL(None)
    _lower(settings["user"], settings["parent"], libc)
    ourselves = os.getpid()

    def run(call: int, reply: int, timeout: float) -> int:
        _die_with(ourselves, libc)
        seconds = math.ceil(timeout)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        os.dup2(call, 0)
        os.dup2(reply, 1)
        os.close(call)
        os.close(reply)
        return _guest(engine, module, settings["folders"])

    os.dup2(0, 2)
    control.send(json.dumps({"user": os.getuid()}).encode("ascii"))
    gc.freeze()
    child.serve(control, run)


def main() -> None:
    """`compile SOURCE TARGET`, or `serve CONTROL SETTINGS` with the settings as JSON."""
    if sys.argv[1] == "compile":
        _compile(sys.argv[2], sys.argv[3])
    else:
        settings = json.loads(sys.argv[3])  # noqa: TID251 - written by us; the project is not on the path
        _serve(sys.argv[2], settings)
