"""The options that commands share, and the client they lead to."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from wyrd._client import registry
from wyrd._client.envelope import CardEnvelope
from wyrd.cli.output import Format
from wyrd.client import WyrdClient
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import is_uuid7
from wyrd.wire.names import KINDS
from wyrd.wire.refs import CardRef


class Exemplified(TyperCommand):
    """A command whose epilog is one example, printed last and as it is: wrapped, it could not be pasted."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        example, self.epilog = self.epilog, None
        try:
            super().format_help(ctx, formatter)
        finally:
            self.epilog = example
        told = f" Example: {example}\n"
        if formatter.getvalue():
            formatter.write(f"\n{told}")
        else:
            # Rich help is on standard output by now, not in the formatter.
            sys.stdout.write(told)


def add(to: typer.Typer, command: Callable[..., None], example: str, name: str | None = None) -> None:
    """Add a command with its example, which works against `wyrd up`."""
    to.command(name, cls=Exemplified, epilog=example)(command)


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


def find_card(using: WyrdClient, text: str, field: str = "REF") -> CardEnvelope:
    """The Card of an exact reference, or the latest version of `space/Kind/name`."""
    if _LATEST.fullmatch(text) is not None:
        return find_latest(using, text)
    ref = exact(text, field, "space/Kind/name@version[#uid], or space/Kind/name for the latest")
    return using._run(registry.get(using.server_url, ref))


def find_latest(using: WyrdClient, text: str) -> CardEnvelope:
    """The latest version of `space/Kind/name`."""
    unpinned = _LATEST.fullmatch(text)
    if unpinned is None:
        raise _no_name(text, "NAME", "space/Kind/name, without a version")
    space, kind, name = unpinned.groups()
    return using._run(registry.latest(using.server_url, kind, space, name))


def exact(text: str, field: str = "REF", form: str = "space/Kind/name@version[#uid]") -> CardRef:
    """One exact reference. `field` is the argument it was given as, `form` what that takes."""
    try:
        return CardRef.parse(text)
    except ValueError:
        raise _no_name(text, field, form) from None


def filtering(text: str | None, field: str) -> str | None:
    """A Card to filter by: a uid, or `space/Kind/name` with or without a version."""
    if text is None or is_uuid7(text) or _LATEST.fullmatch(text.partition("@")[0]) is not None:
        return text
    raise _no_name(text, field, "space/Kind/name[@version], and no uid")


def _no_name(text: str, field: str, form: str) -> WyrdError:
    kind = text.split("/")[1].partition("@")[0] if text.count("/") == 2 else None
    hint = f"; the kinds are {', '.join(KINDS)}" if kind is not None and kind not in KINDS else ""
    return WyrdError(Code.SPEC_400_VALIDATION, f"{text[:200]!r} is not of the form {form}{hint}", field=field)
