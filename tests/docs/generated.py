"""The parts of the pages that are written from the code: the error catalogue and the commands.

`python -m tests.docs.generated` writes them anew; a test says when that is due.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from tests.docs.fences import ROOT
from wyrd.cli.app import app
from wyrd.errors import Code

ERRORS = ROOT / "docs/errors.md"
COMMANDS = ROOT / "docs/command-line.md"
COMMANDS_BEGIN = "## Commands\n"

COMMON = frozenset({"server", "format"})
"""Options that the page tells of once."""

FAMILIES = {
    "VERIFICATION": "Verify, submit, executions",
    "SPEC": "Requests and Cards that break a rule",
    "LOADER": "Reading Card files",
    "REGISTRY": "Declaring and reading Cards",
    "STORAGE": "Files",
    "AUTH": "Credentials",
    "PERMISSION": "Permissions",
    "CLIENT": "The client",
    "SDK": "States, runs and waits",
    "CLI": "The command line",
    "GATEWAY": "Models",
    "OPERATOR": "Operator connections",
    "DRIFT": "Drift",
    "SOURCE": "Source Cards",
    "QUERY": "Queries",
    "VALA": "The data plane",
    "SERVER": "The server",
    "CFG": "Configuration",
}

_ERRORS_INTRO = """# Errors

<!-- written by `python -m tests.docs.generated` from wyrd.errors -->

Every error has a code, `WYRD_<FAMILY>_<HTTP status>_<NAME>`. The API answers it as a problem document
(RFC 9457), the SDK raises it as `wyrd.WyrdError`, and the command line prints it with its remedy. Branch on
`code`: it is part of the contract, titles and sentences are not. `message` says what happened this time, and
`details` names the field.

An inconclusive verdict is not an error. Its
[reason kinds](read-a-result.md#why-something-was-not-judged) are another list.
"""


def errors_page() -> str:
    """docs/errors.md: every code of the catalogue, by family."""
    families: dict[str, list[Code]] = {}
    for member in Code:
        families.setdefault(str(member).split("_")[1], []).append(member)
    parts = [_ERRORS_INTRO]
    for family, title in FAMILIES.items():
        if family in families:
            rows = (f"| `{one}` | {one.title} | {one.remedy} |" for one in families.pop(family))
            parts.append(
                "\n".join((f"## {title}\n", "| code | what | remedy |", "|---|---|---|", *rows)) + "\n"
            )
    if families:
        raise ValueError(f"give the families {sorted(families)} a title in {__name__}")
    return "\n".join(parts)


def commands_part() -> str:
    """The end of docs/command-line.md: every command with its options."""
    return "\n".join(_told("wyrd", typer.main.get_command(app)))


def commands_page() -> str:
    """docs/command-line.md, its last part written anew."""
    kept, begin, _ = COMMANDS.read_text(encoding="utf-8").partition(COMMANDS_BEGIN)
    return f"{kept}{begin}\n{commands_part()}"


def _told(name: str, command: Any) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is not None:
        for child, nested in children.items():
            yield from _told(f"{name} {child}", nested)
        return
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    usage = " ".join([name, *(_argument(one) for one in arguments)])
    yield f"### {usage}\n"
    yield f"{' '.join(command.help.split())}\n"
    rows = [f"| `{_argument(one)}` | {one.help} |" for one in arguments if one.help]
    rows += [f"| {_option(one)} | {one.help} |" for one in options if one.name not in COMMON]
    if rows:
        yield "| | |\n|---|---|"
        yield from rows
        yield ""


def _argument(one: Any) -> str:
    name = one.metavar or one.name
    text = str(name).strip("{}").upper()
    return text if one.required else f"[{text}]"


def _option(one: Any) -> str:
    value = "" if one.is_flag else f" {one.metavar or 'VALUE'}"
    return ", ".join(f"`{opt}{value}`".replace("|", "\\|") for opt in sorted(one.opts, key=len, reverse=True))


def main() -> None:
    for path, text in ((ERRORS, errors_page()), (COMMANDS, commands_page())):
        Path(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
