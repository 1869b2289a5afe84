"""Storing verifies after they were answered: on local disk at once, in the database soon after.

An answer leaves first. Its record is then appended to a file of this process's disk and synced;
records that have gathered there go to the database together, because a transaction for each
would cost every request more than judging it does. A record leaves the disk only when the
database has it, also after a restart. What a crash can lose is the record of an answer given in
the few milliseconds before the sync.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from api.problems import json_bytes
from api.spool import Segment, left_behind, read_lines
from bifrost.verifications import EndedVerification
from store.caller import Tenant
from store.database import Database
from store.executions import EndedRow, NewExecution, record_ended
from store.groups import GroupBinding
from wyrd.wire.canonical import JsonRefused, strict_loads
from wyrd.wire.refs import CardRef
from wyrd.wire.verification import ExecutionStatus

SYNC_SECONDS = 0.005
"""How long records gather in memory before they are synced to disk together. A sync right after each
answer would hold up the next request on the same connection for as long as judging it takes."""

GATHER_SECONDS = 0.25
"""How long records gather on disk before they go to the database together."""

_RETRY_SECONDS = 2.0
_DEPTH = 1100

_log = logging.getLogger("wyrd.api")


@dataclass(frozen=True)
class EndedExecution:
    """A verify that has ended. `result` is JSON text where it completed; `error` is (code, message)."""

    tenant: Tenant
    new: NewExecution
    status: ExecutionStatus
    ended_at: datetime
    verdict: str | None = None
    result: str | None = None
    error: tuple[str, str] | None = None
    groups: tuple[GroupBinding, ...] = ()


class VerifyRecords:
    """One process's records under way. `folder` must outlive the process."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._fresh: list[EndedExecution] = []
        self._synced: list[EndedExecution] = []
        self._segment: Segment | None = None
        self._disk = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None
        self._storing: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def open(self) -> None:
        """Take up what an earlier process left."""
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True, mode=0o700)
        if await self._left():
            self._store_soon()

    async def close(self) -> None:
        """Store what there is; what the database does not take stays on disk."""
        self._stopping.set()
        while self._writing is not None and not self._writing.done():
            await self._writing
        if self._storing is not None:
            await self._storing
        if self._segment is not None:
            self._segment.leave()

    def keep(self, ended: EndedExecution) -> None:
        """Store it, soon and surely; returns at once."""
        self._fresh.append(ended)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def settled(self) -> None:
        """Wait until the database has everything (for tests)."""
        while True:
            if self._writing is not None:
                await self._writing
            await self._store_soon()
            if not (self._fresh or self._synced or await self._left()):
                return

    async def _write(self) -> None:
        """Sync what is fresh to disk; what comes meanwhile goes with the next sync."""
        while self._fresh:
            await self._pause(SYNC_SECONDS)
            async with self._disk:
                fresh, self._fresh = self._fresh, []
                try:
                    await asyncio.to_thread(self._append, fresh)
                except OSError as error:
                    _log.error(
                        "%s verifies are in memory alone, the disk refuses them: %s", len(fresh), error
                    )
                    if self._segment is not None:
                        await asyncio.to_thread(self._segment.leave)
                        self._segment = None
                self._synced += fresh
            self._store_soon()

    def _append(self, fresh: Sequence[EndedExecution]) -> None:
        if self._segment is None:
            self._segment = Segment(self._folder)
        self._segment.append([_line(ended) for ended in fresh])

    def _store_soon(self) -> asyncio.Task[None]:
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._store())
        return self._storing

    async def _store(self) -> None:
        """Move everything on disk to the database, for as long as that takes."""
        while True:
            await self._pause(GATHER_SECONDS)
            stored = [await self._store_synced()]
            stored += [await self._store_left(path) for path in await self._left()]
            if not all(stored):
                if self._stopping.is_set():
                    return
                await self._pause(_RETRY_SECONDS)
            elif not self._synced:
                return

    async def _store_synced(self) -> bool:
        """Store this process's own records from memory; where that fails they stay, if need be there."""
        # A sync under way adds to the segment that is taken here. Waiting for that one alone, and not
        # until nothing is fresh, is what lets records leave the disk while verifies keep coming.
        async with self._disk:
            synced, self._synced = self._synced, []
            segment, self._segment = self._segment, None
        if not synced:
            return True
        try:
            rows = await asyncio.to_thread(_rows, synced)
            await self._database.write(record_ended, rows)
        except Exception as error:
            _log.warning("storing %s verifies failed and is tried again: %s", len(synced), error)
            if segment is None:
                self._synced = [*synced, *self._synced]
            else:
                await asyncio.to_thread(segment.leave)
            return False
        if segment is not None:
            await asyncio.to_thread(segment.remove)
        return True

    async def _left(self) -> list[Path]:
        return await asyncio.to_thread(lambda: left_behind(self._folder))

    async def _store_left(self, path: Path) -> bool:
        """Store a file's records one by one: one that cannot be stored keeps no other one waiting."""
        stored = True
        for line in await asyncio.to_thread(read_lines, path):
            try:
                await self._database.write(record_ended, await asyncio.to_thread(_rows, [_of_line(line)]))
            except Exception as error:
                _log.warning("a verify in %s is still not stored: %s", path, error)
                stored = False
        if stored:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        return stored

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the process stops."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return


def _rows(ended: Sequence[EndedExecution]) -> list[EndedRow]:
    """The rows to store. Large documents are read and written here, outside the database's one writer."""
    return [_row(one) for one in ended]


def _row(ended: EndedExecution) -> EndedRow:
    code, message = ended.error or (None, None)
    return EndedRow(
        ended.tenant,
        ended.new,
        ended.status,
        ended.ended_at,
        ended.verdict,
        ended.result,
        code,
        message,
        _verification(ended).batches(),
        ended.groups,
    )


def _verification(ended: EndedExecution) -> EndedVerification:
    new = ended.new
    outcome = None if ended.result is None else _document(ended.result)["outcome"]
    return EndedVerification(
        execution_id=new.execution_id,
        verifier=CardRef.parse(f"{new.verifier}#{new.verifier_uid}"),
        subject=CardRef.parse(f"{new.subject}#{new.subject_uid}"),
        owner=None if new.owner is None else CardRef.parse(f"{new.owner}#{new.owner_uid}"),
        source=new.source,
        principal_id=new.principal_id,
        binding_id=new.binding_id,
        run_id=new.run_id,
        group_id=new.group_id,
        session_id=new.session_id,
        workflow_id=None,
        started_at=new.created_at,
        ended_at=ended.ended_at,
        inputs=_document(new.inputs),
        outcome=outcome,
    )


def _document(text: str) -> Any:
    return strict_loads(text, max_depth=_DEPTH)


def _line(ended: EndedExecution) -> bytes:
    document = asdict(ended)
    document["new"]["created_at"] = ended.new.created_at.isoformat()
    document["ended_at"] = ended.ended_at.isoformat()
    return json_bytes(document)


def _of_line(line: bytes) -> EndedExecution:
    """Raises ValueError for what is no record."""
    try:
        document: Mapping[str, Any] = strict_loads(line, max_depth=_DEPTH)
    except JsonRefused as refused:
        raise ValueError(refused.reason) from None
    new = dict(document["new"])
    new["created_at"] = datetime.fromisoformat(new["created_at"])
    return EndedExecution(
        tenant=Tenant(**document["tenant"]),
        new=NewExecution(**new),
        status=ExecutionStatus(document["status"]),
        ended_at=datetime.fromisoformat(document["ended_at"]),
        verdict=document["verdict"],
        result=document["result"],
        error=None if document["error"] is None else tuple(document["error"]),
        groups=tuple(GroupBinding(**one) for one in document.get("groups", ())),
    )
