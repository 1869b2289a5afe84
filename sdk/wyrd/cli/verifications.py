"""verify and submit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from wyrd._client import registry
from wyrd._client.envelope import CardEnvelope
from wyrd._client.graph import bound_refs, matches
from wyrd._client.inputs import Intent, slots_of
from wyrd._client.verification import Judgement
from wyrd.cli.options import Form, Server, add, client, find_card
from wyrd.cli.output import Format, show_table, to_json, working
from wyrd.cli.results import CheckVerdict, file_told, show_result, verdict_exit
from wyrd.client import WyrdClient
from wyrd.errors import Code, WyrdError
from wyrd.verify import Execution, File
from wyrd.wire.canonical import JsonRefused, strict_loads
from wyrd.wire.ids import is_uuid7
from wyrd.wire.refs import CardRef

Verifier = Annotated[
    str,
    typer.Argument(
        metavar="VERIFIER", help="Name, name@version, space/name@version or space/Verifier/name@version."
    ),
]
Subject = Annotated[
    str, typer.Option("--card", metavar="REF", help="The subject: space/Kind/name@version, or the latest.")
]
Inputs = Annotated[
    list[str] | None, typer.Option("--input", metavar="SLOT=JSON|@FILE", help="A JSON value for a slot.")
]
Files = Annotated[
    list[str] | None, typer.Option("--file", metavar="SLOT=PATH", help="A file for a media slot.")
]
Traces = Annotated[
    list[str] | None, typer.Option("--trace", metavar="SLOT=ID", help="A trace id for a trace slot.")
]
Group = Annotated[str | None, typer.Option("--group", metavar="ID", help="Group of this evidence.")]
RunId = Annotated[str | None, typer.Option("--run", metavar="ID", help="Run id, a UUIDv7.")]

_BODY = "no-sure-refund --card support/Service/support-desk --input 'answer=\"We can help.\"'"


def add_to(app: typer.Typer) -> None:
    add(app, verify, f"wyrd verify {_BODY}")
    add(app, submit, f"wyrd submit {_BODY} --wait 30")


def verify(
    verifier: Verifier,
    card: Subject,
    input: Inputs = None,
    file: Files = None,
    trace: Traces = None,
    group: Group = None,
    run: RunId = None,
    check_verdict: CheckVerdict = False,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Judge now and print the verdict with its breakdown."""
    using = client(server)
    values = _values(input, file, trace)
    with working("verifying", format):
        judgement = _judgement(using, "verify", verifier, card, values, group, run)
        result = using._run(judgement.verify(using.server_url))
    show_result(result, format, values)
    verdict_exit(result, check_verdict)


def submit(
    verifier: Verifier,
    card: Subject,
    input: Inputs = None,
    file: Files = None,
    trace: Traces = None,
    group: Group = None,
    run: RunId = None,
    wait: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Wait for the result, at most this long.")
    ] = None,
    check_verdict: CheckVerdict = False,
    server: Server = None,
    format: Form = Format.TEXT,
) -> None:
    """Hand evidence to the queue and print the execution; with --wait, its result."""
    using = client(server)
    values = _values(input, file, trace)
    with working("submitting", format):
        judgement = _judgement(using, "submit", verifier, card, values, group, run)
        answer = using._run(judgement.submit(using.server_url))
    execution = Execution(answer.execution_id, using)
    link = [("Temporal UI", answer.workflow_url)] if answer.workflow_url is not None else []
    if wait is not None:
        with working(f"waiting for {execution.id}", format):
            result = execution.wait(wait)
        show_result(result, format, values, more=link)
        verdict_exit(result, check_verdict)
    elif format is Format.JSON:
        to_json(answer.model_dump(mode="json", exclude_unset=True))
    else:
        rows = [("execution", execution.id), ("workflow", answer.workflow_id or "unknown"), *link]
        show_table(("", ""), (*rows, *_taken(judgement)))


def _taken(judgement: Judgement) -> Iterator[tuple[str, str]]:
    """Each file, and the format that it was taken as."""
    for slot, declared in slots_of(judgement.verifier).items():
        value = judgement.values.get(slot)
        if isinstance(value, File):
            yield slot, file_told(value.name, value.format_for(slot, tuple(declared["formats"])))


def _judgement(
    using: WyrdClient,
    intent: Intent,
    verifier: str,
    card: str,
    values: dict[str, Any],
    group: str | None,
    run: str | None,
) -> Judgement:
    if run is not None and not is_uuid7(run):
        raise WyrdError(Code.SPEC_400_VALIDATION, "a run id is a UUIDv7", field="--run")
    subject = find_card(using, card, "--card")
    return Judgement.of(intent, _find_verifier(using, verifier, subject), subject.uid, run, group, (), values)


def _find_verifier(using: WyrdClient, text: str, subject: CardEnvelope) -> CardEnvelope:
    """The Verifier meant: one that the subject's own Card binds, else any declared one of that name.

    A component's bindings stand on the Service above it, so the subject's Card may not know them;
    whether there is a binding is then for the server to say.
    """
    bound = [ref for ref in bound_refs(subject.spec, "spec") if matches(ref, text)]
    if len(bound) != 1 and "/Verifier/" in text:
        return find_card(using, text, "VERIFIER")
    if not bound:
        bound = _declared(using, text)
    if len(bound) == 1:
        return using._run(registry.get(using.server_url, bound[0]))
    if not bound:
        known = [*bound_refs(subject.spec, "spec"), *_declared(using)]
        raise WyrdError(
            Code.SDK_404_UNKNOWN_VERIFIER,
            f"no Verifier {text!r} is declared",
            verifier=text,
            verifiers=list(dict.fromkeys(ref.pinned for ref in known)),
        )
    choices = sorted(ref.pinned for ref in bound)
    raise WyrdError(
        Code.SPEC_400_VALIDATION,
        f"{text!r} may be any of {', '.join(choices)}; name one of them",
        field="VERIFIER",
        choices=choices,
    )


def _declared(using: WyrdClient, text: str = "") -> list[CardRef]:
    """The active Verifiers of that name, or all on the first page of them."""
    head, _, version = text.partition("@")
    space, _, name = head.rpartition("/")
    filters = {
        "kind": "Verifier",
        "name": name or None,
        "space": space or None,
        "include_prerelease": True,
    }
    items = using._run(registry.listing(using.server_url, filters)).items
    return [item.ref for item in items if item.status == "active" and version in ("", item.version)]


def _values(inputs: list[str] | None, files: list[str] | None, traces: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option, texts, read in (
        ("--input", inputs, _json_value),
        ("--file", files, File),
        ("--trace", traces, str),
    ):
        for text in texts or ():
            slot, equals, value = text.partition("=")
            if not equals or not slot:
                raise _bad(option, f"{text[:80]!r} is not of the form slot=value")
            if slot in found:
                raise _bad(option, f"slot {slot!r} is given twice")
            found[slot] = read(value)
    return found


def _json_value(text: str) -> Any:
    try:
        if text.startswith("@"):
            return strict_loads(Path(text[1:]).read_bytes())
        return strict_loads(text)
    except JsonRefused as refused:
        hint = "" if text.startswith("@") else "; a text needs its quotes: slot='\"like this\"'"
        raise _bad("--input", f"{text[:80]!r} is {refused.reason}{hint}") from None


def _bad(option: str, detail: str) -> WyrdError:
    return WyrdError(Code.CLIENT_400_CONFIG_INVALID, f"{option}: {detail}", field=option)
