"""From plain data to models, with every fault told by place, member and sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from wyrd.cards.agent import AgentSpec
from wyrd.cards.card_ref import Kind
from wyrd.cards.envelope import Metadata, Spec
from wyrd.cards.operator import AnyOperator
from wyrd.cards.plain_kinds import (
    ArtifactSpec,
    AuditSpec,
    DataSpec,
    ExperimentSpec,
    McpSpec,
    ModelSpec,
    PolicySpec,
)
from wyrd.cards.prompt import PromptSpec
from wyrd.cards.service import ServiceSpec
from wyrd.cards.shapes import TAG
from wyrd.cards.source import SourceSpec
from wyrd.cards.trigger import AnyTrigger
from wyrd.cards.verifier import VerifierSpec

Path = tuple[str | int, ...]

SPEC_TYPES: dict[str, Any] = {
    "Data": DataSpec,
    "Model": ModelSpec,
    "Experiment": ExperimentSpec,
    "Prompt": PromptSpec,
    "Agent": AgentSpec,
    "Verifier": VerifierSpec,
    "Service": ServiceSpec,
    "Policy": PolicySpec,
    "Mcp": McpSpec,
    "Audit": AuditSpec,
    "Artifact": ArtifactSpec,
    "Trigger": AnyTrigger,
    "Operator": AnyOperator,
    "Source": SourceSpec,
}


def dotted(path: Path) -> str:
    """A path as text: `steps[0].action`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True)
class DecodeFault:
    """One place where the data does not fit.

    `field` is the place as the published validator names it (the enclosing tagged container),
    `path` the exact one; `member` with `member_fault` names a missing or unknown member.
    """

    field: str
    path: Path
    message: str
    member: str | None = None
    member_fault: str | None = None


class DecodeError(ValueError):
    """The data does not decode. `faults` holds every independent fault, the first one first."""

    def __init__(self, kind: str, faults: list[DecodeFault]) -> None:
        first = faults[0]
        place = f"{first.field}: " if first.field else ""
        super().__init__(f"{kind} does not decode: {place}{first.message}")
        self.kind = kind
        self.faults = faults

    @property
    def field(self) -> str:
        """The place of the first fault."""
        return self.faults[0].field


@cache
def adapter(kind: Kind) -> TypeAdapter[Any]:
    """The validator of a kind's spec."""
    return TypeAdapter(SPEC_TYPES[kind])


def validate_spec(kind: Kind, spec: Any) -> Spec:
    """As `decode_spec`, with pydantic's own ValidationError."""
    return cast(Spec, adapter(kind).validate_python(spec))


def decode_spec(kind: Kind, spec: Any) -> Spec:
    """Read a spec of that kind from plain data. Raises `DecodeError`."""
    try:
        return validate_spec(kind, spec)
    except ValidationError as error:
        raise DecodeError(kind, fault_list(error)) from None


def decode_metadata(metadata: Any) -> Metadata:
    """Read a metadata mapping from plain data. Raises `DecodeError`."""
    try:
        return Metadata.model_validate(metadata)
    except ValidationError as error:
        raise DecodeError("metadata", fault_list(error)) from None


def spec_document(spec: Spec) -> dict[str, Any]:
    """The spec as plain JSON data: authored members only, in schema order, canonical spellings."""
    return spec.model_dump(mode="json", exclude_unset=True)


MAX_FAULTS = 100
"""How many faults of one Card are told."""


def fault_list(error: ValidationError) -> list[DecodeFault]:
    """The faults of a validation error, the first `MAX_FAULTS` of them."""
    found: list[DecodeFault] = []
    for detail in error.errors(include_url=False)[:MAX_FAULTS]:
        found.extend(_faults(detail))
    return list(dict.fromkeys(found))[:MAX_FAULTS]


def _faults(detail: ErrorDetails) -> list[DecodeFault]:
    loc = detail["loc"]
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "card_faults":
        return [
            _fault(loc, tuple(one["at"]), one["message"], one["member"], one["member_fault"])
            for one in context["faults"]
        ]
    if kind == "missing":
        return [_fault(loc[:-1], (), f"{loc[-1]} is missing", str(loc[-1]), "missing")]
    if kind == "extra_forbidden":
        name = str(loc[-1])
        return [_fault(loc[:-1], (name,), f"{name[:80]!r} is not a member here", name, "unknown")]
    if kind == "union_tag_not_found":
        return [_no_tag(loc, detail["input"], context)]
    if kind == "union_tag_invalid":
        member = context["discriminator"].removesuffix("()").strip("'")
        wanted = str(context["expected_tags"]).replace(TAG, "").replace("'\\x00", "'")
        tag = str(context["tag"]).removeprefix(TAG)
        below = () if member.startswith(TAG) else (member,)
        return [_fault(loc, below, f"{tag[:80]!r} is not one of {wanted}", None, None)]
    if loc and loc[-1] == "[key]":
        return [_fault(loc[:-1], (), detail["msg"], None, None)]
    return [_fault(loc, (), _sentence(detail), None, None)]


def _no_tag(loc: Path, value: Any, context: Mapping[str, Any]) -> DecodeFault:
    member = context["discriminator"].removesuffix("()").strip("'")
    if member.startswith(TAG):
        what = member.removeprefix(TAG)
        return _fault(loc, (), f"this is not a {what}", None, None)
    if not isinstance(value, Mapping):
        return _fault(loc, (), f"must be a mapping with {member}", None, None)
    if member in value:
        return _fault(loc, (member,), f"{member} must be text", None, None)
    return _fault(loc, (), f"{member} is missing", member, "missing")


def _fault(loc: Path, below: Path, message: str, member: str | None, member_fault: str | None) -> DecodeFault:
    loc = tuple(part for part in loc if part != "[key]")
    whole = (*loc, *below)
    shown: list[str | int] = []
    # A spec that is itself a tagged union (Trigger, Operator) is flattened: its own tag is no place.
    flattened = bool(whole) and isinstance(whole[0], str) and whole[0].startswith(TAG)
    for part in whole[1:] if flattened else whole:
        if isinstance(part, str) and part.startswith(TAG):
            break
        shown.append(part)
    path = tuple(part for part in whole if not (isinstance(part, str) and part.startswith(TAG)))
    return DecodeFault(dotted(tuple(shown)), path, message, member, member_fault)


_WORDS = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}


def _sentence(detail: ErrorDetails) -> str:
    words = _WORDS.get(detail["type"])
    if words is not None:
        return words + (", not null" if detail["input"] is None else "")
    text = detail["msg"].removeprefix("Input should be ")
    return f"must be {text}" if text != detail["msg"] else text
