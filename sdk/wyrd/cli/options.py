"""The options that commands share, and the client they lead to."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from wyrd._client import registry
from wyrd._client.envelope import CardEnvelope
from wyrd.cli.output import Format
from wyrd.client import WyrdClient
from wyrd.errors import Code, WyrdError
from wyrd.wire.refs import CardRef

Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="Server address.", envvar="WYRD_SERVER_URL", show_envvar=True
    ),
]
Form = Annotated[Format, typer.Option("--format", help="text for people, json for programs.")]
Ref = Annotated[str, typer.Argument(metavar="REF", help="space/Kind/name@version[#uid].")]

_LATEST = re.compile(r"([a-z][a-z0-9_-]{2,63})/([A-Z][A-Za-z]*)/([a-z][a-z0-9_-]{2,63})")


def client(server: str | None) -> WyrdClient:
    """The client of a command. Its missing credential has the command line's own code."""
    try:
        return WyrdClient(server)
    except WyrdError as error:
        if error.member is Code.CLIENT_401_NO_CREDENTIALS:
            raise WyrdError(Code.CLI_401_NO_CREDENTIALS, error.detail) from None
        raise


def find_card(using: WyrdClient, text: str) -> CardEnvelope:
    """The Card of an exact reference, or the latest version of `space/Kind/name`."""
    unpinned = _LATEST.fullmatch(text)
    if unpinned is None:
        return using._run(registry.get(using.server_url, registry.as_ref(text)))
    space, kind, name = unpinned.groups()
    return using._run(registry.latest(using.server_url, kind, space, name))


def exact(text: str) -> CardRef:
    return registry.as_ref(text)
