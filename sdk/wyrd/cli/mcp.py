"""mcp: Wyrd's tools for agents, over standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import typer

from wyrd.cli.options import Form, Server, add, client
from wyrd.cli.output import Format

mcp_app = typer.Typer(
    invoke_without_command=True,
    help="Tools for agents: MCP on standard input and output, passed on to the server.",
)


def add_to(app: typer.Typer) -> None:
    listing = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    add(mcp_app, proxy, f"echo '{listing}' | wyrd mcp proxy")
    mcp_app.callback()(_without_a_word)
    app.add_typer(mcp_app, name="mcp")


def _without_a_word(context: typer.Context, server: Server = None, format: Form = Format.TEXT) -> None:
    if context.invoked_subcommand is None:
        proxy(server, format)


def proxy(server: Server = None, format: Form = Format.TEXT) -> None:
    """Serve MCP on standard input and output, one message a line, until the input ends.

    The same as `wyrd mcp`. Agents read Cards, tables and verifications with your credential.
    """
    from wyrd._client.mcp import Relay

    with client(server) as using:
        Relay(using, _write).run(_lines())


def _lines() -> Iterator[bytes]:
    """Lines of standard input; one that is far too long comes cut, so that it is refused."""
    from wyrd._client.mcp import MOST_BYTES

    while line := sys.stdin.buffer.readline(MOST_BYTES + 1):
        yield line
        while len(line) > MOST_BYTES and not line.endswith(b"\n"):
            line = sys.stdin.buffer.readline(MOST_BYTES + 1)


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
