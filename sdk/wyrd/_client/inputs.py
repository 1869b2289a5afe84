"""From an application's values to input declarations, refusing what the slots refuse.

Everything here happens before any request: unknown slots, values of the wrong kind, unreadable,
unaccepted or oversized files, and calls that the Verifier cannot take. A missing slot is left
out: the server judges it as missing evidence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wyrd._client.envelope import CardEnvelope
from wyrd._client.evidence_values import MAX_FILE_BYTES, ArtifactRef, File, invalid
from wyrd._client.flow import FileBody, Flow, Offload
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import MAX_DEPTH, JsonRefused, canonical_json, depth_of

Intent = Literal["verify", "submit"]

_TRACE = re.compile(r"[0-9a-fA-F]{32}")
_CONTROL = re.compile(r"[\s\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Declarations by slot, and the file contents behind them by digest."""

    declarations: dict[str, dict[str, Any]]
    files: dict[str, FileBody] = field(default_factory=dict)


def slots_of(verifier: CardEnvelope) -> Mapping[str, Any]:
    found = verifier.spec.get("inputs")
    return found if isinstance(found, Mapping) else {}


def _type_of(slot: Any) -> str:
    """json, media, trace or samples; a source slot is authored as a plain string."""
    return str(slot.get("type")) if isinstance(slot, Mapping) else "source"


def refuse_unsupported(verifier: CardEnvelope, intent: Intent) -> None:
    """VERIFICATION_422_INPUT_UNSUPPORTED for Verifiers whose evidence does not come from a call."""
    types = {_type_of(slot) for slot in slots_of(verifier).values()}
    if "source" in types:
        why = "it judges groups of evidence and runs by itself when a group is due"
    elif "samples" in types and intent == "verify":
        why = "it judges windows of samples on its schedule"
    else:
        return
    raise WyrdError(
        Code.VERIFICATION_422_INPUT_UNSUPPORTED,
        f"{verifier.card_ref.pinned} takes no {intent}: {why}",
        verifier=verifier.card_ref.pinned,
    )


def named_values(
    verifier: CardEnvelope, positional: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """One positional value goes to the only slot; otherwise one keyword a slot.

    Both, or a positional value for a Verifier without exactly one slot, is SPEC_400_VALIDATION.
    """
    if not positional:
        return dict(named)
    slots = list(slots_of(verifier))
    if named:
        raise WyrdError(
            Code.SPEC_400_VALIDATION, "give one positional value or keywords, not both", field="value"
        )
    if len(positional) > 1 or len(slots) != 1:
        raise WyrdError(
            Code.SPEC_400_VALIDATION,
            f"a positional value needs a Verifier with one slot; {verifier.card_ref.name} has"
            f" {', '.join(slots) or 'none'}: name each value",
            field="value",
        )
    return {slots[0]: positional[0]}


def checked_group(group_id: object) -> str | None:
    """A group id is 1 to 256 UTF-8 bytes without white space or control characters."""
    if group_id is None:
        return None
    text = group_id if isinstance(group_id, str) and not _CONTROL.search(group_id) else ""
    if 1 <= len(text.encode("utf-8", "surrogatepass")) <= 256:
        return text
    raise WyrdError(
        Code.SPEC_400_VALIDATION,
        "a group id is 1 to 256 bytes without white space or control characters",
        field="group_id",
    )


def prepare(verifier: CardEnvelope, values: Mapping[str, Any]) -> Flow[Prepared]:
    """Check and declare every value; files are hashed on the way."""
    slots = slots_of(verifier)
    for name in values:
        if name not in slots:
            known = ", ".join(slots) or "none"
            raise invalid(name, f"no such slot; {verifier.card_ref.name} has {known}")
    prepared = Prepared({})
    for name, value in values.items():
        slot, kind = slots[name], _type_of(slots[name])
        if kind == "json":
            prepared.declarations[name] = {"kind": "json", "value": _json(name, value)}
        elif kind == "trace":
            prepared.declarations[name] = {"kind": "trace", "trace_id": _trace(name, value)}
        elif isinstance(value, ArtifactRef):
            prepared.declarations[name] = value.declaration(name)
        elif isinstance(value, File):
            prepared.declarations[name] = yield from _file(name, slot, value, prepared)
        else:
            raise invalid(name, f"a media slot takes a File or an ArtifactRef, not {type(value).__name__}")
    return prepared


def _json(slot: str, value: Any) -> Any:
    if isinstance(value, File | ArtifactRef):
        raise invalid(slot, f"a json slot takes a JSON value, not {type(value).__name__}")
    try:
        plain = _plain(value)
        canonical_json(plain)
    except JsonRefused as refused:
        raise invalid(slot, refused.reason) from None
    except (RecursionError, UnicodeEncodeError):
        raise invalid(slot, "not a JSON value") from None
    if depth_of(plain, MAX_DEPTH) > MAX_DEPTH:
        raise invalid(slot, f"nested deeper than {MAX_DEPTH}")
    return plain


def _plain(value: Any) -> Any:
    """The value in JSON's own types: `json` would turn keys that are not strings into strings."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise JsonRefused(f"the key {str(key)[:40]!r} is not a string")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise JsonRefused(f"{type(value).__name__} is not a JSON value")


def _trace(slot: str, value: Any) -> str:
    if not isinstance(value, str) or not _TRACE.fullmatch(value) or not value.strip("0"):
        raise invalid(slot, "a trace slot takes a trace id: 32 hexadecimal digits, not all zero")
    return value.lower()


def _file(slot: str, declared: Mapping[str, Any], value: File, into: Prepared) -> Flow[dict[str, Any]]:
    form = value.format_for(slot, tuple(declared.get("formats") or ()))
    limit = min(declared.get("max_bytes") or MAX_FILE_BYTES, MAX_FILE_BYTES)
    body: FileBody = yield Offload(lambda: value.measured(slot, limit))
    into.files[body.sha256] = body
    found: dict[str, Any] = {
        "kind": "file",
        "sha256": body.sha256,
        "size_bytes": body.size,
        "format": form,
    }
    if value.name:
        found["filename"] = value.name
    return found
