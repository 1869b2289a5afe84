"""The gate: which SQL is run at all, decided over the engine's own syntax tree.

An allow-list: of every kind of node it is written down which members it may have and what they may
hold. A node, member or name that is not written down is refused, so that a new version of the
engine refuses what it adds until somebody has looked at it. One SELECT gets through, over tables of
the tenant by their full path and over its own common table expressions, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import orjson

from bifrost.oracle.shapes import (
    EXPRESSIONS,
    FUNCTION,
    NODES,
    PLACE,
    TABLES,
    Names,
    Refused,
    Rule,
    Walk,
    data,
    every,
    expressions,
    modifier,
    node_,
    nothing,
    of,
    one_of,
    word,
)
from bifrost.oracle.vocabulary import COLLATIONS, FUNCTIONS, TABLE_FUNCTIONS, TYPES, WINDOWS

MAX_SQL_BYTES: Final = 64 * 1024
_NOWHERE: Final = 2**64 - 1

# Where the engine's advice is to change the engine.
_REWORDED: Final = {
    "Max expression depth": "the query is nested too deeply",
    "Deprecated lambda arrow": "a lambda is written 'lambda x: x + 1'; an arrow looks into JSON",
}


@dataclass(frozen=True)
class Passed:
    """What the gate let through: the tables it reads, as (schema, name) in lower case."""

    tables: tuple[tuple[str, str], ...]


def passed(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: int, taken: Names = frozenset()
) -> Passed:
    """The query, if it may run. Raises `Refused`.

    `parameters` is how many values came with it. `taken` are names that the engine itself gives a
    meaning; no common table expression may have one.
    """
    ((serialised,),) = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [sql]).fetchall()
    try:
        tree = orjson.loads(serialised)
    except orjson.JSONDecodeError:
        raise Refused("the query is nested too deeply") from None
    if tree.get("error") is not False:
        raise Refused(_unreadable(tree, sql))
    statements = tree.get("statements")
    if set(tree) != {"error", "statements"} or len(statements) != 1:
        raise Refused("a query is one SELECT statement; there are several here")
    walk = _Walk(sql, taken)
    try:
        walk.statement(statements[0], frozenset())
    except (TypeError, KeyError, AttributeError, ValueError):
        # A shape that no version writes that we know.
        raise walk.unknown("query") from None
    walk.match_parameters(parameters)
    return Passed(tuple(sorted(walk.tables)))


def place(sql: str, offset: int | None) -> str:
    """`line 2, column 5: ` of a byte offset, or nothing."""
    text = sql.encode("utf-8", "surrogatepass")
    if offset is None or not 0 <= offset <= len(text):
        return ""
    before = text[:offset].decode("utf-8", "replace")
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}: "


def in_short(text: str) -> str:
    """The first line of the engine's own words, with the names it proposes, bounded."""
    for words, ours in _REWORDED.items():
        if words in text:
            return ours
    first, _, rest = text.strip().partition("\n")
    second = rest.partition("\n")[0]
    return f"{first[:300]} {second[:300]}".strip() if second.startswith("Candidate ") else first[:300]


def plain(name: str) -> str:
    """A name as the engine compares it: letters of ASCII alone are folded."""
    return "".join(chr(ord(letter) + 32) if "A" <= letter <= "Z" else letter for letter in name)


def _unreadable(tree: Mapping[str, Any], sql: str) -> str:
    if tree.get("error_type") == "not implemented" and "SELECT" in str(tree.get("error_message")):
        return "a query is one SELECT statement"
    position = str(tree.get("position", ""))
    return place(sql, int(position) if position.isdigit() else None) + in_short(str(tree["error_message"]))


_CTE_NAME: Final = re.compile(r"[\w][\w $-]*")


class _Walk:
    """One pass over a tree. `names` are the common table expressions in scope, as `plain` has them."""

    def __init__(self, sql: str, taken: Names) -> None:
        self.tables: set[tuple[str, str]] = set()
        self._sql = sql
        self._taken = taken
        self._parameters: set[int] = set()
        self._at: int | None = None

    def refused(self, why: str) -> Refused:
        return Refused(place(self._sql, self._at) + why)

    def unknown(self, what: str) -> Refused:
        return self.refused(f"this {what} is not part of the SQL that queries may use")

    def match_parameters(self, given: int) -> None:
        """Every value is used, and every `$n` has one."""
        for number in sorted(self._parameters):
            if number > given:
                raise Refused(f"${number} has no value: params holds {given}")
        for number in range(1, given + 1):
            if number not in self._parameters:
                raise Refused(f"params holds {given} values, but ${number} is not in the query")

    def members(self, node: Any, rules: Mapping[str, Rule], names: Names) -> None:
        if not isinstance(node, dict):
            raise self.unknown("clause")
        located = node.get("query_location")
        if isinstance(located, int) and located != _NOWHERE:
            self._at = located
        for member, value in node.items():
            rule = rules.get(member)
            if rule is None:
                raise self.unknown("clause")
            rule(self, value, names)

    def kind(self, node: Any, kinds: Mapping[str, Mapping[str, Rule]], names: Names) -> None:
        rules = kinds.get(str(node.get("type"))) if isinstance(node, dict) else None
        if rules is None:
            raise self.unknown("clause")
        self.members(node, rules, names)

    def statement(self, value: Any, names: Names) -> None:
        self.members(value, {"node": node_, "named_param_map": data}, names)

    def node(self, node: Any, names: Names) -> None:
        """A query, with the common table expressions it brings."""
        if not isinstance(node, dict):
            raise self.unknown("clause")
        kind = node.get("type")
        if kind not in NODES:
            raise self.refused("a query only reads: SELECT, set operations and WITH over them")
        rest = {member: value for member, value in node.items() if member != "cte_map"}
        self.members(rest, NODES[kind], self.with_(node.get("cte_map", {}), names))

    def with_(self, cte_map: Any, names: Names) -> Names:
        """The names in scope after a WITH. Each expression sees those before it, and not itself."""
        if not isinstance(cte_map, dict) or set(cte_map) - {"map"}:
            raise self.unknown("clause")
        for entry in cte_map.get("map", []):
            if set(entry) != {"key", "value"}:
                raise self.unknown("clause")
            name = plain(entry["key"])
            if not _CTE_NAME.fullmatch(name) or name in self._taken:
                raise self.refused(f"a common table expression cannot be called {entry['key'][:80]!r}")
            rules: dict[str, Rule] = {
                "aliases": every(word),
                "materialized": word,
                "key_targets": expressions,
                "payload_aggregates": nothing,
                "query_node": self._recursive_or_not(name),
            }
            self.members(entry["value"], rules, names)
            names = names | {name}
        return names

    @staticmethod
    def _recursive_or_not(name: str) -> Rule:
        def check(walk: Walk, node: Any, names: Names) -> None:
            if not isinstance(node, dict) or node.get("type") != "RECURSIVE_CTE_NODE":
                walk.node(node, names)
                return
            spelled = str(node.get("cte_name"))
            inner = walk.with_(node.get("cte_map", {}), names)
            itself: Rule = lambda walk, value, _: walk.node(value, inner | {name})  # noqa: E731
            rules: dict[str, Rule] = {
                "type": word,
                "modifiers": every(modifier),
                "cte_name": one_of(spelled if plain(spelled) == name else ""),
                "union_all": word,
                "left": node_,
                "right": itself,
                "aliases": every(word),
                "key_targets": expressions,
            }
            rest = {member: value for member, value in node.items() if member != "cte_map"}
            walk.members(rest, rules, inner)

        return check

    def table(self, node: Any, names: Names) -> None:
        self.kind(node, TABLES, names)
        if node["type"] == "BASE_TABLE":
            self._base_table(node, names)

    def _base_table(self, node: Any, names: Names) -> None:
        located = node.get("query_location")
        self._at = located if isinstance(located, int) and located != _NOWHERE else self._at
        path = node["qualified_name"]["path"]
        if not all(isinstance(part, str) for part in path):
            raise self.unknown("clause")
        spelled = [node["catalog_name"], node["schema_name"], node["table_name"]]
        if [part for part in spelled if part] != path:
            raise self.unknown("clause")
        if len(path) == 1:
            if plain(path[0]) in names:
                return
            raise self.refused(
                f"{path[0][:80]!r} is no common table expression here; "
                "tables are named by their full path, as in vala.datasets.tickets"
            )
        parts = [plain(part) for part in path]
        if len(parts) != 3 or parts[0] != "vala":
            raise self.refused(
                f"there is no table {'.'.join(path)[:200]!r}; "
                "tables are named by their full path, as in vala.datasets.tickets"
            )
        self.tables.add((parts[1], parts[2]))

    def table_function(self, node: Any, names: Names) -> None:
        self.members(node, {"class": one_of("FUNCTION"), **FUNCTION}, names)
        self._named(node, TABLE_FUNCTIONS, "table function")

    def expression(self, node: Any, names: Names) -> None:
        found = node.get("class") if isinstance(node, dict) else None
        rules = EXPRESSIONS.get(found or "")
        if rules is None:
            raise self.unknown("expression")
        self.members(node, {"class": word, **rules}, names)
        if found == "FUNCTION":
            self._named(node, FUNCTIONS, "function")
        elif found == "WINDOW":
            if not str(node.get("type")).startswith("WINDOW_"):
                raise self.unknown("window")
            self._named(node, WINDOWS, "window function")

    def _named(self, node: Any, allowed: Names, what: str) -> None:
        located = node.get("query_location")
        self._at = located if isinstance(located, int) and located != _NOWHERE else self._at
        name = node["function_name"]
        if node["schema"] or node["catalog"] or node["qualified_name"]["path"] != [name]:
            raise self.refused(f"functions are named without a schema: {str(name)[:80]!r}")
        if plain(name) not in allowed:
            raise self.refused(f"there is no {what} {name[:80]!r} in queries")

    def type(self, node: Any, names: Names) -> None:
        """The type of a cast, with its parameters."""
        if isinstance(node, dict) and node.get("class") == "CONSTANT":
            self.expression(node, names)
            return
        rules: dict[str, Rule] = {
            "class": one_of("TYPE"),
            "type": one_of("TYPE"),
            "catalog": nothing,
            "schema": nothing,
            "type_name": word,
            "children": every(lambda walk, value, names: walk.type(value, names)),
            "qualified_name": of(path=every(word)),
            **PLACE,
        }
        self.members(node, rules, names)
        name = node["type_name"]
        if node["qualified_name"]["path"] != [name] or plain(name) not in TYPES:
            raise self.refused(f"there is no type {str(name)[:80]!r} in queries")

    def collation(self, value: Any) -> None:
        if not isinstance(value, str) or not set(plain(value).split(".")) <= COLLATIONS:
            raise self.refused("there is no such collation in queries")

    def parameter(self, value: Any) -> None:
        if not isinstance(value, str) or not re.fullmatch(r"[1-9][0-9]{0,4}", value):
            raise self.refused("parameters are $1, $2 and on")
        self._parameters.add(int(value))
