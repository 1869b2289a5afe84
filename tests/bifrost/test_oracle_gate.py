"""The gate fails closed: whatever a tree holds that it does not know, it refuses."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import duckdb
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bifrost.oracle.gate import passed, place
from bifrost.oracle.shapes import Refused
from bifrost.oracle.vocabulary import FUNCTIONS, TABLE_FUNCTIONS, WINDOWS
from tests.bifrost.answered_sql import ALLOWED, TIMELINE

QUERIES = [TIMELINE, *(sql for sql, _, _ in ALLOWED)]


class Told:
    """Stands where the engine is, and tells a tree of ours."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self._told = orjson.dumps(tree)

    def execute(self, _sql: str, _values: list[str]) -> Told:
        return self

    def fetchall(self) -> list[tuple[bytes]]:
        return [(self._told,)]


def trees() -> Iterator[tuple[str, dict[str, Any], int]]:
    connection = duckdb.connect()
    for sql in QUERIES:
        ((text,),) = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [sql]).fetchall()
        tree = orjson.loads(text)
        yield sql, tree, max((one["value"] for one in tree["statements"][0]["named_param_map"]), default=0)
    connection.close()


TREES = list(trees())


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


def let_through(tree: dict[str, Any], parameters: int) -> bool:
    try:
        passed(Told(tree), "SELECT", parameters)  # type: ignore[arg-type]
    except Refused:
        return False
    return True


def test_the_trees_pass_as_they_are() -> None:
    assert all(let_through(tree, parameters) for _, tree, parameters in TREES)


@pytest.mark.parametrize("member", ["new_clause", "subquery_of_tomorrow"])
def test_a_member_that_is_not_known_is_refused_wherever_it_stands(member: str) -> None:
    for sql, tree, parameters in TREES:
        for at, found in enumerate(objects(tree)):
            if not {"type", "class", "node"} & set(found) or isinstance(found.get("type"), dict):
                continue
            changed = copy.deepcopy(tree)
            list(objects(changed))[at][member] = {"type": "SELECT_NODE"}
            assert not let_through(changed, parameters), (sql, found)


@pytest.mark.parametrize("member", ["type", "class"])
def test_a_kind_that_is_not_known_is_refused_wherever_it_stands(member: str) -> None:
    for sql, tree, parameters in TREES:
        for at, found in enumerate(objects(tree)):
            if not isinstance(found.get(member), str):
                continue
            changed = copy.deepcopy(tree)
            list(objects(changed))[at][member] = "KIND_OF_TOMORROW"
            assert not let_through(changed, parameters), (sql, found)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_tree_with_anything_in_the_place_of_a_member_passes_or_is_refused(data: st.DataObject) -> None:
    """Nothing but a refusal comes of a tree that no version writes."""
    _, tree, parameters = data.draw(st.sampled_from(TREES))
    changed = copy.deepcopy(tree)
    found = data.draw(st.sampled_from([one for one in objects(changed["statements"][0]) if one]))
    member = data.draw(st.sampled_from(sorted(found)))
    found[member] = data.draw(
        st.sampled_from([None, 7, "x", [], {}, [7], [None], {"type": 7}, {"class": []}])
    )
    let_through(changed, parameters)


def test_every_function_of_the_list_is_one_that_the_engine_has() -> None:
    connection = duckdb.connect()
    names = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    connection.close()
    known = {name.lower() for (name,) in names}
    spelled = {"->", "coalesce"}
    assert (FUNCTIONS | WINDOWS | TABLE_FUNCTIONS) - known - spelled == set()


def test_no_function_of_the_list_tells_of_the_process_or_runs_text() -> None:
    forbidden = (
        "current_", "duckdb_", "pragma", "read_", "write", "getenv", "getvariable", "setting", "query",
        "serialize", "deserialize", "nextval", "currval", "setval", "setseed", "sleep", "glob", "sniff",
        "scan", "secret", "parse_", "path_", "pg_", "has_", "inet", "txid", "version", "log_", "execute",
        "aggregate", "list_aggr", "array_aggr", "invoke", "error", "stats", "vector_type", "__internal",
    )  # fmt: skip
    excused = {
        "uuid_extract_version",
        "json_extract_path_text",
        "pg_typeof",
        "get_current_time",
        "get_current_timestamp",
    }
    names = (FUNCTIONS | WINDOWS | TABLE_FUNCTIONS) - excused
    excused_prefixes = ("list_has_", "array_has_", "map_", "struct_has", "list_has", "array_has")
    told = {
        name for name in names for word in forbidden if word in name and not name.startswith(excused_prefixes)
    }
    assert told == set()


@pytest.mark.parametrize(
    ("sql", "offset", "told"),
    [
        ("SELECT x", 7, "line 1, column 8: "),
        ("SELECT\n x", 8, "line 2, column 2: "),
        ("SELECT 'é', x", 13, "line 1, column 13: "),
        ("SELECT x", None, ""),
        ("SELECT x", 999, ""),
    ],
)
def test_a_place_counts_characters_and_lines_from_one(sql: str, offset: int | None, told: str) -> None:
    assert place(sql, offset) == told
