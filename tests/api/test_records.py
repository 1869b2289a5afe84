"""Verifies that were answered are stored surely: through a failing database, a crash, a full disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from api import records as records_module
from api.records import EndedExecution, VerifyRecords
from api.spool import Segment, left_behind
from store.caller import Tenant
from store.database import Database, utc_now
from store.executions import NewExecution
from store.tables.executions import executions
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionStatus


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(records_module, "_RETRY_SECONDS", 0.01)


def ended(tenant: Tenant, value: Any = "é\u2028") -> EndedExecution:
    now = utc_now()
    new = NewExecution(
        execution_id=uuid7(),
        source="verify",
        verifier_uid=uuid7(),
        verifier="tests/Verifier/rule@1.0.0",
        subject_uid=uuid7(),
        subject="tests/Service/desk@1.0.0",
        owner_uid=None,
        owner=None,
        binding_id=None,
        principal_id=None,
        run_id=None,
        group_id=None,
        inputs=json.dumps({"a": {"kind": "json", "value": value}}),
        timeout_seconds=60.0,
        created_at=now,
    )
    outcome = {"verdict": "passed", "requirements": [], "steps": [], "evidence_digests": {"a": "0" * 64}}
    result = json.dumps({"outcome": {**outcome, "reason": value}})
    return EndedExecution(tenant, new, ExecutionStatus.COMPLETED, now, "passed", result)


async def stored(database: Database) -> set[str]:
    def work(connection: Any) -> set[str]:
        return set(connection.execute(select(executions.c.execution_id)).scalars())

    return await database.read(work)


def failing(database: Database, monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """The database refuses that many writes; the list counts them."""
    original = database.write
    refused: list[int] = []

    async def write(work: Callable[..., Any], *arguments: Any) -> Any:
        if len(refused) < times:
            refused.append(1)
            raise WyrdError(Code.SERVER_503_SERVICE_UNAVAILABLE, "away")
        return await original(work, *arguments)

    monkeypatch.setattr(database, "write", write)
    return refused


async def test_what_is_kept_reaches_the_database_and_leaves_the_disk(
    sqlite_database: Database, tenant: Tenant, tmp_path: Path
) -> None:
    records = VerifyRecords(sqlite_database, tmp_path / "unstored")
    await records.open()
    kept = [ended(tenant) for _ in range(25)]
    for one in kept:
        records.keep(one)
    await records.settled()
    assert await stored(sqlite_database) == {one.new.execution_id for one in kept}
    assert list((tmp_path / "unstored").iterdir()) == []
    await records.close()


async def test_a_database_that_is_away_loses_nothing(
    sqlite_database: Database, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = failing(sqlite_database, monkeypatch, 5)
    records = VerifyRecords(sqlite_database, tmp_path)
    await records.open()
    one = ended(tenant)
    records.keep(one)
    await records.settled()
    assert len(refused) == 5
    assert await stored(sqlite_database) == {one.new.execution_id}
    await records.close()


async def test_closing_while_the_database_is_away_leaves_the_record_to_the_next_process(
    sqlite_database: Database, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        failing(sqlite_database, patch, 1000)
        first = VerifyRecords(sqlite_database, tmp_path)
        await first.open()
        one = ended(tenant)
        first.keep(one)
        await first.close()
    assert len(left_behind(tmp_path)) == 1
    second = VerifyRecords(sqlite_database, tmp_path)
    await second.open()
    await second.settled()
    assert await stored(sqlite_database) == {one.new.execution_id}
    await second.close()


async def test_a_line_that_a_crash_cut_off_keeps_no_other_one_waiting(
    sqlite_database: Database, tenant: Tenant, tmp_path: Path
) -> None:
    one = ended(tenant)
    crashed = Segment(tmp_path)
    crashed.append([records_module._line(one)])
    crashed.path.write_bytes(crashed.path.read_bytes() + records_module._line(ended(tenant))[:40])
    crashed.leave()
    records = VerifyRecords(sqlite_database, tmp_path)
    await records.open()
    await records.settled()
    assert await stored(sqlite_database) == {one.new.execution_id}
    assert left_behind(tmp_path) == []
    await records.close()


async def test_the_file_of_a_living_process_is_not_taken_from_it(tmp_path: Path) -> None:
    living = Segment(tmp_path)
    assert left_behind(tmp_path) == []
    living.leave()
    assert left_behind(tmp_path) == [living.path]


async def test_a_disk_that_refuses_keeps_the_record_in_memory_until_the_database_has_it(
    sqlite_database: Database, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Segment, lines: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Segment, "append", full)
    failing(sqlite_database, monkeypatch, 2)
    records = VerifyRecords(sqlite_database, tmp_path)
    await records.open()
    one = ended(tenant)
    records.keep(one)
    await records.settled()
    assert await stored(sqlite_database) == {one.new.execution_id}
    await records.close()


async def test_records_leave_the_disk_while_others_keep_coming(
    sqlite_database: Database, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load there is always something fresh; that must not keep the database waiting for ever."""
    monkeypatch.setattr(records_module, "GATHER_SECONDS", 0.0)
    records = VerifyRecords(sqlite_database, tmp_path)
    await records.open()
    loop, append, write = asyncio.get_running_loop(), Segment.append, sqlite_database.write
    syncs_before_storing: list[int] = []
    syncs = 0

    def loaded(self: Segment, lines: Any) -> None:
        nonlocal syncs
        append(self, lines)
        syncs += 1
        if not syncs_before_storing and syncs < 300:
            loop.call_soon_threadsafe(records.keep, ended(tenant))

    async def watched(*arguments: Any) -> Any:
        syncs_before_storing.append(syncs)
        return await write(*arguments)

    monkeypatch.setattr(Segment, "append", loaded)
    monkeypatch.setattr(sqlite_database, "write", watched)
    records.keep(ended(tenant))
    await records.settled()
    await records.close()
    assert syncs_before_storing[0] < 300
    assert len(await stored(sqlite_database)) == syncs
