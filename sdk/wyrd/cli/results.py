"""A result for people: the breakdown, and what its citations point at where the evidence is here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from wyrd.cli.output import FAILED, Format, outcome, show_table, terminal, to_json
from wyrd.verify import File, VerificationResult
from wyrd.wire.canonical import JsonRefused, strict_loads
from wyrd.wire.verification import Attempt, Citation

CheckVerdict = Annotated[
    bool, typer.Option("--check-verdict", help="Exit with 1 unless the verdict is passed.")
]

_MOST_LINES = 6
_MOST_CHARACTERS = 400
_MOST_BYTES = 4 * 1024 * 1024
"""Local evidence above this size is not read again just to quote it."""

_LINED = frozenset({"markdown", "text", "csv", "json"})


def verdict_exit(result: VerificationResult, check: bool) -> None:
    if check and result.verdict != "passed":
        raise typer.Exit(FAILED)


def show_result(
    result: VerificationResult,
    form: Format,
    evidence: Mapping[str, Any] | None = None,
    more: Iterable[tuple[str, str]] = (),
) -> None:
    """Print it. `evidence` is what the caller handed in, by slot, for quotations; `more` are further rows."""
    if form is Format.JSON:
        to_json(result.document())
        return
    console = terminal()
    why = f" ({result.reason})" if result.reason else ""
    console.print(Text.assemble(("verdict: ", "bold"), outcome(result.verdict), why))
    show_table(("", ""), (*_about(result), *more))
    for one in result.requirements:
        where = f" (step {one.step})" if one.step else ""
        console.print()
        console.print(Text.assemble(outcome(one.outcome), f"  {one.id}{where}: ", (one.statement, "bold")))
        console.print(Text.assemble(f"  {one.reason}", (_kind(one.reason_kind), "dim")))
        for line in _lost(one.attempt_log):
            console.print(Text(f"  {line}", style="dim"))
        for citation in one.citations:
            console.print(Text(f"  {_place(citation)}", style="dim"))
            for line in _quoted(citation, result, evidence or {}):
                console.print(Text(f"    | {line}"))
    if result.steps:
        console.print()
        show_table(
            ("step", "status", "attempts", "ms", "reason"),
            (
                (
                    step.id,
                    outcome(step.status),
                    str(step.attempts),
                    str(step.duration_ms),
                    f"{step.reason or ''}{_kind(step.reason_kind)}",
                )
                for step in result.steps
            ),
        )
        for step in result.steps:
            for line in _lost(step.attempt_log):
                console.print(Text(f"  {step.id}: {line}", style="dim"))


def _about(result: VerificationResult) -> Iterator[tuple[str, str]]:
    yield "verifier", result.verifier.pinned
    yield "subject", result.subject.pinned
    yield "execution", result.execution_id
    for name, value in (("run", result.run_id), ("group", result.group_id), ("workflow", result.workflow_id)):
        if value is not None:
            yield name, value
    for slot, declared in result.evidence.items():
        if declared.get("kind") == "file":
            yield slot, file_told(declared.get("filename"), declared.get("format"))


def file_told(name: Any, form: Any) -> str:
    """A file as evidence, and as which format it was taken."""
    return f"{name or 'a file'}, taken as {form}"


def _kind(kind: str | None) -> str:
    return f" [{kind}]" if kind else ""


def _lost(attempts: list[Attempt]) -> Iterator[str]:
    """The attempts that failed before another one was made."""
    for one in attempts[:-1]:
        if one.error is not None:
            yield f"attempt {one.number} failed: {one.error.message}{_kind(one.error.kind)}"


def _place(citation: Citation) -> str:
    locator = citation.locator
    if locator.lines is not None:
        return f"{citation.slot}, lines {locator.lines.start} to {locator.lines.end}"
    if locator.page is not None:
        return f"{citation.slot}, page {locator.page}"
    if locator.slide is not None:
        return f"{citation.slot}, slide {locator.slide}"
    if locator.json_pointer is not None:
        return f"{citation.slot}, at {locator.json_pointer or 'its root'}"
    if locator.region is not None:
        return f"{citation.slot}, a region of page {locator.region.page}"
    return citation.slot


def _quoted(citation: Citation, result: VerificationResult, evidence: Mapping[str, Any]) -> list[str]:
    """The cited words, when the evidence is at hand and is text; nothing otherwise."""
    declared = result.evidence.get(citation.slot) or {}
    given = evidence.get(citation.slot)
    locator = citation.locator
    text = _text_of(given)
    if locator.lines is not None and text is not None and declared.get("format") in _LINED:
        chosen = text.splitlines()[max(locator.lines.start - 1, 0) : max(locator.lines.end, 0)]
        return _short(chosen)
    if locator.json_pointer is not None:
        value = declared.get("value")
        if declared.get("kind") == "file" and text is not None:
            try:
                value = strict_loads(text)
            except JsonRefused:
                return []
        elif declared.get("kind") != "json":
            return []
        found = _pointed(value, locator.json_pointer)
        return [] if found is ... else _short(json.dumps(found, ensure_ascii=False, indent=2).splitlines())
    return []


def _text_of(given: Any) -> str | None:
    if not isinstance(given, File):
        return None
    try:
        if isinstance(given.source, bytes):
            raw = given.source
        else:
            path = Path(given.source)
            if path.stat().st_size > _MOST_BYTES:
                return None
            raw = path.read_bytes()
        return raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


def _pointed(value: Any, pointer: str) -> Any:
    """The value at an RFC 6901 pointer, or `...` when there is none."""
    if not pointer:
        return value
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return ...
    return value


def _short(lines: list[str]) -> list[str]:
    kept = [line[:_MOST_CHARACTERS] for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        kept.append(f"… {len(lines) - _MOST_LINES} more lines")
    return kept
