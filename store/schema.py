"""The schema of a database: brought up to date, checked, and changed.

`upgrade` is what every start of an embedded stack and every deployment runs. A change of the
tables is drafted with `python -m store.schema "why"`, which writes a revision under
`store/migrations/versions/` from the difference, for a person to read and correct.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
import tempfile
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.pool import NullPool

import store.tables
from store.tables.metadata import metadata
from wyrd.errors import Code, WyrdError

MIGRATIONS = Path(__file__).parent / "migrations"

# Any number will do that no other advisory lock of this system uses.
_LOCK = 0x77797264


def upgrade(url: str) -> None:
    """Bring the database to the newest schema. Safe to call from several processes at once.

    Raises `WYRD_CFG_400_SCHEMA_MISMATCH` for a database that a newer version wrote.
    """
    if url.startswith("sqlite:///"):
        Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    engine = migration_engine(url)
    try:
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            configuration = _configuration()
            configuration.attributes["connection"] = connection
            try:
                command.upgrade(configuration, "head")
            except CommandError as error:
                raise WyrdError(
                    Code.CFG_400_SCHEMA_MISMATCH,
                    f"the database was written by another version of Wyrd: {error}",
                    field="database_url",
                ) from error
    finally:
        engine.dispose()


@functools.cache
def newest() -> str:
    """The newest revision this version of the code knows."""
    revision = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    assert revision is not None
    return revision


def current(connection: Connection) -> str | None:
    """The revision a database is at; None for one that was never upgraded."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def differences(connection: Connection) -> list[str]:
    """What the tables of the code have that the database has not, or the other way round."""
    load_tables()
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return [str(difference) for difference in compare_metadata(context, metadata)]


def load_tables() -> None:
    """Import every module of `store.tables`, so that the MetaData is complete."""
    for module in pkgutil.iter_modules(store.tables.__path__):
        importlib.import_module(f"store.tables.{module.name}")


def draft(message: str) -> None:
    """Write a revision for what the tables have gained since the newest one."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/draft.db"
        upgrade(url)
        engine = migration_engine(url)
        with engine.begin() as connection:
            configuration = _configuration()
            configuration.attributes["connection"] = connection
            number = len(list((MIGRATIONS / "versions").glob("*.py"))) + 1
            command.revision(configuration, message, autogenerate=True, rev_id=f"{number:04d}")
        engine.dispose()


def migration_engine(url: str) -> Engine:
    """An engine whose one transaction takes SQLite's write lock at its start.

    Foreign keys are off there: SQLite alters a table by copying it, which must not cascade.
    """
    if not url.startswith("sqlite"):
        return create_engine(url, poolclass=NullPool)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": 60.0, "isolation_level": None})

    @event.listens_for(engine, "connect")
    def _connect(connection: object, _record: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")  # type: ignore[attr-defined]

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _configuration() -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    configuration.set_main_option("path_separator", "os")
    return configuration


if __name__ == "__main__":
    draft(" ".join(sys.argv[1:]) or "change the tables")
