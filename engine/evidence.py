"""Pinned evidence: what each input slot of one execution reads as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.failure import BlockFailure, ReasonKind
from wyrd.cards import VerifierSpec
from wyrd.wire.canonical import digest

Declaration = Mapping[str, Any]
"""An accepted input as it is stored: `http.md`'s InputDeclaration, artifacts already resolved to files."""


@dataclass
class Evidence:
    """The accepted inputs of one execution. `traces` holds, by slot, the trace documents it is judged on,
    or why one cannot be read; they are pinned before the first block reads anything, and never change."""

    spec: VerifierSpec
    inputs: Mapping[str, Declaration]
    traces: dict[str, Any] = field(default_factory=dict)

    def unpinned(self) -> dict[str, str]:
        """The trace ids that were given and are not pinned yet, by slot."""
        return {
            slot: declaration["trace_id"]
            for slot, declaration in self.inputs.items()
            if declaration["kind"] == "trace" and slot not in self.traces
        }

    def value(self, slot: str) -> Any:
        """What a reference to the whole slot reads; null for an optional slot that was left out.

        Raises `BlockFailure` with MISSING_EVIDENCE for a required slot that was not given and for a
        trace of which nothing is recorded.
        """
        declaration = self.inputs.get(slot)
        if declaration is None:
            if getattr(self.spec.inputs[slot], "required", True):
                raise BlockFailure(ReasonKind.MISSING_EVIDENCE, f"the required input {slot} was not given")
            return None
        match declaration["kind"]:
            case "json":
                return declaration["value"]
            case "trace":
                found = self.traces.get(slot)
                if found is None:
                    raise no_span(slot, declaration["trace_id"])
                if isinstance(found, BlockFailure):
                    raise found
                return found
            case _:
                return file_value(declaration)

    def digests(self) -> dict[str, str]:
        """SHA-256 of every input given: of a file's bytes, of a value's canonical JSON, of a trace's
        document as judged (of its id where there is none)."""
        found = {}
        for slot, declaration in self.inputs.items():
            match declaration["kind"]:
                case "json":
                    found[slot] = digest(declaration["value"])
                case "trace":
                    document = self.traces.get(slot)
                    known = document is not None and not isinstance(document, BlockFailure)
                    found[slot] = digest(document if known else declaration["trace_id"])
                case _:
                    found[slot] = declaration["sha256"]
        return found


def no_span(slot: str, trace_id: str) -> BlockFailure:
    """What a trace slot reads as when nothing of its trace is recorded."""
    return BlockFailure(
        ReasonKind.MISSING_EVIDENCE, f"no span of trace {trace_id} (input {slot}) is recorded"
    )


def file_value(declaration: Declaration) -> dict[str, Any]:
    """What a media slot reads: a description of the file, never its bytes."""
    return {
        "kind": "file",
        "sha256": declaration["sha256"],
        "size_bytes": declaration["size_bytes"],
        "format": declaration["format"],
        "filename": declaration.get("filename"),
    }
