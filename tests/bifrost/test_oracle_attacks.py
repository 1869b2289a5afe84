"""P57: what SQL may and may not do, over real query processes, in one run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.bifrost.asked import House
from tests.bifrost.hostile_sql import ENDLESS, LEGITIMATE, REFUSED
from tests.conftest import opened
from wyrd.errors import Code, WyrdError

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

NOTHING_TO_RUN = {
    Code.VALA_400_QUERY_INVALID_SQL,
    Code.VALA_404_BIFROST_TABLE_NOT_FOUND,
    Code.SPEC_400_VALIDATION,
}
BOUNDED = {
    *NOTHING_TO_RUN,
    Code.VALA_504_QUERY_TIMEOUT,
    Code.VALA_413_QUERY_RESULT_TOO_LARGE,
}
NEVER_SAID = ("theirs", "root:", "/usr/", "site-packages", "Traceback", "0x", "duckdb::", "INTERNAL")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """Half of the rows published, half still waiting in the outbox."""
    home: Path = tmp_path_factory.mktemp("oracle")
    database = opened(f"sqlite:///{home / 'wyrd.db'}")
    built = House.built(database, home, query_workers=2, query_seconds=30.0)
    await built.publish()
    await built.oracle.open()
    yield built
    await built.oracle.close()
    built.cuts.close()
    database.close()


async def test_p57_every_attack_is_refused_or_bounded_and_every_honest_query_answers(house: House) -> None:
    before = sorted(os.listdir("/tmp")), dict(os.environ)
    attacks = [(kind, sql) for kind, listed in REFUSED.items() for sql in listed]
    assert len(attacks) + len(ENDLESS) >= 150
    assert len(LEGITIMATE) >= 20
    for kind, sql in attacks:
        error = await house.refusal(sql)
        assert error is not None, (kind, sql)
        assert error.member in NOTHING_TO_RUN, (kind, sql, error)
        _says_nothing(error, sql)
    for sql in ENDLESS:
        error = await house.refusal(sql, deadline=1.0, max_rows=1000, max_bytes=1_000_000)
        if error is not None:
            assert error.member in BOUNDED, (sql[:80], error)
            _says_nothing(error, sql)
    # What was refused refused itself: the rows are there, and everything honest still works.
    for sql, parameters, count in LEGITIMATE:
        rows = await house.rows(sql, *parameters)
        assert len(rows) == count, (sql, rows)
        assert "theirs" not in str(rows)
    assert dict(os.environ) == before[1]
    made = set(os.listdir("/tmp")) - set(before[0])
    assert not [name for name in made if name.startswith(("x", "other")) and "." in name]


async def test_p57_a_predicate_cannot_widen_what_a_tenant_sees(house: House) -> None:
    tricks = (
        "SELECT * FROM vala.datasets.tickets WHERE data_tenant_id = 'x' OR 1 = 1",
        "SELECT * FROM vala.datasets.tickets WHERE ticket_id LIKE '%' /* tenant */ -- OR tenant",
        "SELECT * FROM vala.datasets.tickets, (SELECT 1) AS one",
        "SELECT * FROM vala.datasets.tickets UNION ALL SELECT * FROM vala.datasets.tickets WHERE false",
    )
    for sql in tricks:
        assert "theirs" not in str(await house.rows(sql)), sql
    seen = await house.rows("SELECT DISTINCT data_tenant_id FROM vala.datasets.tickets")
    assert seen == [(house.acme.id,)]
    control = await house.rows("SELECT ticket_id FROM vala.datasets.tickets", tenant=house.rival)
    assert len(control) == 6
    assert all(name.startswith("theirs-") for (name,) in control)


def _says_nothing(error: WyrdError, sql: str) -> None:
    """An error may repeat the caller's own words, and nothing of the host or of another tenant."""
    told = f"{error.detail} {error.details}"
    for word in NEVER_SAID:
        assert word not in told or word in sql, (sql[:80], told)
