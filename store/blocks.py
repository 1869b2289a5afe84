"""The recorded ends of an execution's blocks: each is recorded once, and the first one stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, literal, select

from store.caller import Tenant
from store.database import insert_or_nothing, utc_now
from store.tables.executions import execution_blocks, executions


@dataclass(frozen=True)
class BlockEnd:
    """The recorded end of one block: its letter, its JSON document, and a step's output.

    A small output is kept as JSON text, a large one in the blob store; the digest is there for both.
    """

    block: int
    letter: str
    document: str
    output: str | None = None
    output_sha256: str | None = None


class Blocks:
    """The blocks of one execution of a tenant, over one connection."""

    def __init__(self, connection: Connection, tenant: Tenant, execution_id: str) -> None:
        self._connection = connection
        self._tenant = tenant
        self._execution_id = execution_id
        self._mine = (
            execution_blocks.c.tenant_id == tenant.id,
            execution_blocks.c.execution_id == execution_id,
        )

    def save(self, end: BlockEnd) -> BlockEnd:
        """Record a block's end; when one is recorded already, that one stands and is returned.

        Nothing is added to an execution that has ended: its evidence may have been dropped.
        """
        # Shared, so that an end which is being written comes entirely before or after.
        is_open = select(literal(1)).where(
            executions.c.tenant_id == self._tenant.id,
            executions.c.execution_id == self._execution_id,
            executions.c.ended_at.is_(None),
        )
        if self._connection.execute(is_open.with_for_update(read=True)).first() is None:
            return self.find(end.block) or end
        values = {
            "tenant_id": self._tenant.id,
            "execution_id": self._execution_id,
            "block": end.block,
            "letter": end.letter,
            "document": end.document,
            "output": end.output,
            "output_sha256": end.output_sha256,
            "recorded_at": utc_now(),
        }
        done = self._connection.execute(
            insert_or_nothing(self._connection, execution_blocks).values(**values)
        )
        if done.rowcount:
            return end
        found = self.find(end.block)
        assert found is not None
        return found

    def find(self, block: int) -> BlockEnd | None:
        return self.all([block]).get(block)

    def all(self, only: Sequence[int] | None = None) -> dict[int, BlockEnd]:
        """The recorded ends by block; `only` those blocks."""
        statement = select(execution_blocks).where(*self._mine)
        if only is not None:
            statement = statement.where(execution_blocks.c.block.in_(only))
        return {row.block: _block_end(row) for row in self._connection.execute(statement)}

    def drop(self) -> None:
        """Forget them all, with what they put out."""
        self._connection.execute(execution_blocks.delete().where(*self._mine))


def _block_end(row: Row[Any]) -> BlockEnd:
    return BlockEnd(row.block, row.letter, row.document, row.output, row.output_sha256)
