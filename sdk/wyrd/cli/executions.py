"""executions: list, show, wait, cancel."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wyrd._client import executions
from wyrd.cli.options import Form, Server, client
from wyrd.cli.output import Format, outcome, table, terminal, to_json, working
from wyrd.cli.results import CheckVerdict, show_result, verdict_exit
from wyrd.verify import Execution, VerificationResult
from wyrd.wire.verification import ResultDocument

executions_app = typer.Typer(no_args_is_help=True, help="Look at executions, await them, cancel them.")

Id = Annotated[str, typer.Argument(metavar="ID", help="Execution id.")]

_SHOWN = "01997a3c-5f00-7000-8000-000000000001"


def add_to(app: typer.Typer) -> None:
    executions_app.command("list", epilog="Example: wyrd executions list --verdict failed")(list_executions)
    executions_app.command(epilog=f"Example: wyrd executions show {_SHOWN}")(show)
    executions_app.command(epilog=f"Example: wyrd executions wait {_SHOWN} --timeout 60")(wait)
    executions_app.command(epilog=f"Example: wyrd executions cancel {_SHOWN}")(cancel)
    app.add_typer(executions_app, name="executions")


def list_executions(
    verifier: Annotated[str | None, typer.Option(metavar="REF", help="Only of this Verifier.")] = None,
    subject: Annotated[str | None, typer.Option(metavar="REF", help="Only about this Card.")] = None,
    verdict: Annotated[str | None, typer.Option(help="passed, failed or inconclusive.")] = None,
    status: Annotated[str | None, typer.Option(help="pending, running, completed, …")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="Only of this run.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="ID", help="Only of this group.")] = None,
    binding: Annotated[
        str | None, typer.Option("--binding", metavar="ID", help="Only of this binding.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="RFC 3339, inclusive.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="RFC 3339, exclusive.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most executions to print.")] = None,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """List executions, newest first, one page at a time."""
    using = client(server)
    page = using._run(
        executions.listing(
            using.server_url,
            {
                "verifier": verifier,
                "subject": subject,
                "verdict": verdict,
                "status": status,
                "run_id": run,
                "group_id": group,
                "binding_id": binding,
                "since": since,
                "until": until,
                "limit": limit,
                "cursor": cursor,
            },
        )
    )
    if format is Format.JSON:
        to_json(page)
        return
    console = terminal()
    console.print(
        table(
            ("execution", "status", "verdict", "verifier", "subject", "created"),
            (
                (
                    item.execution_id,
                    outcome(item.status.value),
                    outcome(item.verdict),
                    item.verifier.partition("#")[0],
                    item.subject.partition("#")[0],
                    item.created_at.isoformat(timespec="seconds"),
                )
                for item in page.items
            ),
        )
    )
    if page.next_cursor is not None:
        console.print(f"more: --cursor {page.next_cursor}", markup=False)


def show(execution_id: Id, server: Server = None, format: Form = Format.TEXT) -> None:
    """Print an execution's status, with its result once there is one."""
    _show(Execution(execution_id, client(server)).status(), format)


def wait(
    execution_id: Id,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 60.0,
    check_verdict: CheckVerdict = False,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Wait for an execution's result and print it."""
    execution = Execution(execution_id, client(server))
    with working(f"waiting for {execution_id}", format):
        result = execution.wait(timeout)
    show_result(result, format)
    verdict_exit(result, check_verdict)


def cancel(execution_id: Id, server: Server = None, format: Form = Format.TEXT) -> None:
    """Ask for the end of an execution and print its status."""
    _show(Execution(execution_id, client(server)).cancel(), format)


def _show(document: dict[str, Any], form: Format) -> None:
    if form is Format.JSON:
        to_json(document)
        return
    if document.get("result") is not None:
        show_result(VerificationResult.of(ResultDocument.model_validate(document["result"])), form)
        return
    error = document.get("error") or {}
    rows: list[tuple[str, Any]] = [
        ("execution", document["execution_id"]),
        ("status", outcome(document["status"])),
    ]
    if document.get("workflow_id"):
        rows.append(("workflow", document["workflow_id"]))
    if error:
        rows.append(("error", f"{error.get('code')}: {error.get('message')}"))
    terminal().print(table(("", ""), rows))
