"""What a step's output is known to hold, as a JSON Schema, and whether a selector can exist in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wyrd.cards.actions import AgentAction, ExtractAction
from wyrd.cards.agent import AgentSpec
from wyrd.cards.prompt import PromptSpec
from wyrd.cards.references import Selector
from wyrd.cards.slots import MediaSlot
from wyrd.cards.verifier import Step, VerifierSpec

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_ANY: Final[dict[str, Any]] = {}
_SCALAR: Final[dict[str, Any]] = {"type": ["string", "number", "boolean", "null"]}


def _object(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "additionalProperties": False}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_ROWS: Final = _list(_list(_TEXT))
EXTRACTED: Final[dict[str, dict[str, Any]]] = {
    "pdf": _object(format=_TEXT, pages=_list(_object(number={"type": "integer"}, text=_TEXT))),
    "pptx": _object(
        format=_TEXT,
        slides=_list(
            _object(
                number={"type": "integer"},
                title=_TEXT,
                paragraphs=_list(_TEXT),
                tables=_list(_object(rows=_ROWS)),
                notes=_TEXT,
            )
        ),
    ),
    "docx": _object(format=_TEXT, blocks=_list(_object(kind=_TEXT, text=_TEXT, style=_TEXT, rows=_ROWS))),
    "xlsx": _object(
        format=_TEXT,
        sheets=_list(
            _object(
                name=_TEXT,
                cells=_list(_object(address=_TEXT, value=_SCALAR, formula=_TEXT, error=_TEXT)),
            )
        ),
    ),
    "csv": _object(format=_TEXT, rows=_ROWS),
    "json": _object(format=_TEXT, value=_ANY),
    "text": _object(format=_TEXT, text=_TEXT),
    "markdown": _object(format=_TEXT, text=_TEXT),
    "html": _object(format=_TEXT, text=_TEXT),
}
"""The shape of an extraction, by canonical format."""


def output_schema(step: Step, spec: VerifierSpec) -> Any:
    """The JSON Schema that the step's output is known to fit; True when nothing is known."""
    action = step.action
    if isinstance(action, ExtractAction):
        slot = spec.inputs.get(action.from_.name)
        if not isinstance(slot, MediaSlot):
            return True
        return {"anyOf": [EXTRACTED.get(name, True) for name in slot.formats]}
    if isinstance(action, AgentAction) and isinstance(action.agent, AgentSpec):
        prompt = action.agent.prompt
        if isinstance(prompt, PromptSpec):
            schema = prompt.response_schema
            return _TEXT if schema is None else schema
    return True


MAX_VISITS: Final = 4096
"""Schemas looked at for one reference; branches that refer to shared branches multiply."""
MAX_REFERENCES: Final = 64


def selectable(schema: Any, selectors: tuple[Selector, ...]) -> bool:
    """Whether the selectors can exist in a value of that schema. What is not certain is allowed."""
    return _Walk(schema).allows(schema, selectors, frozenset())


class _Walk:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.visits = 0

    def allows(self, schema: Any, selectors: tuple[Selector, ...], seen: frozenset[str]) -> bool:
        self.visits += 1
        if not selectors or not isinstance(schema, Mapping) or self.visits > MAX_VISITS:
            return True
        reference = schema.get("$ref")
        if isinstance(reference, str):
            lost = reference in seen or len(seen) >= MAX_REFERENCES
            target = None if lost else resolve_pointer(self.root, reference)
            # A reference that leads nowhere, away, or in a circle says nothing.
            return target is None or self.allows(target, selectors, seen | {reference})
        field = isinstance(selectors[0], str)
        types = schema.get("type")
        named = [types] if isinstance(types, str) else types
        if isinstance(named, list) and ("object" if field else "array") not in named:
            return False
        for branches in (schema.get("anyOf"), schema.get("oneOf")):
            if isinstance(branches, list) and not any(self.allows(b, selectors, seen) for b in branches):
                return False
        return self._member(schema, selectors) if field else self._item(schema, selectors)

    def _item(self, schema: Mapping[str, Any], selectors: tuple[Selector, ...]) -> bool:
        items = schema.get("items")
        if isinstance(items, Mapping) and "prefixItems" not in schema:
            return self.allows(items, selectors[1:], frozenset())
        return True

    def _member(self, schema: Mapping[str, Any], selectors: tuple[Selector, ...]) -> bool:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and selectors[0] in properties:
            return self.allows(properties[selectors[0]], selectors[1:], frozenset())
        if "patternProperties" in schema:
            return True
        more = schema.get("additionalProperties")
        if more is False:
            return False
        return self.allows(more, selectors[1:], frozenset()) if isinstance(more, Mapping) else True


def resolve_pointer(root: Any, reference: str) -> Any:
    """What a local `#/...` reference points at, or None."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    value = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and name.isascii() and len(name) < 10:
            index = int(name)
            value = value[index] if index < len(value) else None
        else:
            return None
    return value
