"""How commands speak: JSON for programs, tables and colour for people on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wyrd.errors import Code, WyrdError

USAGE, NOT_FOUND, UNAVAILABLE, IO, REFUSED, FAILED = 64, 66, 69, 74, 77, 1

_BY_STATUS = {
    400: USAGE,
    401: REFUSED,
    403: REFUSED,
    404: NOT_FOUND,
    502: UNAVAILABLE,
    503: UNAVAILABLE,
    507: IO,
}


_MOST_CHARACTERS = 2000


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


def exit_code_of(error: WyrdError) -> int:
    """The process exit code of an error, by the status its code names; a failed read or write is 74."""
    if error.member is Code.LOADER_400_IO:
        return IO
    return _BY_STATUS.get(error.status, FAILED)


def error_document(error: WyrdError) -> dict[str, Any]:
    return {
        "kind": "wyrd_cli_error",
        "code": error.code,
        "status": error.status,
        "title": error.title,
        "message": error.message,
        "remediation": error.remediation,
        "details": error.details,
    }


def plain(value: Any) -> Any:
    """Models inside lists and mappings as JSON data."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _json(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False, indent=2, default=str)


def to_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(_json(value) + "\n")
    sys.stdout.flush()


def terminal(*, error: bool = False) -> Console:
    """A console that colours on a terminal only, and never under NO_COLOR."""
    console = Console(stderr=error, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        # A pipe has no width to fit: never cut what a program may read.
        console = Console(stderr=error, highlight=False, soft_wrap=True, width=10_000)
    return console


def show_error(error: WyrdError, form: Format) -> None:
    """The error on standard error: one JSON object, or the sentence, its remedy and diagnostics."""
    if form is Format.JSON:
        sys.stderr.write(_json(error_document(error)) + "\n")
        sys.stderr.flush()
        return
    console = terminal(error=True)
    console.print(Text.assemble(("error: ", "bold red"), error.message, (f" [{error.code}]", "dim")))
    for name, value in _told(error):
        console.print(Text.assemble((f"  {name}: ", "dim"), value))
    for one in error.details.get("diagnostics") or ():
        console.print(_diagnostic(one))
    for one in (error.details.get("errors") or ())[1:]:
        # The message tells the first.
        console.print(Text(f"  {one['field']}: {one['reason']}"))
    for line in error.details.get("last_lines") or ():
        console.print(Text(f"  {line}", style="dim"))
    for note in getattr(error, "__notes__", ()):
        console.print(Text(f"  {note}", style="dim"))
    console.print(Text.assemble(("remedy: ", "bold"), error.remediation))


_LISTED = frozenset({"diagnostics", "errors", "last_lines"})
"""Details with lines of their own."""


def _told(error: WyrdError) -> Iterator[tuple[str, str]]:
    """The details that a person needs: what the remedy refers to, and what the message leaves out."""
    told: set[str] = set()
    for name, value in error.details.items():
        if name in _LISTED or value is None or value in ("", [], {}):
            continue
        text = _short(value)
        if text in told and f"details.{name}" not in error.remediation:
            continue
        told.add(text)
        asked = name in ("field", "path") or f"details.{name}" in error.remediation
        if asked or text not in error.message:
            yield name, text


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        text = ", ".join(str(item) for item in value)
    elif isinstance(value, dict | list):
        text = json.dumps(plain(value), ensure_ascii=False, default=str)
    else:
        text = str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _diagnostic(one: dict[str, Any]) -> Text:
    """Severity, place, what is wrong, and the code last: `warning: answer.yaml:11:7: requirements[0]…`."""
    place = str(one.get("path"))
    if one.get("line") is not None:
        place += f":{one['line']}" + (f":{one['column']}" if one.get("column") is not None else "")
    severity, code = str(one.get("severity")), str(one.get("code"))
    style = "yellow" if severity == "warning" else "red"
    message = str(one.get("message")).removeprefix(f"[{code}] ")
    return Text.assemble("  ", (severity, style), f": {place}: {message}", (f" [{code}]", "dim"))


def show_diagnostics(diagnostics: Iterable[dict[str, Any]]) -> None:
    console = terminal(error=True)
    for one in diagnostics:
        console.print(_diagnostic(one))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text | None]]) -> None:
    """Print rows for people; cells are literal text, never markup. In a pipe no line ends in spaces."""
    console, found = terminal(), _table(columns, rows)
    if console.is_terminal:
        console.print(found)
        return
    with console.capture() as captured:
        console.print(found)
    for line in captured.get().rstrip("\n").split("\n"):
        sys.stdout.write(f"{line.rstrip()}\n")
    sys.stdout.flush()


def _table(columns: Sequence[str], rows: Iterable[Sequence[str | Text | None]]) -> Table:
    found = Table(
        box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns)
    )
    for column in columns:
        found.add_column(column, overflow="fold")
    for row in rows:
        found.add_row(*(cell if isinstance(cell, Text) else Text(cell or "") for cell in row))
    return found


def working(what: str, form: Format) -> AbstractContextManager[object]:
    """A spinner on a terminal's standard error; nothing anywhere else."""
    console = terminal(error=True)
    if form is Format.JSON or not console.is_terminal:
        return nullcontext()
    return console.status(what)


_OUTCOME_STYLES = {
    "passed": "green",
    "completed": "green",
    "succeeded": "green",
    "active": "green",
    "failed": "bold red",
    "errored": "bold red",
    "inconclusive": "yellow",
    "timed_out": "yellow",
    "cancelled": "yellow",
    "deprecated": "yellow",
}


def outcome(word: str | None) -> Text:
    """A verdict, status or outcome in its colour."""
    return Text(word or "", style=_OUTCOME_STYLES.get(word or "", ""))
