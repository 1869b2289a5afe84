"""The closed Verdict that agent and code checks answer with, and what becomes of it.

A Verdict is exactly `outcome`, `reason` and `citations`. Anything else is inconclusive: nothing
is defaulted, repaired, or looked for in prose. Reasons name the fault; they never repeat the reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.capture import Capture, capture
from engine.citations import Citation, InvalidCitation, Places, check_citations
from engine.failure import ReasonKind
from engine.finding import CheckFinding
from engine.outcomes import Outcome
from wyrd.wire.canonical import JsonFault, JsonRefused, strict_loads

MAX_REASON_BYTES = 32 * 1024
_NAMED_CITATIONS = 3


class ClosedVerdict(BaseModel):
    """What a judge answers. Types are exact: no member more or less, no other letter case."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    outcome: Literal["passed", "failed", "inconclusive"]
    reason: str
    citations: list[Citation]


class Malformed(ValueError):
    """The value is not one closed Verdict. The message names the fault without repeating it."""


def judge_reply(
    text: str | None,
    *,
    finish_reason: str | None,
    refused: bool = False,
    places: Mapping[str, Places],
    mode: Capture = Capture.FULL,
) -> CheckFinding:
    """The finding of an agent check from the model's reply.

    `finish_reason` is the provider's word for why it stopped, `refused` says that it returned a
    refusal. Both come before the text: a truncated reply that happens to parse is still
    truncated. A Verdict that passed needs one valid citation; one that failed stands without.
    The text of a malformed reply is kept as `detail.reply`, as far as `mode` allows.
    """
    if stopped := _stopped(finish_reason, refused):
        kind, reason = stopped
        return CheckFinding(Outcome.INCONCLUSIVE, reason, kind, detail=_kept(text, mode))
    try:
        verdict = parse_reply(text)
    except Malformed as fault:
        return CheckFinding(
            Outcome.INCONCLUSIVE,
            f"the reply is not a Verdict: {fault}",
            ReasonKind.JUDGE_MALFORMED,
            detail=_kept(text, mode),
        )
    valid, invalid = check_citations(verdict.citations, places)
    if verdict.outcome == "passed" and not valid:
        return _unsupported(verdict, invalid)
    return _finding(verdict, valid, invalid)


def judge_returned(value: Any, *, places: Mapping[str, Places], mode: Capture = Capture.FULL) -> CheckFinding:
    """The finding of a code check from the JSON value its function returned.

    Code is deterministic, so its outcome stands whatever it cites; a citation that names no
    existing place is dropped, and the reason says so.
    """
    try:
        verdict = closed_verdict(value)
    except Malformed as fault:
        return CheckFinding(
            Outcome.INCONCLUSIVE,
            f"the returned value is not a Verdict: {fault}",
            ReasonKind.CODE_FAILED,
            detail=_kept(value, mode),
        )
    return _finding(verdict, *check_citations(verdict.citations, places))


def parse_reply(text: str | None) -> ClosedVerdict:
    """Read a reply that is exactly one JSON object and a closed Verdict. Raises `Malformed`."""
    if text is None or not text.strip():
        raise Malformed("it is empty")
    try:
        value = strict_loads(text)
    except JsonRefused as refused:
        raise Malformed(_JSON_FAULTS[refused.fault]) from None
    return closed_verdict(value)


def closed_verdict(value: Any) -> ClosedVerdict:
    """Check a JSON value against the closed Verdict. Raises `Malformed`."""
    if type(value) is not dict:
        raise Malformed("it is not a JSON object")
    try:
        verdict = ClosedVerdict.model_validate(value)
    except ValidationError as error:
        raise Malformed(_fault(error)) from None
    if len(verdict.reason.encode("utf-8", "surrogatepass")) > MAX_REASON_BYTES:
        raise Malformed(f"its reason is longer than {MAX_REASON_BYTES} bytes")
    return verdict


# Some providers pass their own word on instead of the common `stop`.
_COMPLETE = frozenset({"stop", "end_turn", "stop_sequence", "completed", "eos"})
_STOPPED: dict[str, tuple[ReasonKind, str]] = {
    "length": (ReasonKind.JUDGE_TRUNCATED, "the reply was truncated at the token limit"),
    "max_tokens": (ReasonKind.JUDGE_TRUNCATED, "the reply was truncated at the token limit"),
    "max_output_tokens": (ReasonKind.JUDGE_TRUNCATED, "the reply was truncated at the token limit"),
    "content_filter": (ReasonKind.JUDGE_FILTERED, "the provider filtered the reply"),
    "safety": (ReasonKind.JUDGE_FILTERED, "the provider filtered the reply"),
    "prohibited_content": (ReasonKind.JUDGE_FILTERED, "the provider filtered the reply"),
    "refusal": (ReasonKind.JUDGE_REFUSED, "the model refused to answer"),
}


def _stopped(finish_reason: str | None, refused: bool) -> tuple[ReasonKind, str] | None:
    word = (finish_reason or "").lower()
    if found := _STOPPED.get(word):
        return found
    if refused:
        return _STOPPED["refusal"]
    if word in _COMPLETE:
        return None
    return ReasonKind.JUDGE_MALFORMED, "the provider did not say that the reply is complete"


def _finding(verdict: ClosedVerdict, valid: list[Citation], invalid: list[InvalidCitation]) -> CheckFinding:
    outcome = Outcome(verdict.outcome)
    kind = ReasonKind.JUDGED_INCONCLUSIVE if outcome is Outcome.INCONCLUSIVE else None
    reason = f"{verdict.reason} ({_dropped(invalid)})" if invalid else verdict.reason
    return CheckFinding(outcome, reason, kind, citations=tuple(citation.document() for citation in valid))


def _unsupported(verdict: ClosedVerdict, invalid: list[InvalidCitation]) -> CheckFinding:
    if not invalid:
        found, kind = "cites nothing", ReasonKind.CITATION_MISSING
    else:
        found, kind = f"cites no place that exists ({_dropped(invalid)})", ReasonKind.CITATION_INVALID
    reason = f"the judge answered passed but {found}; its reason: {verdict.reason}"
    return CheckFinding(Outcome.INCONCLUSIVE, reason, kind)


def _dropped(invalid: list[InvalidCitation]) -> str:
    named = "; ".join(one.reason for one in invalid[:_NAMED_CITATIONS])
    more = f"; and {len(invalid) - _NAMED_CITATIONS} more" if len(invalid) > _NAMED_CITATIONS else ""
    return f"{len(invalid)} invalid citation{'s' if len(invalid) > 1 else ''} dropped: {named}{more}"


def _kept(reply: Any, mode: Capture) -> dict[str, Any] | None:
    kept = capture(reply, mode)
    return {"reply": kept.value} if kept.present and reply is not None else None


_JSON_FAULTS = {
    JsonFault.SYNTAX: "it is not exactly one JSON object",
    JsonFault.ENCODING: "it is not valid Unicode",
    JsonFault.DUPLICATE_KEY: "it repeats a key",
    JsonFault.NOT_FINITE: "it holds a number that is not finite",
    JsonFault.LIMIT: "it is nested too deeply or holds too long a number",
}

_TYPE_FAULTS = {
    "missing": "is missing",
    "literal_error": "is not one of passed, failed and inconclusive",
    "string_type": "is not a string",
    "int_type": "is not an integer",
    "float_type": "is not a number",
    "finite_number": "is not a finite number",
    "list_type": "is not an array",
    "model_type": "is not an object",
    "union_tag_not_found": "is not exactly one of page, slide, lines, json_pointer and region",
    "union_tag_invalid": "is not exactly one of page, slide, lines, json_pointer and region",
    "string_unicode": "is not valid Unicode",
}


def _fault(error: ValidationError) -> str:
    # No input, no context, no URL: pydantic's own words would repeat what the reply holds.
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "extra_forbidden":
        # The last part of the place is the unknown key itself.
        return f"{_place(first['loc'][:-1])} has another member than a Verdict has"
    return f"{_place(first['loc'])} {_TYPE_FAULTS.get(first['type'], 'is of another shape')}"


def _place(location: tuple[int | str, ...]) -> str:
    place = ""
    for part in location:
        if isinstance(part, str) and part.startswith("("):
            continue  # the form of the locator, which the next part repeats
        place += f"[{part}]" if isinstance(part, int) else f".{part}"
    return place.lstrip(".") or "it"
