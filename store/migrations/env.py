"""What Alembic runs around a revision: always on the connection `store.schema` opened."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext

from store.schema import load_tables
from store.tables.metadata import Document, Instant, metadata


def _render(kind: str, item: Any, _context: AutogenContext) -> str | Literal[False]:
    """The project's own column types by their names; everything else as Alembic writes it."""
    if kind == "type" and isinstance(item, Instant):
        return "Instant()"
    if kind == "type" and item is Document:
        return "Document"
    return False


load_tables()
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
    # Both databases change their schema inside a transaction; Alembic assumes SQLite cannot.
    transactional_ddl=True,
    render_item=_render,
)
with context.begin_transaction():
    context.run_migrations()
