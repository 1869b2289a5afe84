"""One real `wyrd up` for the pages, and a folder in which a page's blocks run one after the other."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from examples.scripted_provider import ScriptedProvider, read_script
from tests.docs.fences import ROOT, Block, Command, commands, fits, tidy

_SECONDS = 100


@contextmanager
def running(home: Path) -> Iterator[dict[str, str]]:
    """The environment in which commands reach a stack whose models are scripted letters."""
    script = json.loads((ROOT / "docs/examples/letters.json").read_text(encoding="utf-8"))
    with ScriptedProvider(read_script(script)) as provider:
        deployments = {"openai": {"adapter": "openai_compatible", "base_url": provider.url}}
        home.mkdir(parents=True)
        (home / "gateway.yaml").write_text(yaml.safe_dump({"deployments": deployments}), encoding="utf-8")
        command = [sys.executable, "-m", "wyrd.cli", "up", "--home", str(home), "--port", "0"]
        # The page about Operators has a receiver on this machine.
        allowing = {**os.environ, "WYRD_OPERATOR_DESTINATIONS": "127.0.0.1"}
        with subprocess.Popen(
            [*command, "--format", "json"], env=allowing, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ) as process:
            try:
                addresses = _ready(process, home)
                yield {
                    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                    "HOME": str(home),
                    "WYRD_HOME": str(home),
                    "WYRD_SERVER_URL": addresses["api"],
                    "TEMPORAL_ADDRESS": addresses["temporal"],
                    "COLUMNS": "110",
                    "PYTHONUTF8": "1",
                }
            finally:
                process.send_signal(signal.SIGINT)
                code = process.wait(60)
    assert code == 0, f"wyrd up ended with {code}"


def _ready(process: subprocess.Popen[str], home: Path) -> dict[str, str]:
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        with contextlib.suppress(ValueError):
            found: dict[str, str] = json.loads(text)
            return found
    logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in home.glob("logs/*.log"))
    raise AssertionError(f"wyrd up did not start:\n{logs}")


@dataclass
class PageRun:
    """Runs the blocks of one page as its reader would, in a folder that looks like a checkout."""

    folder: Path
    environment: Mapping[str, str]
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""

    def prepare(self) -> None:
        for name in ("examples", "docs/examples"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, block: Block) -> None:
        """Raises AssertionError where a block does not do what its page says."""
        if block.file is not None:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command in commands(block):
                self._command(block, command)
        elif block.language == "python":
            self._python(block)

    def _python(self, block: Block) -> None:
        printed = io.StringIO()
        # Blank lines first, so that a traceback names the line of the page.
        code = compile("\n" * block.line + block.text, block.page, "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)
        self.printed = printed.getvalue()

    def prints(self, block: Block) -> None:
        """Compare with what the python block before it printed."""
        assert fits(block.text, self.printed), _differ(block.place, block.text, self.printed)

    def _command(self, block: Block, command: Command) -> None:
        done = subprocess.run(
            ["sh", "-c", command.text],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )
        told = f"{block.place}: $ {command.text}"
        if command.output is not None:
            assert fits(command.output, done.stdout), _differ(told, command.output, done.stdout)
        refused = command.output is not None and ("error: " in command.output or "_error" in command.output)
        assert refused or done.returncode == 0, f"{told}\nended with {done.returncode}:\n{done.stdout}"


def _differ(where: str, expected: str, actual: str) -> str:
    return f"{where}\n--- the page shows\n{tidy(expected)}\n--- it is\n{tidy(actual)}"
