"""JSON Schemas of whole Cards, one a kind, for editors and for other languages."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from wyrd.cards.card_ref import Kind
from wyrd.cards.decode import adapter
from wyrd.cards.envelope import API_VERSION, Metadata

_TEMPLATE = "#/$defs/{model}"


def json_schema(kind: Kind) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a whole Card of that kind, as authored."""
    return deepcopy(_schema(kind))


@cache
def _schema(kind: Kind) -> dict[str, Any]:
    spec = adapter(kind).json_schema(by_alias=True, ref_template=_TEMPLATE)
    metadata = TypeAdapter(Metadata).json_schema(by_alias=True, ref_template=_TEMPLATE)
    for member in ("space", "labels", "annotations"):
        # Written as null they mean what leaving them out means.
        metadata["properties"][member] = {"anyOf": [metadata["properties"][member], {"type": "null"}]}
    definitions = {**metadata.pop("$defs", {}), **spec.pop("$defs", {})}
    for name, one in (("Metadata", metadata), ("Spec", spec)):
        definitions.setdefault(name, one)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{kind} Card",
        "type": "object",
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind},
            "metadata": {"$ref": "#/$defs/Metadata"},
            "spec": {"$ref": "#/$defs/Spec"},
        },
        "required": ["kind", "metadata", "spec"],
        "$defs": definitions,
    }
