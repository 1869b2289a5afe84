"""executions: list, show, wait, cancel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from wyrd._client import executions
from wyrd.cli.options import Form, Server, add, client, filtering
from wyrd.cli.output import Format, outcome, show_table, terminal, to_json, working
from wyrd.cli.results import CheckVerdict, show_result, verdict_exit
from wyrd.errors import Code, WyrdError
from wyrd.verify import Execution, VerificationResult
from wyrd.wire.ids import is_uuid7
from wyrd.wire.verification import ExecutionStatus, StatusDocument

executions_app = typer.Typer(no_args_is_help=True, help="Look at executions, await them, cancel them.")

Id = Annotated[str, typer.Argument(metavar="ID", help="Execution id, or `latest` for the newest one.")]

_STATUSES = ", ".join(ExecutionStatus)
_LATEST = "latest"


def add_to(app: typer.Typer) -> None:
    add(executions_app, list_executions, "wyrd executions list --verdict failed", "list")
    add(executions_app, show, "wyrd executions show latest")
    add(executions_app, wait, "wyrd executions wait latest --timeout 60")
    add(executions_app, cancel, "wyrd executions cancel latest")
    app.add_typer(executions_app, name="executions")


def list_executions(
    verifier: Annotated[str | None, typer.Option(metavar="REF", help="Only of this Verifier.")] = None,
    subject: Annotated[str | None, typer.Option(metavar="REF", help="Only about this Card.")] = None,
    verdict: Annotated[str | None, typer.Option(help="passed, failed or inconclusive.")] = None,
    status: Annotated[
        str | None,
        typer.Option(help="pending, running, retrying, completed, cancelled, timed_out or errored."),
    ] = None,
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
    if run is not None and not is_uuid7(run):
        raise WyrdError(Code.SPEC_400_VALIDATION, "a run id is a UUIDv7", field="--run")
    using = client(server)
    page = using._run(
        executions.listing(
            using.server_url,
            {
                "verifier": filtering(verifier, "--verifier"),
                "subject": filtering(subject, "--subject"),
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
    show_table(
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
    if page.next_cursor is not None:
        terminal().print(f"more: --cursor {page.next_cursor}", markup=False)


def show(
    execution_id: Id,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write its drift report to this file, as SVG.")
    ] = None,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Print an execution's status, with its result once there is one."""
    execution = _named(execution_id, server)
    _show(execution.status(), format)
    if plot is not None:
        using = client(server)
        plot.write_bytes(using._run(executions.drift_picture(using.server_url, execution.id)))


def wait(
    execution_id: Id,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 60.0,
    check_verdict: CheckVerdict = False,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Wait for an execution's result and print it."""
    execution = _named(execution_id, server)
    with working(f"waiting for {execution.id}", format):
        result = execution.wait(timeout)
    show_result(result, format)
    verdict_exit(result, check_verdict)


def cancel(execution_id: Id, server: Server = None, format: Form = Format.TEXT) -> None:
    """Ask for the end of an execution and print its status."""
    _show(_named(execution_id, server).cancel(), format)


def _named(execution_id: str, server: str | None) -> Execution:
    """The execution of that id; VERIFICATION_404_EXECUTION_NOT_FOUND for the latest of none."""
    using = client(server)
    if execution_id != _LATEST:
        return Execution(execution_id, using)
    page = using._run(executions.listing(using.server_url, {"limit": 1}))
    if not page.items:
        raise WyrdError(Code.VERIFICATION_404_EXECUTION_NOT_FOUND, "there is no execution yet", field="ID")
    return Execution(page.items[0].execution_id, using)


def _show(document: dict[str, Any], form: Format) -> None:
    if form is Format.JSON:
        to_json(document)
        return
    status = StatusDocument.model_validate(document)
    more: list[tuple[str, str]] = []
    if status.window_start is not None and status.window_end is not None:
        more.append(("window", f"{status.window_start.isoformat()} to {status.window_end.isoformat()}"))
    if status.workflow_url is not None:
        more.append(("Temporal UI", status.workflow_url))
    if status.result is not None:
        show_result(VerificationResult.of(status.result), form, more=more)
        _show_dispatches(status.dispatches)
        return
    rows: list[tuple[str, str | Text]] = [
        ("execution", status.execution_id),
        ("status", outcome(status.status.value)),
    ]
    if status.group_id is not None:
        rows.append(("group", status.group_id))
    if status.workflow_id is not None:
        rows.append(("workflow", status.workflow_id))
    rows += more
    if status.error is not None:
        rows.append(("error", f"{status.error.message} [{status.error.code}]"))
    show_table(("", ""), rows)


def _show_dispatches(dispatches: list[dict[str, Any]]) -> None:
    """Who was told of the result, and what came of it."""
    if not dispatches:
        return
    terminal().print()
    rows = []
    for one in dispatches:
        error = one.get("error") or {}
        who = one["operator"].get("uid") or one["operator"].get("digest", "")[:12]
        attempts = len(one.get("attempts", ()))
        rows.append((who, outcome(one["status"]), str(attempts), error.get("message"), one["dispatch_id"]))
    show_table(("operator", "delivery", "attempts", "error", "dispatch"), rows)
