"""The Service Card: components, bindings and tables of one application."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, Tag

from wyrd.cards.binding import Binding
from wyrd.cards.card_ref import PureLink
from wyrd.cards.shapes import TAG, Lenient, Strict, tagged


class TextValue(Lenient):
    type: Literal["str"]
    value: str


class NumberValue(Lenient):
    type: Literal["number"]
    value: float | int


class BoolValue(Lenient):
    type: Literal["bool"]
    value: bool


class ListValue(Lenient):
    type: Literal["list"]
    value: list[Any]


class ObjectValue(Lenient):
    type: Literal["object"]
    value: dict[str, Any]


ConfigValue: TypeAlias = Annotated[
    Annotated[TextValue, Tag(TAG + "str")]
    | Annotated[NumberValue, Tag(TAG + "number")]
    | Annotated[BoolValue, Tag(TAG + "bool")]
    | Annotated[ListValue, Tag(TAG + "list")]
    | Annotated[ObjectValue, Tag(TAG + "object")],
    tagged("type"),
]


class ComponentSource(Lenient):
    path: str


class Component(Lenient):
    """One Card of the Service under its alias, with the bindings that check it."""

    alias: str
    ref: PureLink
    verified_by: list[Binding] = []
    source: ComponentSource | None = None
    config: dict[str, ConfigValue] | None = None


class Table(Strict):
    """A Bifrost table that the Service records into, by JSON Schema."""

    name: str
    schema_: Any = Field(alias="schema")


class Runtime(Lenient):
    kind: Literal["api", "mcp", "agent"]


class CredentialRef(Lenient):
    provider: str
    name: str


class ServiceSpec(Strict):
    """A Service: what runs, what it records, and what verifies it."""

    description: str | None = None
    service_type: str | None = None
    components: list[Component] = []
    verified_by: list[Binding] = []
    tables: list[Table] = []
    entry_point: str | None = None
    deployment: dict[str, Any] | None = None
    runtime: Runtime | None = None
    service_config: dict[str, ConfigValue] | None = None
    credential_refs: list[CredentialRef] = []
    content_hash: str | None = None
    lock_hash: str | None = None
    metadata: dict[str, ConfigValue] | None = None
