"""keys: issue, list, revoke."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wyrd._client import keys
from wyrd.cli.options import Form, Server, add, client, exact
from wyrd.cli.output import Format, show_table, terminal, to_json

keys_app = typer.Typer(no_args_is_help=True, help="API keys of the processes that run Services and Agents.")


def add_to(app: typer.Typer) -> None:
    add(keys_app, issue, "wyrd keys issue support/Service/support-desk@1.0.0 --label prod")
    add(keys_app, list_keys, "wyrd keys list", "list")
    listed = "$(wyrd keys list | awk '/support-desk/ {print $3, $2; exit}')"
    add(keys_app, revoke, f"wyrd keys revoke {listed}")
    app.add_typer(keys_app, name="keys")


def issue(
    ref: Annotated[str, typer.Argument(metavar="REF", help="space/Kind/name@version of a Service or Agent.")],
    label: Annotated[str | None, typer.Option(help="A name to know the key by.")] = None,
    days: Annotated[int | None, typer.Option(min=1, help="Life of the key in days; a year.")] = None,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Make a key bound to one Card. It is printed this once and never again."""
    using = client(server)
    seconds = None if days is None else days * 86_400
    issued = using._run(keys.issue(using.server_url, exact(ref), label, seconds))
    if format is Format.JSON:
        to_json(issued)
        return
    show_table(
        ("", ""),
        (
            ("key", issued.key),
            ("key id", issued.key_id),
            ("principal", issued.principal_id),
            ("card", issued.card_ref.pinned),
            ("expires", issued.expires_at.isoformat(timespec="seconds")),
        ),
    )


def list_keys(
    principal: Annotated[
        str | None, typer.Argument(metavar="PRINCIPAL", help="Only this principal's keys.")
    ] = None,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """List keys by their beginnings, with whose they are."""
    using = client(server)
    found: list[dict[str, Any]] = []
    whose: dict[str, str | None] = {}
    if principal is not None:
        whose[principal] = None
    else:
        for one in using._run(keys.principals(using.server_url)):
            whose[one.principal_id] = one.card_ref.pinned if one.card_ref is not None else one.name
    for principal_id, name in whose.items():
        for key in using._run(keys.of_principal(using.server_url, principal_id)):
            found.append({"principal_id": principal_id, "of": name, **key.model_dump(mode="json")})
    if format is Format.JSON:
        to_json({"keys": found})
        return
    show_table(
        ("key", "key id", "principal", "of", "expires", "revoked"),
        (
            (
                f"{key['prefix']}…",
                key["id"],
                key["principal_id"],
                key["of"],
                key["expires_at"] or "never",
                key["revoked_at"],
            )
            for key in found
        ),
    )


def revoke(
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Whose key it is.")],
    key: Annotated[str, typer.Argument(metavar="KEY_ID", help="Its id, as keys list prints it.")],
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Revoke one key; it stops working within a second."""
    using = client(server)
    using._run(keys.revoke(using.server_url, principal, key))
    if format is Format.JSON:
        to_json({"key_id": key, "revoked": True})
    else:
        terminal().print(f"{key} is revoked", markup=False)
