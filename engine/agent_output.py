"""The output of an agent step, from what the model replied.

A step without a response format has the reply's text as its output; with one, the reply is
exactly one JSON document that fits it. Nothing is cut out of prose, repaired or defaulted. Needs
jsonschema, so no workflow imports it.
"""

from __future__ import annotations

from typing import Any

from engine.failure import BlockFailure, ReasonKind
from engine.slots import SchemaRefused, slot_faults
from wyrd.wire.canonical import JsonRefused, strict_loads

_STOPPED = {
    "length": (ReasonKind.JUDGE_TRUNCATED, "the model's reply was truncated at the token limit"),
    "content_filter": (ReasonKind.JUDGE_FILTERED, "the provider filtered the model's reply"),
    "refusal": (ReasonKind.JUDGE_REFUSED, "the model refused to answer"),
}


def output_of(text: str | None, finish_reason: str | None, refusal: str | None, schema: Any) -> Any:
    """The step's output: a string without a `schema`, else the JSON value that fits it.

    Arguments are those of a `ModelReply`. Raises `BlockFailure`: JUDGE_TRUNCATED, JUDGE_FILTERED
    or JUDGE_REFUSED, decided by the stop reason before the text is looked at; JUDGE_MALFORMED for
    a reply that is absent, stopped for an unknown cause, not exactly one JSON document, or of
    another shape. A malformed or truncated reply may come out well at another attempt.
    """
    completed = _completed(text, finish_reason, refusal)
    if schema is None:
        return completed
    try:
        value = strict_loads(completed)
    except JsonRefused as refused:
        fault = f"the model's reply is not exactly one JSON document ({refused.fault.value})"
        raise _malformed(fault) from None
    try:
        faults = slot_faults(schema, value)
    except SchemaRefused as refused:
        raise BlockFailure(
            ReasonKind.NOT_CONFIGURED, f"the Prompt's response_format is not usable: {refused}"
        ) from None
    if faults:
        pointer, sentence = faults[0]
        where = f"at {pointer[:200]} it" if pointer else "it"
        raise _malformed(f"the model's reply does not fit the response_format: {where} {sentence}")
    return value


def _completed(text: str | None, finish_reason: str | None, refusal: str | None) -> str:
    stopped = "refusal" if refusal and finish_reason not in _STOPPED else finish_reason
    if stopped in _STOPPED:
        kind, reason = _STOPPED[stopped]
        raise BlockFailure(kind, reason, retryable=kind is ReasonKind.JUDGE_TRUNCATED)
    if stopped != "stop":
        raise _malformed("the provider did not say that the model's reply is complete")
    if text is None or not text:
        raise _malformed("the model's reply is empty")
    return text


def _malformed(reason: str) -> BlockFailure:
    return BlockFailure(ReasonKind.JUDGE_MALFORMED, reason, retryable=True)
