"""Input slots: what a Verifier takes, one model a type, and the source slots of group Verifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, RootModel, Tag

from wyrd.cards.identifiers import Count64, Feature, is_block_id, is_name, is_slot_name
from wyrd.cards.media import FORMATS, canonical_format
from wyrd.cards.shapes import TAG, Strict, chosen_by, faults


def _formats(values: list[str]) -> list[str]:
    found: list[str] = []
    unknown: list[tuple[tuple[str | int, ...], str, str | None, str | None]] = []
    for index, value in enumerate(values):
        name = canonical_format(value)
        if name is None:
            unknown.append(((index,), f"{value[:80]!r} is not a media format", None, None))
        elif name not in found:
            found.append(name)
    if unknown:
        raise faults(unknown)
    return found


MediaFormats = Annotated[
    list[str],
    AfterValidator(_formats),
    Field(json_schema_extra={"items": {"type": "string", "examples": list(FORMATS)}, "minItems": 1}),
]


class JsonSlot(Strict):
    """A JSON value. `schema` is a mapping, a boolean or null; the slot rule refuses other types."""

    type: Literal["json"]
    schema_: Any = Field(default=None, alias="schema")
    required: bool = True


class MediaSlot(Strict):
    """A file. `formats` are canonical words without repeats; `max_bytes` counts bytes."""

    type: Literal["media"]
    formats: MediaFormats
    max_bytes: Count64 | None = None
    required: bool = True


class TraceSlot(Strict):
    """A trace, given by its id."""

    type: Literal["trace"]
    required: bool = True


class SamplesSlot(Strict):
    """Measured features of window evidence."""

    type: Literal["samples"]
    features: list[Feature]


_SOURCE = re.compile(r"verifiers\.([^.]+)\.(?:inputs\.([^.]+)|requirements\.([^.]+)\.outcome)")


class SourceSlot(RootModel[str]):
    """Evidence of another Verifier's executions, gathered for a group.

    `verifiers.<name>.inputs.<slot>` or `verifiers.<name>.requirements.<id>.outcome`. A text of
    another form decodes, reads None everywhere, and is refused by the source rule.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    @property
    def type(self) -> Literal["source"]:
        return "source"

    @property
    def text(self) -> str:
        return self.root

    @property
    def verifier(self) -> str | None:
        """The name of the Verifier whose executions are gathered."""
        return self._parts()[0]

    @property
    def slot(self) -> str | None:
        """The input slot gathered, when it gathers inputs."""
        return self._parts()[1]

    @property
    def requirement(self) -> str | None:
        """The requirement whose outcomes are gathered, when it gathers outcomes."""
        return self._parts()[2]

    def _parts(self) -> tuple[str | None, str | None, str | None]:
        found = _SOURCE.fullmatch(self.root)
        if found is None:
            return None, None, None
        name, slot, requirement = found.groups()
        good = is_name(name) and (is_slot_name(slot) if slot is not None else is_block_id(requirement or ""))
        return (name, slot, requirement) if good else (None, None, None)


def _slot_form(value: Any) -> str | None:
    if isinstance(value, str):
        return "source"
    found = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    if found == "source" and isinstance(value, Mapping):
        return "(source)"  # a source slot is written as text; no mapping has this type
    return found if isinstance(found, str) else None


Slot: TypeAlias = Annotated[
    Annotated[JsonSlot, Tag(TAG + "json")]
    | Annotated[MediaSlot, Tag(TAG + "media")]
    | Annotated[TraceSlot, Tag(TAG + "trace")]
    | Annotated[SamplesSlot, Tag(TAG + "samples")]
    | Annotated[SourceSlot, Tag(TAG + "source")],
    chosen_by("type", _slot_form, by_member=True),
]
