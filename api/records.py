"""Storing verifies after they were answered: kept on disk until the database has them.

An answer leaves first. Then its record goes to the database at once; when that takes longer than
a moment, or fails, the record is written to a folder of this process's disk and tried again until
it succeeds, also after a restart. What a crash can lose is the record of an answer given in the
last instants, never an answer promised as stored.
"""

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from store.caller import Tenant
from store.database import Database
from store.executions import Executions, NewExecution
from wyrd.wire.canonical import strict_loads
from wyrd.wire.verification import ExecutionStatus

_PATIENCE_SECONDS = 0.25
_RETRY_SECONDS = 2.0

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


class VerifyRecords:
    """One process's records under way. `folder` must outlive the process."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._under_way: set[asyncio.Task[None]] = set()
        self._again: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take up what an earlier process left."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._left():
            self._try_again()

    async def close(self) -> None:
        """Wait for what is under way; what the database does not take stays on disk."""
        if self._under_way:
            await asyncio.gather(*self._under_way, return_exceptions=True)
        if self._again is not None:
            self._again.cancel()

    def keep(self, ended: EndedExecution) -> None:
        """Store it, soon and surely; returns at once."""
        task = asyncio.create_task(self._store(ended))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def settled(self) -> None:
        """Wait until nothing is under way and nothing is left on disk (for tests and shutdown)."""
        while self._under_way or self._left():
            if self._under_way:
                await asyncio.gather(*self._under_way, return_exceptions=True)
            else:
                await asyncio.wait([self._try_again()])

    async def _store(self, ended: EndedExecution) -> None:
        storing = asyncio.ensure_future(self._database.write(_record, ended))
        try:
            await asyncio.wait_for(asyncio.shield(storing), _PATIENCE_SECONDS)
            return
        except Exception as error:
            if not isinstance(error, TimeoutError):
                _log.warning("storing execution %s failed (%s); it is kept", ended.new.execution_id, error)
        path = self._folder / f"{ended.new.execution_id}.json"
        await asyncio.to_thread(_write_durably, path, _text(ended))
        try:
            await storing
            path.unlink(missing_ok=True)
        except Exception:
            self._try_again()

    def _try_again(self) -> asyncio.Task[None]:
        if self._again is None or self._again.done():
            self._again = asyncio.create_task(self._drain())
        return self._again

    async def _drain(self) -> None:
        while left := self._left():
            stored = [await self._drained(path) for path in left]
            if not all(stored):
                await asyncio.sleep(_RETRY_SECONDS)

    async def _drained(self, path: Path) -> bool:
        """Store one record from disk. One that cannot be stored stays, and keeps no other one waiting."""
        try:
            ended = _of_text(await asyncio.to_thread(path.read_bytes))
            await self._database.write(_record, ended)
        except FileNotFoundError:
            return True
        except Exception as error:
            _log.warning("execution %s is still not stored: %s", path.stem, error)
            return False
        await asyncio.to_thread(path.unlink, missing_ok=True)
        return True

    def _left(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))


def _record(connection: Connection, ended: EndedExecution) -> None:
    code, message = ended.error or (None, None)
    Executions(connection, ended.tenant).record_whole(
        ended.new,
        status=ended.status,
        started_at=ended.new.created_at,
        ended_at=ended.ended_at,
        verdict=ended.verdict,
        result=ended.result,
        error_code=code,
        error_message=message,
    )


def _write_durably(path: Path, text: str) -> None:
    partial = path.with_suffix(".part")
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _text(ended: EndedExecution) -> str:
    document = asdict(ended)
    document["new"]["created_at"] = ended.new.created_at.isoformat()
    document["ended_at"] = ended.ended_at.isoformat()
    return json.dumps(document)


def _of_text(text: bytes) -> EndedExecution:
    document: Mapping[str, Any] = strict_loads(text)
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
    )
