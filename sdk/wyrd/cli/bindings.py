"""bindings: list, show, run-now, backfill."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wyrd._client import bindings
from wyrd.cli.options import Form, Server, add, client
from wyrd.cli.output import Format, outcome, show_table, terminal, to_json
from wyrd.client import WyrdClient
from wyrd.errors import Code, WyrdError

bindings_app = typer.Typer(no_args_is_help=True, help="Look at bindings, and run scheduled ones by hand.")

Id = Annotated[
    str, typer.Argument(metavar="ID", help="Binding id, or `latest` for the newest one with a schedule.")
]
_LATEST = "latest"
_SLOTS = 10


def add_to(app: typer.Typer) -> None:
    add(bindings_app, list_bindings, "wyrd bindings list", "list")
    add(bindings_app, show, "wyrd bindings show latest")
    add(bindings_app, run_now, "wyrd bindings run-now latest", "run-now")
    add(
        bindings_app,
        backfill,
        "wyrd bindings backfill latest --from 2026-11-30T00:00:00Z --to 2026-11-30T01:00:00Z",
    )
    app.add_typer(bindings_app, name="bindings")


def list_bindings(
    limit: Annotated[int, typer.Option(min=1, help="Most bindings to print.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """List bindings, oldest first, one page at a time."""
    using = client(server)
    page = using._run(bindings.listing(using.server_url, {"limit": limit, "cursor": cursor}))
    if format is Format.JSON:
        to_json(page)
        return
    show_table(
        ("binding", "verifier", "owner", "runs on", "active"),
        (
            (
                one["binding_id"],
                _ref(one["verifier"]),
                _ref(one["owner"]),
                _trigger(one["runs_on"]),
                "yes" if one["active"] else "no",
            )
            for one in page["items"]
        ),
    )
    if page.get("next_cursor") is not None:
        terminal().print(f"more: --cursor {page['next_cursor']}", markup=False)


def show(binding_id: Id, server: Server = None, format: Form = Format.TEXT) -> None:
    """Print a binding: what it joins, its next run, its health and its last slots."""
    using = client(server)
    _show(using._run(bindings.status(using.server_url, _named(using, binding_id))), format)


def run_now(binding_id: Id, server: Server = None, format: Form = Format.TEXT) -> None:
    """Judge the last complete window now, unless it was judged before."""
    using = client(server)
    _show(using._run(bindings.run_now(using.server_url, _named(using, binding_id))), format)


def backfill(
    binding_id: Id,
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="The first slot it may judge, RFC 3339.")
    ],
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="The last one; it has passed.")],
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Judge the slots of a span of time that were not judged; a span holds at most 500."""
    using = client(server)
    _show(
        using._run(bindings.backfill(using.server_url, _named(using, binding_id), start, end)),
        format,
    )


def _named(using: WyrdClient, binding_id: str) -> str:
    if binding_id != _LATEST:
        return binding_id
    newest, cursor = None, None
    while True:
        page = using._run(bindings.listing(using.server_url, {"limit": 1000, "cursor": cursor}))
        for one in page["items"]:
            if (one["runs_on"] or {}).get("kind") == "schedule":
                newest = one["binding_id"]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    if newest is None:
        raise WyrdError(
            Code.VERIFICATION_404_BINDING_NOT_FOUND, "there is no binding with a schedule yet", field="ID"
        )
    return str(newest)


def _show(document: dict[str, Any], form: Format) -> None:
    if form is Format.JSON:
        to_json(document)
        return
    health = document["health"]
    baseline = document.get("baseline") or {}
    rows = [
        ("binding", document["binding_id"]),
        ("verifier", _ref(document["verifier"])),
        ("subject", _ref(document["subject"])),
        ("owner", _ref(document["owner"])),
        ("runs on", _trigger(document["runs_on"])),
        ("active", "yes" if document["active"] else "no"),
        ("next run", document.get("next_run_at") or ""),
        ("baseline", ": ".join(baseline[name] for name in ("status", "error") if name in baseline)),
        ("waiting", _waiting(document.get("groups"))),
        ("last execution", document.get("last_execution_id") or ""),
        ("health", health["status"] + (f": {health['message']}" if health["message"] else "")),
    ]
    show_table(("", ""), [(name, value) for name, value in rows if value])
    for warning in baseline.get("warnings", ()):
        terminal().print(f"warning: {warning}", style="yellow", markup=False)
    if slots := document.get("slots"):
        terminal().print()
        show_table(
            ("window", "until", "execution", "outcome"),
            (
                (
                    one["window_start"],
                    one["window_end"],
                    one["execution_id"],
                    outcome(one["verdict"] or one["status"]),
                )
                for one in slots[:_SLOTS]
            ),
        )


def _waiting(groups: dict[str, Any] | None) -> str:
    if groups is None:
        return ""
    count = f"{groups['waiting']} group{'' if groups['waiting'] == 1 else 's'}"
    return count if groups["next_due_at"] is None else f"{count}, the next one due {groups['next_due_at']}"


def _ref(document: dict[str, Any]) -> str:
    return f"{document['space']}/{document['kind']}/{document['name']}@{document['version']}"


def _trigger(runs_on: dict[str, Any] | None) -> str:
    if runs_on is None:
        return "verify and submit"
    if runs_on["kind"] == "schedule":
        return f"schedule {runs_on['cron']} {runs_on.get('tz') or 'UTC'}"
    return f"group_end after {runs_on['after']}"
