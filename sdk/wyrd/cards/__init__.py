"""The Card language: envelope, one module a kind, references, the loader, the rules of declaration.

Everything that decides what a Card means or whether it is accepted lives here, pure and offline.
Nothing here talks to a server, a database or a model, and no verdict is judged here.
"""

from __future__ import annotations

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
    "CodeAction",
    "CodeCheck",
    "Condition",
    "DataSpec",
    "Decide",
    "DecodeError",
    "DecodeFault",
    "DriftCheck",
    "ExperimentSpec",
    "ExtractAction",
    "GroupEndTrigger",
    "HttpOperator",
    "InlineSource",
    "JsonSlot",
    "Kind",
    "Link",
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
    "decode_metadata",
    "decode_spec",
    "spec_document",
]
