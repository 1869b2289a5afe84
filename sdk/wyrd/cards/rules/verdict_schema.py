"""Whether a response schema can produce nothing but closed Verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from wyrd.cards.rules.known_outputs import resolve_pointer

OUTCOMES: Final = frozenset(("passed", "failed", "inconclusive"))
MAX_REFERENCES: Final = 64
MAX_VISITS: Final = 4096
"""Schemas looked at in all; branches that refer to shared branches multiply."""

Test = Callable[[Mapping[str, Any], "_Root"], str | None]


class _Root:
    """The whole schema, and how much of it was looked at."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.visits = 0


def verdict_schema_fault(schema: Any) -> str | None:
    """Why the schema could produce something that is not a Verdict, or None when it cannot."""
    if schema is None:
        return "the Agent has no response_format, so its answer need not be a Verdict"
    return _only(_verdict, schema, _Root(schema))


def _only(test: Test, schema: Any, root: _Root, depth: int = 0) -> str | None:
    """None when the schema, or the parts it is composed of, pass the test."""
    if not isinstance(schema, Mapping):
        return "a part of the schema takes anything"
    root.visits += 1
    if depth > MAX_REFERENCES or root.visits > MAX_VISITS:
        return "the schema refers to itself without end, or is too tangled to be judged"
    if isinstance(schema.get("$ref"), str):
        target = resolve_pointer(root.schema, schema["$ref"])
        return _only(test, target, root, depth + 1)
    why = test(schema, root)
    if why is None:
        return None
    for member in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(member)
        if isinstance(branches, list) and branches:
            found = (_only(test, branch, root, depth + 1) for branch in branches)
            return next((one for one in found if one is not None), None)
    return why


def _closed(schema: Mapping[str, Any], what: str, members: tuple[str, ...]) -> str | None:
    if schema.get("type") not in ("object", ["object"]):
        return f"{what} must have type: object"
    if schema.get("additionalProperties") is not False or schema.get("patternProperties"):
        return f"{what} must have additionalProperties: false"
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or set(properties) != set(members):
        return f"{what} must have exactly the properties {', '.join(members)}"
    required = schema.get("required")
    if not isinstance(required, list) or not set(members) <= {
        one for one in required if isinstance(one, str)
    }:
        return f"{what} must require {', '.join(members)}"
    return None


def _members(schema: Mapping[str, Any], root: _Root, tests: Mapping[str, Test], what: str) -> str | None:
    why = _closed(schema, what, tuple(tests))
    if why is not None:
        return why
    found = (_only(test, schema["properties"][name], root) for name, test in tests.items())
    return next((one for one in found if one is not None), None)


def _verdict(schema: Mapping[str, Any], root: _Root) -> str | None:
    tests = {"outcome": _outcome, "reason": _text("reason"), "citations": _citations}
    return _members(schema, root, tests, "the Verdict")


def _outcome(schema: Mapping[str, Any], root: _Root) -> str | None:
    words = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(words, list) or not all(isinstance(w, str) and w in OUTCOMES for w in words):
        return "outcome must be an enum of passed, failed, inconclusive"
    return None


def _text(what: str) -> Test:
    def test(schema: Mapping[str, Any], root: _Root) -> str | None:
        return None if schema.get("type") in ("string", ["string"]) else f"{what} must have type: string"

    return test


def _citations(schema: Mapping[str, Any], root: _Root) -> str | None:
    if schema.get("type") not in ("array", ["array"]):
        return "citations must have type: array"
    if "prefixItems" in schema or "items" not in schema:
        return "citations must have items that are citations"
    return _only(_citation, schema["items"], root)


def _citation(schema: Mapping[str, Any], root: _Root) -> str | None:
    return _members(schema, root, {"slot": _text("slot"), "locator": _locator}, "a citation")


def _integer(what: str) -> Test:
    def test(schema: Mapping[str, Any], root: _Root) -> str | None:
        return None if schema.get("type") in ("integer", ["integer"]) else f"{what} must have type: integer"

    return test


def _number(what: str) -> Test:
    def test(schema: Mapping[str, Any], root: _Root) -> str | None:
        types = schema.get("type")
        named = [types] if isinstance(types, str) else types
        good = isinstance(named, list) and named and set(named) <= {"number", "integer"}
        return None if good else f"{what} must have type: number or integer"

    return test


def _lines(schema: Mapping[str, Any], root: _Root) -> str | None:
    return _members(schema, root, {"start": _integer("start"), "end": _integer("end")}, "lines")


def _region(schema: Mapping[str, Any], root: _Root) -> str | None:
    tests: dict[str, Test] = {"page": _integer("page")}
    tests.update({name: _number(name) for name in ("x", "y", "width", "height")})
    return _members(schema, root, tests, "region")


_LOCATORS: Final[dict[str, Test]] = {
    "page": _integer("page"),
    "slide": _integer("slide"),
    "lines": _lines,
    "json_pointer": _text("json_pointer"),
    "region": _region,
}


def _locator(schema: Mapping[str, Any], root: _Root) -> str | None:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(properties) != 1:
        return f"a locator must have exactly one of {', '.join(_LOCATORS)}"
    name = next(iter(properties))
    if name not in _LOCATORS:
        return f"{str(name)[:40]!r} is not a locator; there are {', '.join(_LOCATORS)}"
    return _members(schema, root, {name: _LOCATORS[name]}, "a locator")
