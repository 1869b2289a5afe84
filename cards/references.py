"""The references inside a spec: where they stand, and the exact Cards they are replaced by.

Positions are found through the decoded model, never by the look of the data: a free JSON value
that happens to read `{"sibling": …}` is data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel

from wyrd.cards import CardRef as AuthoredRef
from wyrd.cards import Kind, Sibling, decode_spec, spec_document
from wyrd.cards.decode import Path, dotted
from wyrd.wire.refs import CardRef


@dataclass(frozen=True, slots=True)
class Position:
    """One reference in a spec. `sibling` says that it names a Card of the same declaration."""

    path: Path
    ref: CardRef
    sibling: bool

    @property
    def field(self) -> str:
        """The place as people read it: `spec.components[0].ref`."""
        return f"spec.{dotted(self.path)}"


def positions(spec: BaseModel) -> list[Position]:
    """Every reference of a decoded spec, in the order of the document."""
    return list(_walk(spec, ()))


def card_refs(kind: str, spec: Mapping[str, Any]) -> list[CardRef]:
    """Every Card that a stored spec names, in the order of the document."""
    return [position.ref for position in positions(decode_spec(cast(Kind, kind), dict(spec)))]


def exact_document(spec: BaseModel, exact: Callable[[Position], CardRef]) -> dict[str, Any]:
    """The spec as plain data, each reference replaced by the exact Card that `exact` answers."""
    document = spec_document(cast(Any, spec))
    for position in positions(spec):
        *way, last = position.path
        place: Any = document
        for part in way:
            place = place[part]
        place[last] = exact(position).document()
    return document


def _walk(value: object, path: Path) -> Iterator[Position]:
    if isinstance(value, Sibling):
        yield Position(path, _plain(value.sibling), sibling=True)
    elif isinstance(value, AuthoredRef):
        yield Position(path, _plain(value), sibling=False)
    elif isinstance(value, BaseModel):
        # Only what was authored: a default holds no reference, and the document leaves it out.
        for name, field in type(value).model_fields.items():
            if name in value.model_fields_set:
                yield from _walk(
                    getattr(value, name), (*path, field.serialization_alias or field.alias or name)
                )
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, (*path, key))


def _plain(ref: AuthoredRef) -> CardRef:
    return CardRef(kind=ref.kind, name=ref.name, version=ref.version, space=ref.space, uid=ref.uid)
