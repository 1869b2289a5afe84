"""A Card's labels and annotations, as SQL that both databases run."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import literal
from sqlalchemy.sql.functions import FunctionElement

from store.tables.cards import cards


class tag_value(FunctionElement[str]):
    """The label or annotation of that key, or NULL.

    `group` is `labels` or `annotations`; `key` holds no quote and no backslash.
    """

    type = Text()
    inherit_cache = True

    def __init__(self, group: str, key: str) -> None:
        super().__init__(cards.c.descriptive, literal(group), literal(key), literal(f'$.{group}."{key}"'))


@compiles(tag_value, "sqlite")
def _sqlite(element: Any, compiler: SQLCompiler, **options: Any) -> str:
    document, _, _, path = (compiler.process(part, **options) for part in element.clauses)
    return f"json_extract({document}, {path})"


@compiles(tag_value, "postgresql")
def _postgresql(element: Any, compiler: SQLCompiler, **options: Any) -> str:
    document, group, key, _ = (compiler.process(part, **options) for part in element.clauses)
    # PostgreSQL cannot make text of an escaped NUL, and an annotation may hold one.
    readable = f"replace({document}, '\\u0000', '\\ufffd')"
    return f'(CAST({readable} AS json) -> CAST({group} AS text) ->> CAST({key} AS text)) COLLATE "C"'
