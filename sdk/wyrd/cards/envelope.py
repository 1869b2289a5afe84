"""The Card's envelope: apiVersion, kind, metadata, spec, relationships, status."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from wyrd.cards.agent import AgentSpec
from wyrd.cards.card_ref import DEFAULT_SPACE, CardRef, Kind, Uid
from wyrd.cards.identifiers import Name, Version
from wyrd.cards.operator import OperatorSpec
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
from wyrd.cards.shapes import Lenient, Open, fault, faults
from wyrd.cards.source import SourceSpec
from wyrd.cards.trigger import TriggerSpec
from wyrd.cards.verifier import VerifierSpec

API_VERSION = "wyrd/v1"
MAX_ANNOTATION_BYTES = 4096

Spec: TypeAlias = (
    VerifierSpec
    | AgentSpec
    | PromptSpec
    | ServiceSpec
    | OperatorSpec
    | TriggerSpec
    | SourceSpec
    | ArtifactSpec
    | DataSpec
    | ModelSpec
    | ExperimentSpec
    | PolicySpec
    | AuditSpec
    | McpSpec
)

_KEY_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def is_metadata_key(text: str) -> bool:
    """Whether the text is a label or annotation key: `[prefix/]name`."""
    prefix, slash, name = text.rpartition("/")
    if slash:
        labels = prefix.split(".")
        if len(prefix) > 253 or any(_PREFIX_LABEL.fullmatch(label) is None for label in labels):
            return False
    return _KEY_NAME.fullmatch(name) is not None


def _refuse_keys(found: dict[str, str]) -> None:
    bad = [key for key in found if not is_metadata_key(key)]
    if bad:
        raise faults(
            [
                (
                    (key,),
                    f"{key[:80]!r} is not a key: [prefix/]name, 1 to 63 letters, digits, -_.",
                    None,
                    "key",
                )
                for key in bad
            ]
        )


def _labels(found: dict[str, str]) -> dict[str, str]:
    _refuse_keys(found)
    bad = [key for key, value in found.items() if _LABEL_VALUE.fullmatch(value) is None]
    if bad:
        raise faults(
            [((key,), "a label value has at most 63 letters, digits, - _ and .", None, None) for key in bad]
        )
    return found


def _annotations(found: dict[str, str]) -> dict[str, str]:
    _refuse_keys(found)
    bad = [k for k, v in found.items() if len(v.encode("utf-8", "surrogatepass")) > MAX_ANNOTATION_BYTES]
    if bad:
        raise faults(
            [((key,), f"an annotation has at most {MAX_ANNOTATION_BYTES} bytes", None, None) for key in bad]
        )
    return found


def _commit(text: str) -> str:
    if _COMMIT.fullmatch(text) is None:
        raise fault("a commit is 7 to 40 lower-case hexadecimal digits")
    return text


def _or_empty(value: Any) -> Any:
    return {} if value is None else value


class Origin(Lenient):
    """Where the Card's file came from."""

    repo: str
    commit: Annotated[str, AfterValidator(_commit)]
    path: str | None = None
    dirty: bool | None = None


class Metadata(Lenient):
    """Who the Card is. `version` is exact, a scope such as `1`, or None for the registry to choose."""

    name: Name
    space: Name = DEFAULT_SPACE
    version: Version | None = None
    uid: Uid | None = None
    bump: str | dict[str, Any] | None = None
    labels: Annotated[dict[str, str], AfterValidator(_labels), BeforeValidator(_or_empty)] = {}
    annotations: Annotated[dict[str, str], AfterValidator(_annotations), BeforeValidator(_or_empty)] = {}
    origin: Origin | None = None
    spec_hash: str | None = None
    artifact_hash: str | None = None

    @field_validator("space", mode="before")
    @classmethod
    def _default_space(cls, value: Any) -> Any:
        return DEFAULT_SPACE if value is None else value


class OutboundRef(Lenient):
    """One Card that the spec names, under its alias when a Service gives it one."""

    ref: CardRef
    alias: str | None = None


class Relationships(Lenient):
    """What the registry knows of a Card's neighbours, sorted by their text form."""

    outbound: list[str] = []
    outbound_refs: list[OutboundRef] = []
    inbound: list[str] = []
    inbound_refs: list[OutboundRef] = []


class Status(Open):
    phase: str
    message: str | None = None
    updated_at: str | None = None
    verification: dict[str, Any] | None = None


class Card(Lenient):
    """One whole Card, as authored or as stored. `spec` is the decoded model of its kind."""

    api_version: str = Field(default=API_VERSION, alias="apiVersion")
    kind: Kind
    metadata: Metadata
    spec: Spec
    relationships: Relationships = Relationships()
    status: Status | None = None

    @field_validator("spec", mode="before")
    @classmethod
    def _decode(cls, value: Any, info: Any) -> Any:
        if isinstance(value, dict) and "kind" in info.data:
            from wyrd.cards.decode import validate_spec

            return validate_spec(info.data["kind"], value)
        return value

    @property
    def ref(self) -> CardRef:
        """The Card's own exact reference. Raises ValueError while it has no exact version."""
        return CardRef(
            kind=self.kind,
            name=self.metadata.name,
            version=self.metadata.version or "",
            space=self.metadata.space,
            uid=self.metadata.uid,
        )
