"""Where block ends are kept: in memory for a verify, in SQL and blobs for a submit, to the same effect."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, update

from activities.ledger import INLINE_OUTPUT, Ledger, MemoryLedger, SqlLedger
from engine.ends import BlockDocument
from engine.failure import BlockFailure, ReasonKind
from store.blobs.local import LocalBlobs
from store.caller import Tenant
from store.database import Database
from store.executions import Executions, NewExecution
from store.tables.executions import execution_blocks
from wyrd.wire.canonical import sha256_hex
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import ExecutionStatus

STEPS = 2
BIG = ["x" * INLINE_OUTPUT]


async def sql_ledger(
    database: Database, blobs: LocalBlobs, tenant: Tenant, *, keep_outputs: bool = True
) -> SqlLedger:
    row = NewExecution(
        execution_id=uuid7(),
        source="submit",
        verifier_uid=uuid7(),
        verifier="support/Verifier/rule@1.0.0",
        subject_uid=uuid7(),
        subject="support/Agent/desk@1.0.0",
        owner_uid=None,
        owner=None,
        binding_id=None,
        principal_id=None,
        run_id=None,
        group_id=None,
        inputs="{}",
        timeout_seconds=60.0,
        created_at=datetime.now(UTC),
    )

    def accept(connection: Connection) -> None:
        Executions(connection, tenant).accept(row)

    await database.write(accept)
    return SqlLedger(database, blobs, tenant, row.execution_id, STEPS, keep_outputs)


@pytest.fixture(params=["memory", "sql"])
async def ledger(
    request: pytest.FixtureRequest, database: Database, local_blobs: LocalBlobs, tenant: Tenant
) -> Ledger:
    if request.param == "memory":
        return MemoryLedger(STEPS)
    return await sql_ledger(database, local_blobs, tenant)


def step(block: int, output: Any, letter: str = "s") -> BlockDocument:
    return BlockDocument(block, letter, {"attempts": 1}, output, letter == "s")


@pytest.mark.parametrize(
    "output", [None, False, "text\0", {"a": [1.5, 10**4000]}, BIG, "\N{GRINNING FACE}", [[[]]] * 3]
)
async def test_an_output_reads_as_it_was_put_out(ledger: Ledger, output: Any) -> None:
    assert await ledger.save([step(0, output), step(1, None, "f")]) == ["s", "f"]
    assert await ledger.outputs([0, 1]) == {0: output}, "a failed step has none, not null"
    assert await ledger.find(0) == "s"


async def test_the_first_end_of_a_block_stands(ledger: Ledger) -> None:
    assert await ledger.save([step(0, 1)]) == ["s"]
    assert await ledger.save([step(0, 2), step(1, None, "f")]) == ["s", "f"]
    assert await ledger.outputs([0]) == {0: 1}


async def test_reasons_are_read_by_requirement_however_deep_what_was_judged(ledger: Ledger) -> None:
    actual: Any = "bottom"
    for _ in range(64):
        actual = [actual]
    await ledger.save([BlockDocument(STEPS + 1, "p", {"reason": "it is", "actual": actual})])
    assert await ledger.reasons([0, 1]) == {1: "it is"}
    assert (await ledger.ends())[STEPS + 1].document["actual"] == actual


async def test_nothing_asked_for_is_nothing_read(ledger: Ledger) -> None:
    await ledger.save([step(0, 1)])
    assert await ledger.outputs([]) == {}
    assert await ledger.reasons([]) == {}
    assert await ledger.find(1) is None


class TestInSql:
    async def test_a_large_output_is_a_blob_and_its_end_says_which(
        self, sqlite_database: Database, local_blobs: LocalBlobs, tenant: Tenant
    ) -> None:
        ledger = await sql_ledger(sqlite_database, local_blobs, tenant)
        await ledger.save([step(0, BIG)])
        end = (await ledger.ends())[0]
        text = json.dumps(BIG, separators=(",", ":")).encode()
        assert (end.has_output, end.document["output_sha256"], end.document["output_bytes"]) == (
            False,
            sha256_hex(text),
            len(text),
        )
        assert await local_blobs.get(tenant, sha256_hex(text)) == text

    async def test_what_may_not_be_kept_never_becomes_a_blob(
        self, sqlite_database: Database, local_blobs: LocalBlobs, tenant: Tenant
    ) -> None:
        ledger = await sql_ledger(sqlite_database, local_blobs, tenant, keep_outputs=False)
        await ledger.save([step(0, BIG)])
        assert await ledger.outputs([0]) == {0: BIG}
        assert not [path for path in local_blobs.root.rglob("*") if path.is_file()]

    @pytest.mark.parametrize("damage", ["gone", "changed"])
    async def test_a_lost_or_damaged_output_cannot_be_read_and_nothing_hangs(
        self, sqlite_database: Database, local_blobs: LocalBlobs, tenant: Tenant, damage: str
    ) -> None:
        ledger = await sql_ledger(sqlite_database, local_blobs, tenant)
        await ledger.save([step(0, BIG)])
        (path,) = [path for path in local_blobs.root.rglob("*") if path.is_file()]
        path.chmod(0o600)
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes().replace(b"x", b"y"))
        found = (await ledger.outputs([0]))[0]
        kinds = {"gone": ReasonKind.EVIDENCE_UNREADABLE, "changed": ReasonKind.DIGEST_MISMATCH}
        assert isinstance(found, BlockFailure)
        assert found.kind is kinds[damage]

    async def test_half_a_surrogate_pair_in_a_models_words_is_no_fault_of_the_database(
        self, database: Database, local_blobs: LocalBlobs, tenant: Tenant
    ) -> None:
        ledger = await sql_ledger(database, local_blobs, tenant)
        await ledger.save([BlockDocument(STEPS, "i", {"reason": "no", "detail": {"reply": "half \ud83d"}})])
        assert (await ledger.ends())[STEPS].document["detail"] == {"reply": "half ?"}

    @pytest.mark.parametrize("output", [float("nan"), "half \ud83d", {1, 2}])
    async def test_what_is_not_json_fails_its_step(
        self, sqlite_database: Database, local_blobs: LocalBlobs, tenant: Tenant, output: Any
    ) -> None:
        ledger = await sql_ledger(sqlite_database, local_blobs, tenant)
        with pytest.raises(BlockFailure) as failed:
            await ledger.save([step(0, output)])
        assert failed.value.kind is ReasonKind.CODE_FAILED
        assert await ledger.find(0) is None

    async def test_ends_of_another_tenant_do_not_exist(
        self, sqlite_database: Database, local_blobs: LocalBlobs, tenant: Tenant, other_tenant: Tenant
    ) -> None:
        ledger = await sql_ledger(sqlite_database, local_blobs, tenant)
        await ledger.save([step(0, "secret")])

        def stolen(connection: Connection) -> None:
            connection.execute(update(execution_blocks).values(tenant_id=other_tenant.id))

        await sqlite_database.write(stolen)
        assert await ledger.ends() == {}


async def test_the_document_a_trace_slot_is_pinned_to_first_stands(
    ledger: Ledger, local_blobs: LocalBlobs, tenant: Tenant
) -> None:
    first, later = b'{"spans":[1]}', b'{"spans":[1,2]}'
    for data in (first, later):
        await local_blobs.put(tenant, data)
    assert await ledger.pinned(0) is None
    assert await ledger.pin(0, first) == {"spans": [1]}
    assert await ledger.pin(0, later) == {"spans": [1]}
    assert await ledger.pinned(0) == {"spans": [1]}
    assert await ledger.pinned(1) is None


async def test_a_trace_pinned_as_missing_stays_missing(
    ledger: Ledger, local_blobs: LocalBlobs, tenant: Tenant
) -> None:
    missing = BlockFailure(ReasonKind.MISSING_EVIDENCE, "no span of it is recorded")
    await ledger.pin(2, missing)
    await local_blobs.put(tenant, b"{}")
    for standing in (await ledger.pin(2, b"{}"), await ledger.pinned(2)):
        assert (standing.kind, standing.reason) == (missing.kind, missing.reason)


async def test_pins_are_no_ends_of_blocks(ledger: Ledger) -> None:
    await ledger.pin(0, BlockFailure(ReasonKind.MISSING_EVIDENCE, "no span of it is recorded"))
    await ledger.save([BlockDocument(0, "s", {"attempts": []}, 1, True)])
    assert list(await ledger.ends()) == [0]


async def test_a_pinned_document_that_may_not_be_kept_is_in_its_row_and_goes_with_the_end(
    database: Database, local_blobs: LocalBlobs, tenant: Tenant
) -> None:
    ledger = await sql_ledger(database, local_blobs, tenant, keep_outputs=False)
    data = b'{"spans":[]}'
    assert await ledger.pin(0, data) == {"spans": []}
    assert await ledger.pinned(0) == {"spans": []}
    assert await local_blobs.size(tenant, sha256_hex(data)) is None

    def end(connection: Connection) -> None:
        Executions(connection, tenant).end(
            ledger.execution_id, ExecutionStatus.CANCELLED, None, None, kept="{}"
        )

    await database.write(end)
    assert await ledger.pinned(0) is None
