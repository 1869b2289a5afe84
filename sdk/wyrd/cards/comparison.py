"""Comparison operators as Cards name them: a bare word, or an object tagged `kind`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from wyrd.cards.identifiers import U64
from wyrd.cards.shapes import fault, faults

SCALAR_OPERATORS: Final = frozenset(
    [
        "equals",
        "not_equals",
        "greater_than",
        "greater_than_or_equals",
        "less_than",
        "less_than_or_equals",
        "is_positive",
        "is_negative",
        "is_zero",
        "contains",
        "not_contains",
        "contains_ignore_case",
        "starts_with",
        "ends_with",
        "is_url",
        "is_email",
        "is_uuid",
        "is_ipv4",
        "is_ipv6",
        "is_json",
        "in",
        "not_in",
        "is_subset",
        "is_superset",
        "is_disjoint",
        "all_of",
        "any_of",
        "none_of",
        "is_empty",
        "is_non_empty",
        "unique_values",
        "is_truthy",
        "is_falsy",
        "is_null",
        "is_not_null",
        "is_string",
        "is_number",
        "is_boolean",
        "is_object",
    ]
)

PARAMETERS: Final[dict[str, dict[str, str]]] = {
    "in_range": {"min": "number", "max": "number", "inclusive": "boolean"},
    "not_in_range": {"min": "number", "max": "number", "inclusive": "boolean"},
    "approximately_equals": {"tolerance": "number"},
    "within_abs_tolerance": {"tolerance": "number"},
    "within_pct_tolerance": {"pct": "number"},
    "within_std_dev": {"sigma": "number", "mean": "number", "std_dev": "number"},
    "between_percentiles": {"lower_pct": "number", "upper_pct": "number"},
    "divergence_less_than": {"metric": "metric", "threshold": "number"},
    "cosine_similarity_at_least": {"threshold": "number"},
    "matches_regex": {"pattern": "text"},
    "not_matches_regex": {"pattern": "text"},
    "has_min_length": {"min": "count"},
    "has_max_length": {"max": "count"},
    "length": {"expected": "count"},
    "length_greater_than": {"min": "count"},
    "length_less_than": {"max": "count"},
    "is_type": {"expected": "type"},
}
"""The members of each parameterized operator (all required) and what each one is."""

NEEDS_EXPECTED: Final = frozenset(
    [
        "greater_than",
        "greater_than_or_equals",
        "less_than",
        "less_than_or_equals",
        "contains",
        "not_contains",
        "contains_ignore_case",
        "starts_with",
        "ends_with",
        "in",
        "not_in",
        "is_subset",
        "is_superset",
        "is_disjoint",
        "all_of",
        "any_of",
        "none_of",
        "approximately_equals",
        "within_abs_tolerance",
        "within_pct_tolerance",
        "divergence_less_than",
        "cosine_similarity_at_least",
    ]
)
"""Operators whose operand is `expected` and may not be null."""

METRICS: Final = ("kl", "js", "wasserstein")
TYPE_WORDS: Final = ("null", "bool", "number", "string", "array", "object")

_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "text": {"type": "string"},
    "count": {"type": "integer", "minimum": 0},
    "metric": {"enum": list(METRICS)},
    "type": {"enum": list(TYPE_WORDS)},
}


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its name under `kind`, and its parameters (empty for a bare name)."""

    kind: str
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def authored(self) -> str | dict[str, Any]:
        """As a Card writes it."""
        return {"kind": self.kind, **self.parameters} if self.kind in PARAMETERS else self.kind

    @classmethod
    def of(cls, value: Any) -> Operator:
        """Read an authored operator. Raises a pydantic custom error that names the member."""
        if isinstance(value, Operator):
            return value
        if isinstance(value, str):
            if value in SCALAR_OPERATORS:
                return cls(value)
            if value in PARAMETERS:
                names = ", ".join(PARAMETERS[value])
                raise fault(f"{value} needs its parameters: write {{kind: {value}, ...}} with {names}")
            raise fault(f"{value[:80]!r} is not an operator")
        if not isinstance(value, Mapping):
            raise fault("an operator is a name, or a mapping with kind and that operator's parameters")
        return cls._of_mapping(value)

    @classmethod
    def _of_mapping(cls, value: Mapping[Any, Any]) -> Operator:
        if "kind" not in value:
            raise fault("the operator lacks kind", member="kind", member_fault="missing")
        kind = value["kind"]
        if not isinstance(kind, str) or kind not in PARAMETERS:
            raise fault(f"{str(kind)[:80]!r} is not a parameterized operator", ("kind",))
        wanted = PARAMETERS[kind]
        found: list[tuple[tuple[str | int, ...], str, str | None, str | None]] = []
        for name, what in wanted.items():
            if name not in value:
                found.append(((), f"{kind} lacks {name}", name, "missing"))
            elif (trouble := _parameter_fault(what, value[name])) is not None:
                found.append(((name,), f"{name} of {kind} {trouble}", None, None))
        found.extend(
            ((str(name),), f"{kind} has no member {str(name)[:80]!r}", str(name), "unknown")
            for name in value
            if name != "kind" and name not in wanted
        )
        if found:
            raise faults(found)
        return cls(kind, {name: value[name] for name in wanted})

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.of,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.authored),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        objects = [
            {
                "type": "object",
                "properties": {"kind": {"const": kind}, **{n: _SCHEMAS[w] for n, w in wanted.items()}},
                "required": ["kind", *wanted],
                "additionalProperties": False,
            }
            for kind, wanted in PARAMETERS.items()
        ]
        return {"anyOf": [{"enum": sorted(SCALAR_OPERATORS)}, *objects]}


def _parameter_fault(what: str, value: Any) -> str | None:
    match what:
        case "boolean":
            return None if isinstance(value, bool) else "must be true or false"
        case "text":
            return None if isinstance(value, str) else "must be text"
        case "count":
            whole = isinstance(value, int) and not isinstance(value, bool)
            return None if whole and 0 <= value <= U64 else "must be a whole number from 0"
        case "metric":
            return None if value in METRICS else f"must be one of {', '.join(METRICS)}"
        case "type":
            good = isinstance(value, str) and value in TYPE_WORDS
            return None if good else f"must be one of {', '.join(TYPE_WORDS)}, as text (quote null)"
        case _:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return None if number and math.isfinite(value) else "must be a finite number"
