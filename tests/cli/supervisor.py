"""Run by path: a Stack over stand-in children. Arguments: a folder, then name=behaviour for each child.

A child appends `<name> started <pid>` and `<name> stopped` to `<folder>/events`; the supervisor
says `ready`, `note …` and `error …` on its standard output, one a line.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from wyrd.errors import WyrdError
from wyrd.up.children import Command
from wyrd.up.stack import Stack

CHILD = """
import os, signal, sys, time
folder, name, behaviour = sys.argv[1:]
def event(what):
    with open(folder + "/events", "a") as file:
        file.write(f"{name} {what}\\n")
def stop(*_):
    event("stopped")
    print("asked to stop", flush=True)
    if behaviour != "stubborn":
        sys.exit(0)
signal.signal(signal.SIGTERM, stop)
if behaviour == "parent":
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(folder + "/grandchild", "w").write(str(os.getpid()))
        while True:
            time.sleep(60)
event(f"started {os.getpid()}")
print("a line of", name, flush=True)
if behaviour == "broken":
    sys.exit(3)
if behaviour != "silent":
    open(folder + "/" + name, "w").close()
while True:
    time.sleep(60)
"""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def command(folder: Path, name: str, behaviour: str) -> Command:
    async def missing() -> str | None:
        return None if (folder / name).exists() else f"no file {name}"

    return Command(
        name,
        [sys.executable, "-c", CHILD, str(folder), name, behaviour],
        dict(os.environ),
        folder / f"{name}.log",
        missing,
        ready_within=1.0 if behaviour == "silent" else 30.0,
        stop_within=30.0 if "--patient" in sys.argv else 1.0,
    )


def main() -> None:
    folder = Path(sys.argv[1])
    pairs = [one.split("=") for one in sys.argv[2:] if "=" in one]
    stack = Stack(
        [command(folder, name, behaviour) for name, behaviour in pairs],
        on_ready=lambda: say("ready"),
        report=lambda text: say(f"note {text}"),
        follow=(lambda name, line: say(f"log {name}: {line}")) if "--follow" in sys.argv else None,
    )
    try:
        asyncio.run(stack.run())
    except WyrdError as error:
        say(f"error {error.code} {error.detail} {error.details['last_lines']}")
        sys.exit(1)


if __name__ == "__main__":
    main()
