"""One sandbox of each engine for a test module, and the host around them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from activities.sandbox import Sandbox
from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.runtime import Runtime
from activities.sandbox.wasm import Wasm
from tests.activities.sandbox.host import Host


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    running = await Sandbox.start(workers=2, allow_wasm=False)
    assert running.engine == "bubblewrap", running.unavailable
    yield running
    await running.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wasm_sandbox() -> AsyncIterator[Sandbox]:
    # As where user namespaces are off: the first engine does not start.
    broken = Bubblewrap(Path("/bin/false"), Runtime((), ()), Path("/"), b"")
    running = await Sandbox.start(workers=1, walls=[broken, Wasm])
    assert running.engine == "wasmtime", running.unavailable
    yield running
    await running.close()


@pytest.fixture(scope="module")
def open_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that any user of the host may write, so that only the sandbox stands in the way."""
    path = Path(tempfile.mkdtemp(prefix="sandbox-host-", dir="/tmp"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(open_folder: Path) -> AsyncIterator[Host]:
    found = Host(open_folder, 0)
    found.secret.write_text("host", encoding="utf-8")
    found.secret.chmod(0o666)

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections.append(writer)
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        found.port = server.sockets[0].getsockname()[1]
        yield found
