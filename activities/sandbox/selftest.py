"""The proof asked of an engine before it runs anybody's code: real attacks from inside, looked for on the
host.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from activities.folder import Folder
from activities.sandbox.call import CodeCall, CodeReply, path_inside
from engine.failure import BlockFailure, ReasonKind
from wyrd.wire.canonical import sha256_hex

_Call = Callable[[CodeCall], Awaitable[CodeReply]]

_NOW = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
_SEED = sha256_hex(b"self-test")

_HEALTHY = """
import datetime, json, os, random, re, sys, uuid
def check(word, path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return {
        "version": sys.version.split()[0],
        "file": text,
        "search": re.findall(r"[a-z]+", word),
        "now": datetime.datetime.now(datetime.timezone.utc).isoformat(),
        "chance": [random.random(), str(uuid.uuid4()), os.urandom(4).hex()],
        "order": [str(item) for item in {"a", "b", "c", "d", "e"}],
        "environment": dict(os.environ),
    }
"""

# Each attempt that succeeds is named; whatever an attempt raises is the answer we hope for.
_ESCAPES = """
import os
def tried(name, attempt, done):
    try:
        attempt()
    except Exception:
        return
    done.append(name)

def connect(port):
    import socket
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        pass

def name_a_host():
    import socket
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))

def fork():
    if os.fork() == 0:
        os._exit(0)

def thread():
    import threading
    threading.Thread(target=int).start()

def run_program():
    import subprocess
    subprocess.run(["/python/bin/python3", "-c", ""], check=True)

def write(path):
    with open(path, "w", encoding="utf-8"):
        pass

def read(path):
    with open(path, "rb") as file:
        file.read(1)

def raise_limits():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def check(port, secret, target, name):
    done = []
    tried("a network connection", lambda: connect(port), done)
    tried("a datagram", name_a_host, done)
    tried("a fork", fork, done)
    tried("a thread", thread, done)
    tried("another program", run_program, done)
    for path in (target, "/written", "/inputs/written", "/tmp/written", "/dev/shm/written"):
        tried("writing " + path, lambda: write(path), done)
    for path in (secret, "/etc/passwd", "/proc/self/environ", "/inputs/" + name):
        tried("reading " + path, lambda: read(path), done)
    tried("deleting a file", lambda: os.unlink(secret), done)
    tried("a signal", lambda: os.kill(1, 0), done)
    tried("raising its limits", raise_limits, done)
    return done
"""

_LIMITS: tuple[tuple[str, str, float, ReasonKind], ...] = (
    ("an endless loop", "def check():\n while True: pass", 0.25, ReasonKind.TIMEOUT),
    ("1 GiB of memory", "def check():\n return len(bytearray(1 << 30))", 5, ReasonKind.LIMIT_EXCEEDED),
    ("a long answer", "def check():\n return 'x' * 300_000", 5, ReasonKind.LIMIT_EXCEEDED),
    ("deep recursion", "def check():\n return check()", 5, ReasonKind.LIMIT_EXCEEDED),
)


def _call(source: str, timeout: float = 10, **members: Any) -> CodeCall:
    return CodeCall(source=source, entrypoint="check", timeout=timeout, seed=_SEED, now=_NOW, **members)


async def breaches(call: _Call, folder: Folder) -> tuple[str, list[str]]:
    """The Python version inside, and every way in which this engine does not do what it must.

    Raises `BlockFailure` where not even harmless code runs.
    """
    ground = folder.new("ground")
    ground.chmod(0o755)
    secret = ground / "secret"
    secret.write_text("host", encoding="utf-8")
    secret.chmod(0o644)
    connections = 0

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        version, found = await _healthy(call, secret)
        port = server.sockets[0].getsockname()[1]
        found += await _escapes(call, ground, secret, port)
    if connections:
        found.append("a connection reached the host")
    if sorted(os.listdir(ground)) != ["secret"] or secret.read_text(encoding="utf-8") != "host":
        found.append("a file of the host changed")
    for name, source, timeout, wanted in _LIMITS:
        try:
            await call(_call(source, timeout))
            found.append(f"{name} was not stopped")
        except BlockFailure as failure:
            if failure.kind is not wanted:
                found.append(f"{name} ended with {failure.kind.value}: {failure.reason}")
    return version, found


async def _healthy(call: _Call, secret: Path) -> tuple[str, list[str]]:
    """Harmless code gives the right answer, the same one twice."""
    code = _call(
        _HEALTHY, inputs={"word": "one 2 three", "path": path_inside("evidence")}, files={"evidence": secret}
    )
    first, second = (await call(code)).value, (await call(code)).value
    found = []
    if first != second:
        found.append("the same call gives two answers")
    wanted = {"file": "host", "search": ["one", "three"], "now": _NOW.isoformat(), "environment": {}}
    for name, value in wanted.items():
        if first.get(name) != value:
            found.append(f"{name} reads {str(first.get(name))[:200]}")
    return str(first.get("version")), found


async def _escapes(call: _Call, ground: Path, secret: Path, port: int) -> list[str]:
    inputs = {"port": port, "secret": str(secret), "target": str(ground / "written"), "name": "evidence"}
    reply = await call(_call(_ESCAPES, inputs=inputs))
    return [f"{escape} succeeded" for escape in reply.value]
