"""Kinds that the language asks little of: Artifact, Data, Model, Experiment, Policy, Audit, Mcp."""

from __future__ import annotations

from wyrd.cards.card_ref import PureLink
from wyrd.cards.shapes import Open


class ArtifactSpec(Open):
    """Files of any purpose; `artifact_kind` is a free word."""

    artifact_kind: str
    integrity: str | None = None
    schema_ref: PureLink | None = None


class Interface(Open):
    """How a Data or Model Card is read; `kind` is a free word."""

    kind: str


class DataSpec(Open):
    interface: Interface


class ModelSpec(Open):
    interface: Interface


class ExperimentSpec(Open):
    pass


class PolicySpec(Open):
    pass


class AuditSpec(Open):
    pass


class McpSpec(Open):
    server_name: str
