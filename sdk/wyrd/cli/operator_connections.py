"""operator-connection: create, list, get, update, disable. Secrets are never arguments."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from wyrd._client import operator_connections as connections
from wyrd.cli.options import Form, Server, add, client
from wyrd.cli.output import Format, show_table, terminal, to_json
from wyrd.errors import Code, WyrdError
from wyrd.wire.connections import ConnectionView

SECRET = "WYRD_CONNECTION_SECRET"

connections_app = typer.Typer(
    no_args_is_help=True,
    help="Where Operators deliver to. The secret of a connection is read from "
    f"{SECRET}, else asked for, else read from standard input.",
)


class Provider(StrEnum):
    SLACK = "slack"
    PAGER_DUTY = "pager_duty"
    HTTP = "http"


class Scheme(StrEnum):
    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"


class Status(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


Which = Annotated[str, typer.Argument(metavar="CONNECTION", help="Its name or its id.")]
Workspace = Annotated[str | None, typer.Option("--workspace-id", metavar="ID", help="slack: the workspace.")]
Origin = Annotated[str | None, typer.Option(metavar="URL", help="http: scheme, host and port it is for.")]
Auth = Annotated[Scheme | None, typer.Option(help="http: how the secret is sent.")]
Username = Annotated[str | None, typer.Option(help="http, basic: the user; the secret is the password.")]
Header = Annotated[str | None, typer.Option(metavar="NAME", help="http, header: the header of the secret.")]


def add_to(app: typer.Typer) -> None:
    piped = "printf %s 32-character-integration-key-xyz |"
    add(connections_app, create, f"{piped} wyrd operator-connection create pager_duty support-pagerduty")
    add(connections_app, list_connections, "wyrd operator-connection list", "list")
    add(connections_app, get, "wyrd operator-connection get support-pagerduty")
    add(connections_app, update, "wyrd operator-connection update support-pagerduty --status active")
    add(connections_app, disable, "wyrd operator-connection disable support-pagerduty")
    app.add_typer(connections_app, name="operator-connection")


def create(
    provider: Annotated[Provider, typer.Argument(metavar="PROVIDER", help="slack, pager_duty or http.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What Operators call it.")],
    workspace: Workspace = None,
    origin: Origin = None,
    auth: Auth = None,
    username: Username = None,
    header: Header = None,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Make a connection. Its secret is stored sealed and never shown."""
    using = client(server)
    body: dict[str, Any] = {"provider": provider.value, "name": name}
    if workspace is not None:
        body["workspace_id"] = workspace
    if origin is not None:
        body["origin"] = origin
    if provider is Provider.HTTP and auth is None:
        raise WyrdError(Code.CLIENT_400_CONFIG_INVALID, "an http connection needs --auth", field="--auth")
    body |= _secret_members(provider, auth, username, header)
    _show(using._run(connections.create(using.server_url, body)), format)


def list_connections(server: Server = None, format: Form = Format.TEXT) -> None:
    """List the tenant's connections, disabled ones too."""
    using = client(server)
    found = using._run(connections.every(using.server_url))
    if format is Format.JSON:
        to_json({"connections": [_document(one) for one in found]})
        return
    show_table(
        ("name", "provider", "status", "for", "id"),
        (
            (one.name, one.provider, one.status, one.origin or one.workspace_id, one.connection_id)
            for one in found
        ),
    )


def get(connection: Which, server: Server = None, format: Form = Format.TEXT) -> None:
    """Show one connection, without its secret."""
    using = client(server)
    _show(using._run(connections.find(using.server_url, connection)), format)


def update(
    connection: Which,
    name: Annotated[str | None, typer.Option(help="A new name.")] = None,
    status: Annotated[Status | None, typer.Option(help="active or disabled.")] = None,
    workspace: Workspace = None,
    origin: Origin = None,
    auth: Auth = None,
    username: Username = None,
    header: Header = None,
    secret: Annotated[bool, typer.Option("--secret", help="Replace the secret.")] = False,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Change what is named. A new --origin or --auth takes a new secret."""
    using = client(server)
    found = using._run(connections.find(using.server_url, connection))
    given = {
        "name": name,
        "status": None if status is None else status.value,
        "workspace_id": workspace,
        "origin": origin,
    }
    body: dict[str, Any] = {"provider": found.provider}
    body |= {member: value for member, value in given.items() if value is not None}
    if secret or auth is not None or origin is not None:
        if auth is None and found.auth is not None:
            auth, header = Scheme(found.auth.scheme), header or found.auth.name
        body |= _secret_members(Provider(found.provider), auth, username, header)
    _show(using._run(connections.update(using.server_url, found.connection_id, body)), format)


def disable(connection: Which, server: Server = None, format: Form = Format.TEXT) -> None:
    """Disable a connection; what names it is not delivered until it is active again."""
    using = client(server)
    found = using._run(connections.find(using.server_url, connection))
    gone = using._run(connections.disable(using.server_url, found.connection_id))
    if format is Format.JSON:
        to_json(_document(gone))
    else:
        terminal().print(f"{gone.name} is {gone.status}", markup=False)


def _secret_members(
    provider: Provider, auth: Scheme | None, username: str | None, header: str | None
) -> dict[str, Any]:
    """The members of a body that hold the secret."""
    if provider is Provider.SLACK:
        return {"bot_token": _secret("bot token")}
    if provider is Provider.PAGER_DUTY:
        return {"integration_key": _secret("integration key")}
    if auth is Scheme.BASIC:
        if username is None:
            raise WyrdError(Code.CLIENT_400_CONFIG_INVALID, "basic needs --username", field="--username")
        return {"auth": {"scheme": "basic", "username": username, "password": _secret("password")}}
    if auth is Scheme.HEADER:
        if header is None:
            raise WyrdError(Code.CLIENT_400_CONFIG_INVALID, "header needs --header", field="--header")
        return {"auth": {"scheme": "header", "name": header, "value": _secret("value")}}
    return {"auth": {"scheme": "bearer", "token": _secret("token")}}


def _secret(what: str) -> str:
    """From the environment, a hidden prompt, or the first line of standard input."""
    found = os.environ.get(SECRET, "")
    if not found and sys.stdin.isatty():
        found = typer.prompt(what, hide_input=True, err=True)
    elif not found:
        found = sys.stdin.readline().rstrip("\r\n")
    if not found:
        raise WyrdError(
            Code.CLIENT_400_CONFIG_INVALID,
            f"no {what}: set {SECRET}, or give it on standard input",
            field=SECRET,
        )
    return found


def _document(found: ConnectionView) -> dict[str, Any]:
    return found.model_dump(mode="json", exclude_none=True)


def _show(found: ConnectionView, format: Format) -> None:
    if format is Format.JSON:
        to_json(_document(found))
        return
    sent = None if found.auth is None else " ".join(filter(None, (found.auth.scheme, found.auth.name)))
    rows = (
        ("name", found.name),
        ("provider", found.provider),
        ("status", found.status),
        ("id", found.connection_id),
        ("workspace", found.workspace_id),
        ("origin", found.origin),
        ("auth", sent),
        ("created", found.created_at.isoformat(timespec="seconds")),
    )
    show_table(("", ""), (row for row in rows if row[1] is not None))
