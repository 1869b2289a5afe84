"""What verify and submit refuse before anything runs, and the declarations they accept."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from activities.judging import SMALL, is_small
from cards.graph import graph_of, require_readable
from cards.targets import Target
from engine.slots import slot_faults
from store.blobs import BlobStore
from store.caller import Caller
from store.card_artifacts import CardArtifacts
from store.cards import Cards
from store.database import Database
from store.settings import Settings
from wyrd.cards import JsonSlot, MediaSlot, SamplesSlot, SourceSlot, TraceSlot, VerifierSpec
from wyrd.cards.media import canonical_format
from wyrd.errors import Code, WyrdError
from wyrd.wire.verification import ArtifactInput, ExecuteRequest, FileInput, JsonInput, TraceInput

MOST_SLOTS = 64
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_NAMED = 128
"""Characters of an unknown slot's name that its refusal repeats; no slot has a longer one."""
_NO_SPAN = "0" * 32
_WORDS = {JsonSlot: "a JSON value", MediaSlot: "a file or an artifact", TraceSlot: "a trace id"}


def refused(slot: str, reason: str) -> WyrdError:
    """`WYRD_VERIFICATION_400_INPUT_INVALID` that names the slot."""
    path = f"inputs.{slot[:_NAMED]}"
    return WyrdError(Code.VERIFICATION_400_INPUT_INVALID, f"{path} {reason}", path=path, reason=reason)


def too_large(slot: str, size: int, limit: int) -> WyrdError:
    path = f"inputs.{slot}"
    return WyrdError(
        Code.VERIFICATION_413_INPUT_TOO_LARGE,
        f"{path} has {size} bytes, over the limit of {limit}",
        path=path,
        size_bytes=size,
        limit=limit,
    )


@dataclass(frozen=True)
class Acceptance:
    """Checks one request's inputs against a Verifier, for one caller."""

    settings: Settings
    database: Database
    blobs: BlobStore

    async def accept(
        self, caller: Caller, target: Target, spec: VerifierSpec, asked: ExecuteRequest
    ) -> dict[str, dict[str, Any]]:
        """The declarations to store, artifacts resolved to pinned files.

        Raises the codes of the first table of the specification of verify; nothing was stored.
        """
        _require_direct(target, spec)
        check_group_id(asked.group_id)
        if len(asked.inputs) > MOST_SLOTS:
            raise WyrdError(
                Code.VERIFICATION_413_INPUT_TOO_LARGE,
                f"{len(asked.inputs)} inputs are over the limit of {MOST_SLOTS}",
                path="inputs",
            )
        accepted: dict[str, dict[str, Any]] = {}
        pinned: list[tuple[str, str, int]] = []
        for slot, given in asked.inputs.items():
            declared = spec.inputs.get(slot)
            if declared is None:
                raise refused(slot, f"is not an input of this Verifier, which takes {_known(spec)}")
            match given, declared:
                case JsonInput(), JsonSlot():
                    accepted[slot] = await _json(slot, declared, given.value)
                case FileInput(), MediaSlot():
                    accepted[slot] = self._file(slot, declared, given)
                    pinned.append((slot, given.sha256, given.size_bytes))
                case ArtifactInput(), MediaSlot():
                    accepted[slot] = await self._artifact(caller, slot, declared, given)
                case TraceInput(), TraceSlot():
                    accepted[slot] = _trace(slot, given)
                case _:
                    raise refused(slot, f"takes {_WORDS.get(type(declared), 'nothing')}, not {given.kind}")
        await self._require_stored(caller, pinned)
        return accepted

    def _file(self, slot: str, declared: MediaSlot, given: FileInput) -> dict[str, Any]:
        found = given.model_dump()
        found["format"] = self._format(slot, declared, given.format)
        self._require_size(slot, declared, given.size_bytes)
        return found

    async def _artifact(
        self, caller: Caller, slot: str, declared: MediaSlot, given: ArtifactInput
    ) -> dict[str, Any]:
        file, ref = await self.database.read(_artifact_file, caller, slot, given)
        name = file.relative_path.rpartition("/")[2]
        suffix = canonical_format(name.rpartition(".")[2])
        if suffix is None and len(declared.formats) == 1:
            suffix = declared.formats[0]
        self._require_size(slot, declared, file.size_bytes)
        return {
            "kind": "artifact",
            "artifact": ref.document(),
            "path": file.relative_path,
            "sha256": file.sha256,
            "size_bytes": file.size_bytes,
            "format": self._format(slot, declared, suffix or name),
            "filename": name,
        }

    def _format(self, slot: str, declared: MediaSlot, given: str) -> str:
        found = canonical_format(given)
        if found is None or found not in declared.formats:
            raise refused(slot, f"takes {', '.join(declared.formats)}, not {given[:80]}")
        return found

    def _require_size(self, slot: str, declared: MediaSlot, size: int) -> None:
        limit = min(declared.max_bytes or self.settings.max_file_bytes, self.settings.max_file_bytes)
        if size > limit:
            raise too_large(slot, size, limit)

    async def _require_stored(self, caller: Caller, pinned: list[tuple[str, str, int]]) -> None:
        if not pinned:
            return
        wanted = [(sha256, size) for _, sha256, size in pinned]
        missing = set(await self.blobs.missing(caller.tenant, wanted))
        for slot, sha256, size in pinned:
            if (sha256, size) in missing:
                raise refused(slot, f"names the file {sha256}, which is not stored; upload it first")


def check_group_id(group_id: str | None) -> None:
    """1 to 256 bytes without white space or control characters."""
    if group_id is None:
        return
    size = len(group_id.encode("utf-8", "surrogatepass"))
    if size > 256 or any(char.isspace() or not char.isprintable() for char in group_id):
        reason = "is 1 to 256 bytes without white space or control characters"
        raise WyrdError(
            Code.VERIFICATION_400_INPUT_INVALID, f"group_id {reason}", path="group_id", reason=reason
        )


def _require_direct(target: Target, spec: VerifierSpec) -> None:
    for slot, declared in spec.inputs.items():
        if isinstance(declared, SamplesSlot | SourceSlot):
            what = "samples" if isinstance(declared, SamplesSlot) else "a group's evidence"
            raise WyrdError(
                Code.VERIFICATION_422_INPUT_UNSUPPORTED,
                f"{target.verifier.pinned} judges {what} (inputs.{slot}), which is not sent with a request",
                path=f"inputs.{slot}",
            )


def _known(spec: VerifierSpec) -> str:
    return ", ".join(spec.inputs) or "none"


async def _json(slot: str, declared: JsonSlot, value: Any) -> dict[str, Any]:
    if declared.schema_ is None or is_small(value, SMALL):
        faults = slot_faults(declared.schema_, value)
    else:
        faults = await asyncio.to_thread(slot_faults, declared.schema_, value)
    if faults:
        pointer, sentence = faults[0]
        raise WyrdError(
            Code.VERIFICATION_400_INPUT_INVALID,
            f"inputs.{slot} does not fit its schema: {pointer or 'the value'} {sentence}",
            path=f"inputs.{slot}",
            reason=sentence,
            faults=[{"pointer": at, "reason": why} for at, why in faults],
        )
    return {"kind": "json", "value": value}


def _trace(slot: str, given: TraceInput) -> dict[str, Any]:
    if _TRACE_ID.fullmatch(given.trace_id) is None or given.trace_id == _NO_SPAN:
        raise refused(slot, "takes a trace id of 32 lower-case hexadecimal digits, not all zero")
    return given.model_dump()


def _artifact_file(connection: Connection, caller: Caller, slot: str, given: ArtifactInput) -> Any:
    cards = Cards(connection, caller.tenant)
    asked = given.artifact
    card = cards.by_identity(asked.kind, asked.space, asked.name, asked.version)
    if card is None or card.status == "deleted" or (asked.uid or card.uid) != card.uid:
        raise refused(slot, f"names {asked.pinned}, which is not a Card here")
    if card.kind != "Artifact":
        raise refused(slot, f"names {asked.pinned}, which is not an Artifact")
    if caller.card_uid is not None:
        require_readable(graph_of(connection, caller.tenant, caller.card_uid), card.uid)
    if card.status == "pending":
        raise WyrdError(
            Code.VERIFICATION_409_VERIFIER_NOT_READY, f"{asked.pinned} still waits for its files", slot=slot
        )
    files = CardArtifacts(connection, caller.tenant).of_cards([card.uid]).get(card.uid, [])
    chosen = [file for file in files if given.path is None or file.relative_path == given.path]
    if len(chosen) != 1:
        names = ", ".join(file.relative_path for file in files[:10])
        what = f"has no file {given.path[:200]!r}" if given.path else "has several files; name one as path"
        raise refused(slot, f"{what} ({names})")
    return chosen[0], card.ref
