"""A stored Card as an application sees it: read-only."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from wyrd.errors import Code, WyrdError
from wyrd.wire.refs import CardRef


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value


class CardEnvelope:
    """One exact Card: `card_ref` (with uid), `kind`, `metadata`, `spec`, `relationships`, `status`.

    Mappings are read-only and lists are tuples; `model_dump()` gives a copy in plain JSON types.
    """

    __slots__ = ("_document", "card_ref", "kind", "metadata", "relationships", "spec", "status")

    def __init__(self, document: Mapping[str, Any]) -> None:
        metadata = document.get("metadata")
        try:
            known = {**metadata} if isinstance(metadata, Mapping) else {}
            card_ref = CardRef.model_validate({**known, "kind": document.get("kind")})
        except ValidationError:
            card_ref = None
        spec = document.get("spec")
        if card_ref is None or card_ref.uid is None or not isinstance(spec, Mapping):
            raise WyrdError(
                Code.SDK_400_INVALID_STATE_BUNDLE,
                "a stored Card has no kind, name, version, uid and spec",
                metadata=dict(metadata) if isinstance(metadata, Mapping) else None,
            )
        self._document = copy.deepcopy(dict(document))
        self.card_ref: CardRef = card_ref
        self.kind: str = card_ref.kind
        self.metadata: Mapping[str, Any] = _frozen(self._document["metadata"])
        self.spec: Mapping[str, Any] = _frozen(self._document["spec"])
        self.relationships: Mapping[str, Any] = _frozen(self._document.get("relationships") or {})
        self.status: Mapping[str, Any] | None = _frozen(self._document.get("status"))

    @property
    def uid(self) -> str:
        """The Card's UID, a UUIDv7."""
        uid = self.card_ref.uid
        assert uid is not None
        return uid

    def model_dump(self) -> dict[str, Any]:
        """The whole envelope in plain JSON types, as the registry sent it."""
        return copy.deepcopy(self._document)

    def __repr__(self) -> str:
        return f"CardEnvelope({str(self.card_ref)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CardEnvelope) and self._document == other._document

    def __hash__(self) -> int:
        return hash(self.card_ref)
