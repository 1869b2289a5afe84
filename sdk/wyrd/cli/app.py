"""The command tree, and the one place where failures become error documents and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from wyrd.cli import (
    bindings,
    cards,
    executions,
    keys,
    mcp,
    operator_connections,
    queries,
    servers,
    verifications,
)
from wyrd.cli.output import FAILED, Format, exit_code_of, show_error
from wyrd.errors import Code, WyrdError

INTERRUPTED = 130

_UsageError: Any = typer.BadParameter.__bases__[0]
_ClickException: Any = _UsageError.__bases__[0]

app = typer.Typer(
    name="wyrd",
    help="Declare what an AI service must do, verify its evidence, and prove it later.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for module in (
    *(servers, cards, verifications, executions, bindings, queries),
    *(keys, operator_connections, mcp),
):
    module.add_to(app)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as installed

        try:
            found = installed("wyrd-temporal")
        except PackageNotFoundError:
            found = "unknown (not installed as a package)"
        sys.stdout.write(f"wyrd {found}\n")
        raise typer.Exit


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    form = _format_of(arguments)
    try:
        code = typer.main.get_command(app).main(args=list(arguments), prog_name="wyrd", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except WyrdError as error:
        return _failed(error, form)
    except _ClickException as error:
        return _failed(_usage(error), form)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; Python must not complain about it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _failed(
            WyrdError(
                Code.LOADER_400_IO,
                f"{where}{error.strerror or error}",
                path=str(error.filename) if error.filename else None,
            ),
            form,
        )


def _failed(error: WyrdError, form: Format) -> int:
    show_error(error, form)
    return exit_code_of(error)


def _usage(error: Any) -> WyrdError:
    parameter = getattr(error, "param", None)
    name = getattr(error, "option_name", None) or (
        _name_of(parameter) if parameter is not None else "arguments"
    )
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "wyrd"
    return WyrdError(
        Code.CLIENT_400_CONFIG_INVALID,
        f"{error.format_message()} (see {command} --help)",
        field=name,
        command=command,
    )


def _name_of(parameter: Any) -> str:
    """An option as it is typed, an argument as `--help` shows it."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).upper()
    return str(max(parameter.opts, key=len))


def _format_of(arguments: Sequence[str]) -> Format:
    """The format asked for, read without parsing, since the parse itself may be what fails."""
    for index, argument in enumerate(arguments):
        value = argument.partition("=")[2]
        if argument == "--format" and index + 1 < len(arguments):
            value = arguments[index + 1]
        if argument.partition("=")[0] == "--format" and value == Format.JSON.value:
            return Format.JSON
    return Format.TEXT
