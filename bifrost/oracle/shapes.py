"""The shapes of a syntax tree that queries may have: of every kind of node, its members and what they hold.

As the engine's version that is pinned writes them. What is not written down here is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

Names: TypeAlias = frozenset[str]
"""Common table expressions in scope."""


class Refused(Exception):
    """The query is not run. The text is for the asker, and holds nothing but the asker's own words."""


class Walk(Protocol):
    """One pass over a tree: what a rule may ask for the members it is given."""

    def unknown(self, what: str) -> Refused: ...
    def members(self, node: Any, rules: Mapping[str, Rule], names: Names) -> None: ...
    def kind(self, node: Any, kinds: Mapping[str, Mapping[str, Rule]], names: Names) -> None: ...
    def statement(self, value: Any, names: Names) -> None: ...
    def node(self, node: Any, names: Names) -> None: ...
    def with_(self, cte_map: Any, names: Names) -> Names: ...
    def table(self, node: Any, names: Names) -> None: ...
    def table_function(self, node: Any, names: Names) -> None: ...
    def expression(self, node: Any, names: Names) -> None: ...
    def type(self, node: Any, names: Names) -> None: ...
    def collation(self, value: Any) -> None: ...
    def parameter(self, value: Any) -> None: ...


Rule: TypeAlias = Callable[[Walk, Any, Names], None]
"""Looks at what one member holds. Raises `Refused`."""


def word(walk: Walk, value: Any, names: Names) -> None:
    if isinstance(value, dict | list):
        raise walk.unknown("value")


def nothing(walk: Walk, value: Any, names: Names) -> None:
    if value not in (None, False, "", [], {}):
        raise walk.unknown("clause")


def one_of(*allowed: str) -> Rule:
    def check(walk: Walk, value: Any, names: Names) -> None:
        if value not in allowed:
            raise walk.unknown("clause")

    return check


def data(walk: Walk, value: Any, names: Names) -> None:
    """Plain data of any shape that holds no expression and no query."""
    if isinstance(value, list):
        for item in value:
            data(walk, item, names)
    elif isinstance(value, dict):
        if isinstance(value.get("type"), str) or {"class", "node", "from_table"} & set(value):
            raise walk.unknown("clause")
        for item in value.values():
            data(walk, item, names)


def every(rule: Rule) -> Rule:
    def check(walk: Walk, value: Any, names: Names) -> None:
        if not isinstance(value, list):
            raise walk.unknown("list")
        for item in value:
            rule(walk, item, names)

    return check


def maybe(rule: Rule) -> Rule:
    def check(walk: Walk, value: Any, names: Names) -> None:
        if value is not None:
            rule(walk, value, names)

    return check


def of(**members: Rule) -> Rule:
    def check(walk: Walk, value: Any, names: Names) -> None:
        walk.members(value, members, names)

    return check


def _expression(walk: Walk, value: Any, names: Names) -> None:
    walk.expression(value, names)


def node_(walk: Walk, value: Any, names: Names) -> None:
    walk.node(value, names)


def _table(walk: Walk, value: Any, names: Names) -> None:
    walk.table(value, names)


def _statement(walk: Walk, value: Any, names: Names) -> None:
    walk.statement(value, names)


def modifier(walk: Walk, value: Any, names: Names) -> None:
    walk.kind(value, MODIFIERS, names)


def _group_sets(walk: Walk, value: Any, names: Names) -> None:
    every(every(word))(walk, value, names)


expressions: Final = every(_expression)
_ORDERS: Final = every(
    of(
        type=one_of("ORDER_DEFAULT", "ASCENDING", "DESCENDING"),
        null_order=one_of("ORDER_DEFAULT", "NULLS FIRST", "NULLS LAST"),
        expression=_expression,
    )
)
_ARGUMENTS: Final = every(of(name=word, expression=_expression))
_SAMPLE: Final = maybe(
    of(sample_size=data, is_percentage=word, method=word, seed=word, repeatable=word, sample_rate=word)
)
PLACE: Final[dict[str, Rule]] = {"query_location": word, "query_location_length": word, "alias": word}

MODIFIERS: Final[dict[str, dict[str, Rule]]] = {
    "ORDER_MODIFIER": {"type": word, "orders": _ORDERS},
    "LIMIT_MODIFIER": {
        "type": word,
        "limit": maybe(_expression),
        "offset": maybe(_expression),
        "limit_type": one_of("ROW_COUNT", "PERCENTAGE"),
    },
    "DISTINCT_MODIFIER": {"type": word, "distinct_on_targets": expressions},
}

NODES: Final[dict[str, dict[str, Rule]]] = {
    "SELECT_NODE": {
        "type": word,
        "modifiers": every(modifier),
        "select_list": expressions,
        "from_table": _table,
        "where_clause": maybe(_expression),
        "group_expressions": expressions,
        "group_sets": _group_sets,
        "aggregate_handling": one_of("STANDARD_HANDLING", "FORCE_AGGREGATES", "NO_AGGREGATES_ALLOWED"),
        "having": maybe(_expression),
        "sample": _SAMPLE,
        "qualify": maybe(_expression),
    },
    "SET_OPERATION_NODE": {
        "type": word,
        "modifiers": every(modifier),
        "setop_type": one_of("UNION", "EXCEPT", "INTERSECT", "UNION_BY_NAME"),
        "left": maybe(node_),
        "right": maybe(node_),
        "setop_all": word,
        "children": every(node_),
    },
}

TABLES: Final[dict[str, dict[str, Rule]]] = {
    "EMPTY": {"type": word, "sample": nothing, **PLACE},
    "BASE_TABLE": {
        "type": word,
        "sample": _SAMPLE,
        "schema_name": word,
        "table_name": word,
        "catalog_name": word,
        "column_name_alias": every(word),
        "at_clause": nothing,
        "qualified_name": of(path=every(word)),
        **PLACE,
    },
    "JOIN": {
        "type": word,
        "sample": _SAMPLE,
        "left": _table,
        "right": _table,
        "condition": maybe(_expression),
        "join_type": one_of("INNER", "LEFT", "RIGHT", "OUTER", "FULL", "SEMI", "ANTI"),
        "ref_type": one_of("REGULAR", "NATURAL", "CROSS", "POSITIONAL", "ASOF"),
        "using_columns": every(word),
        "delim_flipped": nothing,
        "duplicate_eliminated_columns": nothing,
        "is_implicit": word,
        "ranking_expression": nothing,
        "nearest_count": word,
        "nearest_order_type": word,
        "nearest_approx": nothing,
        **PLACE,
    },
    "SUBQUERY": {
        "type": word,
        "sample": _SAMPLE,
        "subquery": _statement,
        "column_name_alias": every(word),
        **PLACE,
    },
    "TABLE_FUNCTION": {
        "type": word,
        "sample": _SAMPLE,
        "function": lambda walk, value, names: walk.table_function(value, names),
        "column_name_alias": every(word),
        "with_ordinality": one_of("WITHOUT_ORDINALITY", "WITH_ORDINALITY"),
        **PLACE,
    },
    "EXPRESSION_LIST": {
        "type": word,
        "sample": _SAMPLE,
        "expected_names": every(word),
        "expected_types": nothing,
        "values": every(expressions),
        **PLACE,
    },
    "PIVOT": {
        "type": word,
        "sample": _SAMPLE,
        "source": _table,
        "aggregates": expressions,
        "unpivot_names": every(word),
        "pivots": every(
            of(
                pivot_expressions=expressions,
                unpivot_names=every(word),
                entries=every(of(values=data, star_expr=maybe(_expression), alias=word)),
                pivot_enum=nothing,
            )
        ),
        "groups": every(word),
        "column_name_alias": every(word),
        "include_nulls": word,
        **PLACE,
    },
}

_COMPARED: Final = (
    "COMPARE_EQUAL",
    "COMPARE_NOTEQUAL",
    "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHAN",
    "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_DISTINCT_FROM",
    "COMPARE_NOT_DISTINCT_FROM",
)
FUNCTION: Final[dict[str, Rule]] = {
    "type": one_of("FUNCTION"),
    "function_name": word,
    "schema": word,
    "catalog": word,
    "qualified_name": of(path=every(word)),
    "filter": maybe(_expression),
    "order_bys": maybe(modifier),
    "distinct": word,
    "is_operator": word,
    "export_state": nothing,
    "arguments": _ARGUMENTS,
    "is_legacy_function_call": word,
    **PLACE,
}
_WINDOW_BOUNDS: Final = one_of(
    "UNBOUNDED_PRECEDING",
    "UNBOUNDED_FOLLOWING",
    "CURRENT_ROW_RANGE",
    "CURRENT_ROW_ROWS",
    "CURRENT_ROW_GROUPS",
    "EXPR_PRECEDING_ROWS",
    "EXPR_FOLLOWING_ROWS",
    "EXPR_PRECEDING_RANGE",
    "EXPR_FOLLOWING_RANGE",
    "EXPR_PRECEDING_GROUPS",
    "EXPR_FOLLOWING_GROUPS",
)

EXPRESSIONS: Final[dict[str, dict[str, Rule]]] = {
    "COLUMN_REF": {"type": one_of("COLUMN_REF"), "column_names": every(word), **PLACE},
    "CONSTANT": {
        "type": one_of("VALUE_CONSTANT"),
        "literal": of(
            kind=one_of("INTEGER", "NUMERIC", "STRING", "BOOLEAN", "NULL_LITERAL", "HEX"), text=word
        ),
        **PLACE,
    },
    "PARAMETER": {
        "type": one_of("VALUE_PARAMETER"),
        "identifier": lambda walk, value, names: walk.parameter(value),
        **PLACE,
    },
    "COMPARISON": {"type": one_of(*_COMPARED), "left": _expression, "right": _expression, **PLACE},
    "CONJUNCTION": {
        "type": one_of("CONJUNCTION_AND", "CONJUNCTION_OR"),
        "children": expressions,
        **PLACE,
    },
    "OPERATOR": {
        "type": one_of(
            "OPERATOR_NOT",
            "OPERATOR_IS_NULL",
            "OPERATOR_IS_NOT_NULL",
            "OPERATOR_COALESCE",
            "OPERATOR_NULLIF",
            "OPERATOR_TRY",
            "COMPARE_IN",
            "COMPARE_NOT_IN",
            "ARRAY_EXTRACT",
            "ARRAY_SLICE",
            "STRUCT_EXTRACT",
            "ARRAY_CONSTRUCTOR",
            "GROUPING_FUNCTION",
        ),
        "children": expressions,
        **PLACE,
    },
    "BETWEEN": {
        "type": one_of("COMPARE_BETWEEN", "COMPARE_NOT_BETWEEN"),
        "input": _expression,
        "lower": _expression,
        "upper": _expression,
        **PLACE,
    },
    "CASE": {
        "type": one_of("CASE_EXPR"),
        "case_checks": every(of(when_expr=_expression, then_expr=_expression)),
        "else_expr": maybe(_expression),
        **PLACE,
    },
    "CAST": {
        "type": one_of("OPERATOR_CAST"),
        "child": _expression,
        "try_cast": word,
        "type_expr": lambda walk, value, names: walk.type(value, names),
        **PLACE,
    },
    "COLLATE": {
        "type": one_of("COLLATE"),
        "child": _expression,
        "collation": lambda walk, value, names: walk.collation(value),
        **PLACE,
    },
    "FUNCTION": FUNCTION,
    "WINDOW": {
        "type": word,
        "function_name": word,
        "schema": word,
        "catalog": word,
        "qualified_name": of(path=every(word)),
        "partitions": expressions,
        "orders": _ORDERS,
        "start": _WINDOW_BOUNDS,
        "end": _WINDOW_BOUNDS,
        "start_expr": maybe(_expression),
        "end_expr": maybe(_expression),
        "offset_expr": maybe(_expression),
        "default_expr": maybe(_expression),
        "ignore_nulls": word,
        "has_ignore_nulls": word,
        "filter_expr": maybe(_expression),
        "exclude_clause": one_of("NO_OTHER", "CURRENT_ROW", "GROUP", "TIES"),
        "distinct": word,
        "arg_orders": _ORDERS,
        "arguments": _ARGUMENTS,
        "is_legacy_function_call": word,
        **PLACE,
    },
    "SUBQUERY": {
        "type": one_of("SUBQUERY"),
        "subquery_type": one_of("SCALAR", "EXISTS", "NOT_EXISTS", "ANY"),
        "subquery": _statement,
        "child": maybe(_expression),
        "comparison_type": one_of("INVALID", *_COMPARED),
        **PLACE,
    },
    "STAR": {
        "type": one_of("STAR"),
        "relation_name": word,
        "exclude_list": data,
        "qualified_exclude_list": data,
        "rename_list": data,
        "replace_list": every(of(key=word, value=_expression)),
        "columns": word,
        "expr": maybe(_expression),
        **PLACE,
    },
    "LAMBDA": {
        "type": one_of("LAMBDA"),
        "lhs": _expression,
        "expr": _expression,
        "syntax_type": one_of("SINGLE_ARROW", "LAMBDA_KEYWORD"),
        **PLACE,
    },
    "POSITIONAL_REFERENCE": {"type": one_of("POSITIONAL_REFERENCE"), "index": word, **PLACE},
}
