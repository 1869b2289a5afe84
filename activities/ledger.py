"""Where the ends of an execution's blocks are kept while it runs: in memory, or in SQL.

A verify keeps them in the request; an execution on Temporal keeps them in the database, so that
any worker can go on. The first recorded end of a block stands: an attempt that ran twice
because its worker died in between never changes what was found.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection

from engine.ends import BlockDocument
from engine.failure import BlockFailure, ReasonKind
from store.blobs import BlobStore, DigestMismatch
from store.blocks import BlockEnd, Blocks
from store.caller import Tenant
from store.database import Database
from wyrd.errors import WyrdError
from wyrd.wire.canonical import sha256_hex, strict_loads

INLINE_OUTPUT = 16 * 1024
"""Bytes of JSON up to which an output is kept beside its block; larger ones go to the blob store."""

LARGEST_OUTPUT = 64 * 1024 * 1024
_DEPTH = 1000

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class Ledger(Protocol):
    async def outputs(self, steps: Collection[int]) -> dict[int, Any]:
        """The outputs of those steps that succeeded; a `BlockFailure` for one that is gone or damaged."""
        ...

    async def reasons(self, requirements: Collection[int]) -> dict[int, str]:
        """The reasons of those requirements (by number) that ran."""
        ...

    async def find(self, block: int) -> str | None:
        """The letter of a block that has ended."""
        ...

    async def save(self, ends: Collection[BlockDocument]) -> list[str]:
        """Record ends; the letters that stand."""
        ...

    async def ends(self) -> dict[int, BlockDocument]:
        """Every recorded end, outputs included while they are small."""
        ...

    async def pinned(self, slot: int) -> Any:
        """What the trace slot of that number (its place among the inputs) is pinned to: a document, or the
        `BlockFailure` that says why it cannot be read; None while it is not pinned."""
        ...

    async def pin(self, slot: int, found: bytes | BlockFailure) -> Any:
        """Pin a trace slot to a document (canonical JSON) or a failure; what stands, as `pinned` says it."""
        ...


class MemoryLedger:
    """The ledger of a verify."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._ends: dict[int, BlockDocument] = {}
        self._pins: dict[int, Any] = {}

    async def outputs(self, steps: Collection[int]) -> dict[int, Any]:
        return {
            step: self._ends[step].output
            for step in steps
            if step in self._ends and self._ends[step].has_output
        }

    async def reasons(self, requirements: Collection[int]) -> dict[int, str]:
        found = {number: self._ends.get(self._steps + number) for number in requirements}
        return {number: end.document["reason"] for number, end in found.items() if end is not None}

    async def find(self, block: int) -> str | None:
        end = self._ends.get(block)
        return None if end is None else end.letter

    async def save(self, ends: Collection[BlockDocument]) -> list[str]:
        return [self._ends.setdefault(end.block, end).letter for end in ends]

    async def ends(self) -> dict[int, BlockDocument]:
        return self._ends

    async def pinned(self, slot: int) -> Any:
        return self._pins.get(slot)

    async def pin(self, slot: int, found: bytes | BlockFailure) -> Any:
        document = found if isinstance(found, BlockFailure) else await _parsed(found)
        return self._pins.setdefault(slot, document)


@dataclass(frozen=True)
class SqlLedger:
    """The ledger of an execution on Temporal. With `keep_outputs` off (context capture other than
    full) outputs never reach the blob store, and the record of the result removes them."""

    database: Database
    blobs: BlobStore
    tenant: Tenant
    execution_id: str
    steps: int
    keep_outputs: bool

    async def outputs(self, steps: Collection[int]) -> dict[int, Any]:
        rows = await self._read(sorted(steps))
        found = {}
        for block, row in rows.items():
            if row.output is not None:
                found[block] = strict_loads(row.output, max_depth=_DEPTH)
            elif row.output_sha256 is not None:
                found[block] = await self._fetched(row.output_sha256)
        return found

    async def _fetched(self, sha256: str) -> Any:
        try:
            data = await self.blobs.get(self.tenant, sha256, limit=LARGEST_OUTPUT)
        except DigestMismatch as error:
            return BlockFailure(ReasonKind.DIGEST_MISMATCH, error.detail)
        except WyrdError as error:
            if error.status >= 500:
                raise
            return BlockFailure(ReasonKind.EVIDENCE_UNREADABLE, error.detail)
        return await _parsed(data)

    async def reasons(self, requirements: Collection[int]) -> dict[int, str]:
        rows = await self._read([self.steps + number for number in sorted(requirements)])
        return {
            block - self.steps: strict_loads(row.document, max_depth=_DEPTH)["reason"]
            for block, row in rows.items()
        }

    async def find(self, block: int) -> str | None:
        rows = await self._read([block])
        return rows[block].letter if block in rows else None

    async def save(self, ends: Collection[BlockDocument]) -> list[str]:
        rows = [await self._row(end) for end in ends]

        def work(connection: Connection) -> list[str]:
            blocks = Blocks(connection, self.tenant, self.execution_id)
            return [blocks.save(row).letter for row in rows]

        return await self.database.write(work)

    async def ends(self) -> dict[int, BlockDocument]:
        rows = await self._read(None)
        return {block: _document(row) for block, row in rows.items() if block >= 0}

    async def pinned(self, slot: int) -> Any:
        number = _pin_number(slot)
        row = (await self._read([number])).get(number)
        return None if row is None else await self._pin_of(row)

    async def pin(self, slot: int, found: bytes | BlockFailure) -> Any:
        """With `keep_outputs` the document is in the blob store already; else it is kept in its row, which
        goes when the execution ends."""
        number = _pin_number(slot)
        if isinstance(found, BlockFailure):
            row = BlockEnd(number, "f", _text({"kind": found.kind.value, "reason": found.reason}))
        else:
            kept = None if self.keep_outputs else found.decode("utf-8")
            row = BlockEnd(number, "s", "{}", kept, sha256_hex(found))

        def work(connection: Connection) -> BlockEnd:
            return Blocks(connection, self.tenant, self.execution_id).save(row)

        standing = await self.database.write(work)
        if standing.letter == row.letter and standing.output_sha256 == row.output_sha256:
            return found if isinstance(found, BlockFailure) else await _parsed(found)
        return await self._pin_of(standing)

    async def _pin_of(self, row: BlockEnd) -> Any:
        if row.output is not None:
            return await _parsed(row.output.encode("utf-8"))
        if row.output_sha256 is not None:
            return await self._fetched(row.output_sha256)
        document = strict_loads(row.document)
        return BlockFailure(ReasonKind(document["kind"]), document["reason"])

    async def _read(self, blocks: list[int] | None) -> dict[int, BlockEnd]:
        if blocks == []:
            return {}

        def work(connection: Connection) -> dict[int, BlockEnd]:
            return Blocks(connection, self.tenant, self.execution_id).all(blocks)

        return await self.database.read(work)

    async def _row(self, end: BlockDocument) -> BlockEnd:
        document = _text(end.document)
        if not end.has_output:
            return BlockEnd(end.block, end.letter, document)
        data = output_bytes(end.output)
        if len(data) <= INLINE_OUTPUT or not self.keep_outputs:
            return BlockEnd(end.block, end.letter, document, data.decode("utf-8"), sha256_hex(data))
        sha256 = await self.blobs.put(self.tenant, data)
        document = _text(end.document | {"output_sha256": sha256, "output_bytes": len(data)})
        return BlockEnd(end.block, end.letter, document, None, sha256)


def _pin_number(slot: int) -> int:
    """Pins stand among the blocks of an execution, below them: what is pinned first stands, like an end."""
    return -1 - slot


async def _parsed(data: bytes) -> Any:
    if len(data) <= INLINE_OUTPUT:
        return strict_loads(data, max_depth=_DEPTH)
    return await asyncio.to_thread(strict_loads, data, max_depth=_DEPTH)


def _text(document: Any) -> str:
    # A model's words may hold half a surrogate pair, which no database takes.
    return _COMPACT.encode(document).encode("utf-8", "replace").decode("utf-8")


def output_bytes(output: Any) -> bytes:
    """A step's output as canonical JSON. Raises `BlockFailure`: LIMIT_EXCEEDED over 64 MiB, CODE_FAILED
    for what is not JSON."""
    try:
        data = _COMPACT.encode(output).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise BlockFailure(
            ReasonKind.CODE_FAILED, f"the output is not JSON: {type(error).__name__}"
        ) from None
    if len(data) > LARGEST_OUTPUT:
        raise BlockFailure(
            ReasonKind.LIMIT_EXCEEDED, f"an output of {len(data)} bytes is over {LARGEST_OUTPUT}"
        )
    return data


def _document(row: BlockEnd) -> BlockDocument:
    document = strict_loads(row.document, max_depth=_DEPTH)
    if row.output is None:
        return BlockDocument(row.block, row.letter, document)
    return BlockDocument(row.block, row.letter, document, strict_loads(row.output, max_depth=_DEPTH), True)
