"""The Card language: envelope, one module a kind, references, the loader, the rules of declaration.

Everything that decides what a Card means or whether it is accepted lives here, pure and offline.
Nothing here talks to a server, a database or a model, and no verdict is judged here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wyrd.cards.actions import (
    AgentAction,
    ArtifactSource,
    CodeAction,
    Condition,
    ExtractAction,
    InlineSource,
)
from wyrd.cards.agent import AgentSpec
from wyrd.cards.binding import Binding
from wyrd.cards.card_ref import KINDS, CardRef, Kind, Link, Sibling
from wyrd.cards.checks import AgentCheck, AssertCheck, CodeCheck, Requirement, TraceCheck
from wyrd.cards.comparison import Operator
from wyrd.cards.decode import DecodeError, DecodeFault, decode_metadata, decode_spec, spec_document
from wyrd.cards.drift import DriftCheck
from wyrd.cards.envelope import API_VERSION, Card, Metadata, Spec
from wyrd.cards.operator import HttpOperator, NotifyOperator, OperatorSpec
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
from wyrd.cards.references import WILDCARD, Reference, Wildcard
from wyrd.cards.service import ServiceSpec
from wyrd.cards.slots import JsonSlot, MediaSlot, SamplesSlot, Slot, SourceSlot, TraceSlot
from wyrd.cards.source import SourceSpec
from wyrd.cards.trigger import GroupEndTrigger, ScheduleTrigger, TriggerSpec
from wyrd.cards.verifier import Decide, Step, VerifierSpec

if TYPE_CHECKING:
    from wyrd.cards.card_schema import json_schema as json_schema
    from wyrd.cards.checking import check as check
    from wyrd.cards.checking import load as load
    from wyrd.cards.declaration import to_submissions as to_submissions
    from wyrd.cards.diagnostics import CheckReport as CheckReport
    from wyrd.cards.diagnostics import Diagnostic as Diagnostic
    from wyrd.cards.loaded import LoadedTree as LoadedTree
    from wyrd.cards.regex import compile_pattern as compile_pattern
    from wyrd.cards.submitted import check_submissions as check_submissions

_ON_FIRST_USE = {
    "CheckReport": "diagnostics",
    "Diagnostic": "diagnostics",
    "LoadedTree": "loaded",
    "check": "checking",
    "check_submissions": "submitted",
    "compile_pattern": "regex",
    "json_schema": "card_schema",
    "load": "checking",
    "to_submissions": "declaration",
}


def __getattr__(name: str) -> Any:
    """Bring in the loader, the rules and the schemas when they are first asked for."""
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_ON_FIRST_USE[name]}"), name)
    globals()[name] = found
    return found


__all__ = [
    "API_VERSION",
    "KINDS",
    "WILDCARD",
    "AgentAction",
    "AgentCheck",
    "AgentSpec",
    "ArtifactSource",
    "ArtifactSpec",
    "AssertCheck",
    "AuditSpec",
    "Binding",
    "Card",
    "CardRef",
    "CheckReport",
    "CodeAction",
    "CodeCheck",
    "Condition",
    "DataSpec",
    "Decide",
    "DecodeError",
    "DecodeFault",
    "Diagnostic",
    "DriftCheck",
    "ExperimentSpec",
    "ExtractAction",
    "GroupEndTrigger",
    "HttpOperator",
    "InlineSource",
    "JsonSlot",
    "Kind",
    "Link",
    "LoadedTree",
    "McpSpec",
    "MediaSlot",
    "Metadata",
    "ModelSpec",
    "NotifyOperator",
    "Operator",
    "OperatorSpec",
    "PolicySpec",
    "PromptSpec",
    "Reference",
    "Requirement",
    "SamplesSlot",
    "ScheduleTrigger",
    "ServiceSpec",
    "Sibling",
    "Slot",
    "SourceSlot",
    "SourceSpec",
    "Spec",
    "Step",
    "TraceCheck",
    "TraceSlot",
    "TriggerSpec",
    "VerifierSpec",
    "Wildcard",
    "check",
    "check_submissions",
    "compile_pattern",
    "decode_metadata",
    "decode_spec",
    "json_schema",
    "load",
    "spec_document",
    "to_submissions",
]
