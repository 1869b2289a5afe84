"""query, tables list, tables show: Bifrost from a shell."""

from __future__ import annotations

import csv
import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from wyrd._client import query as queries
from wyrd._client import tables
from wyrd.cli.options import Form, Server, add, client
from wyrd.cli.output import Format, show_table, terminal, to_json, working
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonRefused, strict_loads

tables_app = typer.Typer(no_args_is_help=True, help="Look at the tables of Bifrost.")

_PLACE = re.compile(r"line (\d+), column (\d+)")


class Rows(StrEnum):
    """How rows are printed. `text` is the table, and `json` one document, as of other commands."""

    TABLE = "table"
    TEXT = "text"
    JSONL = "jsonl"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


def add_to(app: typer.Typer) -> None:
    add(
        app,
        query,
        "wyrd query 'SELECT verdict, count(*) AS n FROM vala.verification.results GROUP BY verdict'",
    )
    add(tables_app, list_tables, "wyrd tables list", "list")
    add(tables_app, show_table_of, "wyrd tables show vala.verification.results", "show")
    app.add_typer(tables_app, name="tables")


def query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="One SELECT; - reads it from input, @FILE a file.")
    ],
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUE", help="The value of $1, then of $2, …: JSON, or else text."),
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="How long it may take.")
    ] = None,
    server: Server = None,
    format: Annotated[
        Rows, typer.Option("--format", help="table for people; jsonl, json, csv or arrow for programs.")
    ] = Rows.TABLE,
) -> None:
    """Ask Bifrost with SQL."""
    statement = _statement(sql)
    using = client(server)
    milliseconds = None if deadline is None else max(1, int(deadline * 1000))
    try:
        with working("querying", Format.JSON if format is Rows.JSON else Format.TEXT):
            reply = using._run(
                queries.asked(statement, _values(param or []), milliseconds).run(using.server_url)
            )
            result = queries.collected(reply)
    except WyrdError as error:
        _point_at(error, statement)
        raise
    if format is Rows.ARROW:
        sys.stdout.buffer.write(result.to_bytes())
        sys.stdout.buffer.flush()
        return
    names, rows = result.schema.names, result.to_pylist()
    if format is Rows.JSON:
        to_json(rows)
    elif format is Rows.JSONL:
        for row in rows:
            sys.stdout.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
    elif format is Rows.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_plain(row[name]) for name in names] for row in rows)
    else:
        show_table(names, ([_plain(row[name]) for name in names] for row in rows))
        console = terminal(error=True)
        if console.is_terminal:
            console.print(Text("1 row" if len(rows) == 1 else f"{len(rows)} rows", style="dim"))
    sys.stdout.flush()


def list_tables(server: Server = None, format: Form = Format.TEXT) -> None:
    """List the tables that can be queried."""
    using = client(server)
    found = using._run(tables.listing(using.server_url))
    if format is Format.JSON:
        to_json(found)
        return
    show_table(
        ("table", "status", "registered"),
        ((f"{one['namespace']}.{one['name']}", one["status"], str(one["registered_at"])) for one in found),
    )


def show_table_of(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="Such as vala.datasets.tickets.")],
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Show the columns of a table."""
    namespace, _, last = name.rpartition(".")
    if not namespace:
        raise WyrdError(
            Code.CLIENT_400_CONFIG_INVALID, f"{name[:200]!r} does not read NAMESPACE.NAME", field="TABLE"
        )
    using = client(server)
    found = using._run(tables.description(using.server_url, namespace, last))
    if format is Format.JSON:
        to_json(found)
        return
    show_table(
        ("column", "type", "null"),
        (
            (one["name"], _type(one["data_type"]), "yes" if one["nullable"] else "no")
            for one in (*found["user_fields"], *found["correlation_fields"])
        ),
    )


def _statement(given: str) -> str:
    if given == "-":
        return sys.stdin.read()
    if given.startswith("@"):
        return Path(given[1:]).read_text(encoding="utf-8")
    return given


def _values(given: list[str]) -> list[Any]:
    return [_value(text) for text in given]


def _value(text: str) -> Any:
    """A scalar as JSON says it; anything else is the text itself, so that nobody must quote twice."""
    try:
        found = strict_loads(text)
    except JsonRefused:
        return text
    return found if found is None or isinstance(found, bool | int | float | str) else text


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(given: Any) -> str:
    """A column's type in one line, such as `Timestamp(Microsecond, +00:00)` or `List(Utf8)`."""
    if isinstance(given, str):
        return given
    [(name, of)] = given.items()
    if isinstance(of, list):
        parts = [f"{one['name']} {_type(one['data_type'])}" for one in of]
    elif "data_type" in of:
        parts = [_type(of["data_type"])]
    else:
        parts = [
            _type(one["data_type"]) if isinstance(one, dict) else str(one)
            for one in of.values()
            if one is not None
        ]
    return f"{name}({', '.join(parts)})"


def _point_at(error: WyrdError, statement: str) -> None:
    """Show the place in the statement that the server's sentence names."""
    found = _PLACE.search(error.detail)
    lines = statement.splitlines()
    if found is None or not 0 < int(found[1]) <= len(lines):
        return
    error.add_note(lines[int(found[1]) - 1])
    error.add_note(" " * (int(found[2]) - 1) + "^")
