"""The page on other engines: its example reads what was published, without any part of Wyrd."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path

import orjson
import polars as pl
import pytest

from bifrost.names import VERIFICATION_RESULTS
from store.database import Database, utc_now
from store.outbox import Outbox
from store.tables.iceberg import iceberg_tables
from store.tenants import make_tenant
from tests.bifrost.conftest import bucket
from tests.bifrost.published import TICKETS, Desk
from tests.conftest import opened
from tests.docs.fences import ROOT, blocks
from tests.servers import S3Server

PAGE = ROOT / "docs/read-with-another-engine.md"


def _results(database: Database, home: Path, *verdicts: str) -> Desk:
    desk = Desk(database, home)
    desk.tenant = database.write_now(make_tenant, "local")
    now = utc_now().isoformat()
    texts = ("result_id", "execution_id", "verifier_uid", "verifier_version", "subject", "subject_version")
    rows = [
        {
            **dict.fromkeys(texts, "x"),
            **{"verifier": "default/Verifier/tone@1.0.0", "verdict": verdict, "source": "verify"},
            **{"started_at": now, "ended_at": now},
            **{"requirements": [], "steps": {}, "evidence_digests": {}},
        }
        for verdict in verdicts
    ]
    batch = replace(
        desk.batch(rows), table=VERIFICATION_RESULTS.full, payload=orjson.dumps(rows), row_count=len(rows)
    )
    database.write_now(lambda connection: Outbox(connection, desk.tenant).add([batch]))
    return desk


def test_p68_the_example_of_the_page_reads_published_results_with_polars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = opened(f"sqlite:///{tmp_path / 'wyrd.db'}")
    desk = _results(database, tmp_path, "passed", "failed", "passed")
    assert desk.publisher.publish(desk.tenant, VERIFICATION_RESULTS) == 3
    monkeypatch.setenv("WYRD_HOME", str(tmp_path))
    (example,) = [block for block in blocks(PAGE) if block.language == "python"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example.text, example.place, "exec"), {"__name__": "page"})
    assert printed.getvalue().splitlines() == [
        "default/Verifier/tone@1.0.0 failed 1",
        "default/Verifier/tone@1.0.0 passed 2",
    ]
    desk.close()
    database.close()


def test_p68_polars_reads_the_tables_of_a_bucket(tmp_path: Path, s3: S3Server) -> None:
    database = opened(f"sqlite:///{tmp_path / 'wyrd.db'}")
    desk = Desk(database, tmp_path, **bucket(s3))
    desk.put("a", "b", details={"refund": True})
    desk.publisher.publish(desk.tenant, TICKETS)
    location = database.read_now(
        lambda connection: connection.execute(iceberg_tables.select()).one().metadata_location
    )
    found = pl.scan_iceberg(
        location,
        storage_options={
            "s3.endpoint": s3.endpoint,
            "s3.region": "us-east-1",
            "s3.access-key-id": s3.access_key,
            "s3.secret-access-key": s3.secret_key,
        },
    ).collect()
    assert sorted(found["ticket_id"].to_list()) == ["a", "b"]
    assert found["details"].to_list() == ['{"refund":true}'] * 2
    desk.close()
    database.close()
