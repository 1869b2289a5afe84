"""The revisions lead to exactly the tables of the code, on both databases."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from store.schema import current, differences, migration_engine, newest, upgrade
from wyrd.errors import Code, WyrdError


def test_the_revisions_lead_to_the_tables_of_the_code(database_url: str) -> None:
    upgrade(database_url)
    engine = migration_engine(database_url)
    with engine.begin() as connection:
        assert current(connection) == newest()
        assert differences(connection) == []
    engine.dispose()


def test_an_upgrade_of_an_upgraded_database_changes_nothing(database_url: str) -> None:
    upgrade(database_url)
    upgrade(database_url)


async def test_processes_that_start_at_once_upgrade_one_after_the_other(database_url: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(upgrade_alone, database_url) for _ in range(3)))
    upgrade(database_url)


def upgrade_alone(url: str) -> None:
    """In a process of its own, since Alembic keeps its context in module globals."""
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-c", "import sys; from store.schema import upgrade; upgrade(sys.argv[1])", url],
        check=True,
        env={**os.environ, "PYTHONPATH": f"{root / 'sdk'}:{root}"},
    )


def test_a_database_of_a_newer_version_is_refused_and_left_alone(database_url: str) -> None:
    upgrade(database_url)
    engine = migration_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(WyrdError) as refused:
        upgrade(database_url)
    assert refused.value.member is Code.CFG_400_SCHEMA_MISMATCH
    with engine.begin() as connection:
        assert current(connection) == "9999"
    engine.dispose()


def test_a_database_that_was_never_upgraded_has_no_revision(database_url: str) -> None:
    engine = migration_engine(database_url)
    with engine.begin() as connection:
        assert current(connection) is None
    engine.dispose()


def test_the_folder_of_a_new_sqlite_file_is_made(tmp_path: Path) -> None:
    upgrade(f"sqlite:///{tmp_path / 'a' / 'b' / 'wyrd.db'}")
    assert (tmp_path / "a" / "b" / "wyrd.db").exists()
