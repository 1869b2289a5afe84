"""up, serve and worker: starting server processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wyrd.cli.options import add
from wyrd.cli.output import Format, show_table, terminal, to_json, working
from wyrd.up.home import Home, chosen_home
from wyrd.up.ports import DEFAULT_API_PORT, DEFAULT_GRPC_PORT, LOOPBACK
from wyrd.up.rooms import Rooms

if TYPE_CHECKING:
    from wyrd.up.stack import Addresses

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", metavar="DIR", help="Folder of all data; WYRD_HOME, else ./.wyrd."),
]
Form = Annotated[Format, typer.Option("--format", help="text for people, json for programs.")]


def add_to(app: typer.Typer) -> None:
    add(app, up, "wyrd up --port 8080 --temporal-port 7233")
    add(app, serve, "WYRD_TEMPORAL_ADDRESS=127.0.0.1:7233 wyrd serve --port 8081 --grpc-port 50052")
    add(app, worker, "WYRD_TEMPORAL_ADDRESS=127.0.0.1:7233 wyrd worker")


def up(
    home: HomeOption = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of the API: 8080, or a free one when that is busy."),
    ] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of gRPC: 50051, or a free one when that is busy or --port is 0.",
        ),
    ] = None,
    ui_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the Temporal UI: any free one.")
    ] = None,
    temporal_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of Temporal: any free one.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also print the servers' logs.")] = False,
    format: Form = Format.TEXT,
) -> None:
    """Run everything on this machine: Temporal with its UI, the API and the worker.

    Stops with Ctrl-C; a second one does not wait. All data stays in the home folder.
    """
    import asyncio

    from wyrd.up.stack import Stack, plan

    console = terminal(error=True)

    def say(sentence: str) -> None:
        console.print(sentence, markup=False)

    with Home(chosen_home(home)) as place:
        chosen = plan(place, port=port, grpc_port=grpc_port, ui_port=ui_port, temporal_port=temporal_port)
        for notice in chosen.notices:
            say(notice)
        spinner = working("starting Temporal, the API and the worker", format)
        spinner.__enter__()

        def ready() -> None:
            spinner.__exit__(None, None, None)
            place.note({"api": chosen.addresses.api})
            _announce(chosen.addresses, format)

        stack = Stack(
            chosen.commands,
            on_ready=ready,
            report=say,
            follow=(lambda name, line: say(f"{name}: {line}")) if verbose else None,
        )
        try:
            asyncio.run(stack.run())
        finally:
            spinner.__exit__(None, None, None)


def _announce(addresses: Addresses, form: Format) -> None:
    if form is Format.JSON:
        to_json({"ready": True, "pid": os.getpid(), **addresses.document()})
        return
    key = str(addresses.dev_key_file)
    if not addresses.dev_key_file.is_file():
        key += " (not there)"
    rows = (
        ("API", addresses.api),
        ("gRPC", addresses.grpc),
        ("API reference", addresses.docs),
        ("Temporal UI", addresses.temporal_ui),
        ("dev key", key),
        ("logs", str(addresses.logs)),
    )
    terminal().print("Wyrd is ready. Ctrl-C stops it.", style="bold")
    show_table(("", ""), rows)


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on.", envvar="WYRD_HOST", show_envvar=True)
    ] = LOOPBACK,
    port: Annotated[
        int,
        typer.Option(min=1, max=65535, help="Port to listen on.", envvar="WYRD_PORT", show_envvar=True),
    ] = DEFAULT_API_PORT,
    grpc_port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="Port of gRPC; 0 takes a free one.",
            envvar="WYRD_GRPC_PORT",
            show_envvar=True,
        ),
    ] = DEFAULT_GRPC_PORT,
    format: Form = Format.TEXT,
) -> None:
    """Run the API alone, in this process, against the services that WYRD_… variables name."""
    rooms = Rooms.find()
    settings = {"WYRD_HOST": host, "WYRD_PORT": str(port), "WYRD_GRPC_PORT": str(grpc_port)}
    _become(rooms.serve(host, port), rooms.environment(settings))


def worker(format: Form = Format.TEXT) -> None:
    """Run the Temporal workers alone, against the services that WYRD_… variables name."""
    rooms = Rooms.find()
    _become(rooms.worker(), rooms.environment({}))


def _become(command: list[str], environment: dict[str, str]) -> None:
    """Turn into the server, so that signals and exit codes are its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)
