"""declare, get, pull, list, latest, delete, and `cards deactivate | reactivate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wyrd._client.envelope import CardEnvelope
from wyrd.cli.baselines import show_baselines
from wyrd.cli.options import Form, Ref, Server, add, client, exact, find_card, find_latest
from wyrd.cli.output import USAGE, Format, outcome, show_diagnostics, show_table, terminal, to_json, working
from wyrd.errors import Code, WyrdError
from wyrd.registry import Cards
from wyrd.wire.names import KINDS

cards_app = typer.Typer(no_args_is_help=True, help="Take Cards out of service and put them back.")


def add_to(app: typer.Typer) -> None:
    add(app, declare, "wyrd declare examples/support_desk/support-desk.yaml")
    add(app, get, "wyrd get support/Service/support-desk@1.0.0")
    add(app, pull, "wyrd pull support/Service/support-desk@1.0.0 --output-dir support-desk-bundle")
    add(app, list_cards, "wyrd list --kind Verifier", "list")
    add(app, latest, "wyrd latest support/Service/support-desk")
    add(app, delete, "wyrd delete support/Service/support-desk@1.0.0")
    add(cards_app, deactivate, "wyrd cards deactivate support/Service/support-desk@1.0.0")
    add(cards_app, reactivate, "wyrd cards reactivate support/Service/support-desk@1.0.0")
    app.add_typer(cards_app, name="cards")


def declare(
    path: Annotated[Path, typer.Argument(help="A Card file, or a folder with one root Card.")],
    check: Annotated[bool, typer.Option("--check", help="Only check, offline; declare nothing.")] = False,
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CARD=PATH",
            help="A file or folder that belongs to a declared Card, as space/Kind/name=path.",
        ),
    ] = None,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Declare a Card file with everything it refers to; says how baselines of drift checks come out."""
    if check:
        _check(path, format)
        return
    cards = Cards(client(server))
    with working(f"declaring {path}", format):
        receipt = cards.declare(path, files=_files(file or []))
    if format is Format.JSON:
        to_json(receipt.model_dump(mode="json"))
        return
    show_table(
        ("card", "outcome", "status"),
        ((one.card_ref.pinned, one.outcome.value, outcome(one.status.value)) for one in receipt.outcomes),
    )
    terminal().print(f"root: {receipt.root}", markup=False)
    show_baselines(cards, receipt)


def _files(given: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in given:
        card, separator, path = one.partition("=")
        if not separator or not path:
            raise WyrdError(
                Code.CLIENT_400_CONFIG_INVALID, f"{one[:200]!r} does not read CARD=PATH", field="--file"
            )
        found.setdefault(card, []).append(path)
    return found


def _check(path: Path, form: Format) -> None:
    from wyrd.cards import check as check_cards

    report = check_cards(path)
    if not report.ok and form is Format.JSON:
        import json

        sys.stderr.write(json.dumps(report.error_document(), ensure_ascii=False, indent=2) + "\n")
        raise typer.Exit(USAGE)
    if not report.ok:
        raise report.error()
    if form is Format.JSON:
        to_json(report.to_document())
        return
    show_diagnostics(one.to_document() for one in report.diagnostics)
    show_table(
        ("kind", "space", "name", "version"),
        ((card.kind, card.space, card.name, card.version or "assigned") for card in report.cards),
    )


def get(ref: Ref, server: Server = None, format: Form = Format.TEXT) -> None:
    """Print one Card's envelope; without a version, of the latest one."""
    _show(find_card(client(server), ref), format)


def pull(
    ref: Ref,
    output_dir: Annotated[
        Path,
        typer.Option("--output-dir", metavar="DIR", help="Folder to write; an earlier bundle is replaced."),
    ],
    metadata_only: Annotated[
        bool, typer.Option("--metadata-only", help="Leave the Cards' files out: to look at, not to run.")
    ] = False,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Download a Card and every Card it refers to, with their files; without a version, the latest."""
    using = client(server)
    with working(f"pulling {ref}", format):
        found = Cards(using).pull(find_card(using, ref).card_ref, output_dir, metadata_only)
    if format is Format.JSON:
        to_json(
            {
                "root": found.root.document(),
                "destination": str(found.destination),
                "mode": found.mode,
                "card_count": found.card_count,
                "artifact_count": found.artifact_count,
                "downloaded_artifact_count": found.downloaded_artifact_count,
            }
        )
        return
    files = f"{found.downloaded_artifact_count} of {found.artifact_count} files"
    terminal().print(f"{found.destination}: {found.card_count} Cards, {files}", markup=False)
    terminal().print(f"root: {found.root}", markup=False)


def latest(
    name: Annotated[str, typer.Argument(metavar="NAME", help="space/Kind/name.")],
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Print the latest version of a Card."""
    _show(find_latest(client(server), name), format)


def list_cards(
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    space: Annotated[str | None, typer.Option(help="Only this space.")] = None,
    name: Annotated[str | None, typer.Option(help="Only this name.")] = None,
    version_range: Annotated[str | None, typer.Option(help="A SemVer range, such as ^1.2.")] = None,
    status: Annotated[str | None, typer.Option(help="active, pending, deprecated, …")] = None,
    filter: Annotated[str | None, typer.Option(help="A filter expression.")] = None,
    include_prerelease: Annotated[bool, typer.Option(help="Also pre-releases.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Most Cards to print.")] = None,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """List Cards, one page at a time."""
    if kind is not None and kind not in KINDS:
        raise WyrdError(
            Code.SPEC_400_VALIDATION, f"{kind[:80]!r} is not one of {', '.join(KINDS)}", field="--kind"
        )
    page = Cards(client(server)).list(
        kind=kind,
        space=space,
        name=name,
        version_range=version_range,
        status=status,
        filter=filter,
        include_prerelease=include_prerelease,
        limit=limit,
        cursor=cursor,
    )
    if format is Format.JSON:
        to_json(page)
        return
    show_table(
        ("card", "status", "uid", "created"),
        (
            (
                item.ref.pinned,
                outcome(item.status.value),
                item.card_uid,
                item.created_at.isoformat(timespec="seconds"),
            )
            for item in page.items
        ),
    )
    if page.next_cursor is not None:
        terminal().print(f"more: --cursor {page.next_cursor}", markup=False)


def delete(ref: Ref, server: Server = None, format: Form = Format.TEXT) -> None:
    """Delete one exact Card."""
    answer = Cards(client(server)).delete(exact(ref))
    if format is Format.JSON:
        to_json(answer)
    else:
        terminal().print(f"{ref} {'deleted' if answer.deleted else 'was deleted before'}", markup=False)


def deactivate(ref: Ref, server: Server = None, format: Form = Format.TEXT) -> None:
    """Take one exact Card out of service."""
    _show_turned(Cards(client(server)).deactivate(exact(ref)), format)


def reactivate(ref: Ref, server: Server = None, format: Form = Format.TEXT) -> None:
    """Put a deactivated Card back into service."""
    _show_turned(Cards(client(server)).reactivate(exact(ref)), format)


def _show_turned(card: CardEnvelope, form: Format) -> None:
    if form is Format.JSON:
        to_json(card.model_dump())
        return
    phase: Any = (card.status or {}).get("phase", "unknown")
    terminal().print(f"{card.card_ref.pinned} is {phase}", markup=False)


def _show(card: CardEnvelope, form: Format) -> None:
    document = card.model_dump()
    if form is Format.JSON:
        to_json(document)
        return
    import yaml

    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    console = terminal()
    if console.is_terminal:
        from rich.syntax import Syntax

        console.print(Syntax(text, "yaml", background_color="default", word_wrap=True))
    else:
        sys.stdout.write(text)
