"""Fixtures every room's tests may use: databases and blob stores, real ones, one of each kind.

`database` and `blobs` run a test once for each implementation; `sqlite_database` and
`local_blobs` are for tests that are about something else.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from store.blobs import BlobStore
from store.blobs.local import LocalBlobs
from store.blobs.s3 import S3Blobs
from store.caller import Tenant
from store.database import Database
from store.first_start import ensure_tenant
from store.schema import load_tables
from store.settings import Settings
from store.tables.metadata import metadata
from tests.servers import PostgresServer, S3Server, postgres_server, s3_server, temporal_server

SECRET = b"a secret for tests, 32 bytes long"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def temporal_address() -> Iterator[str]:
    """A Temporal development server, shared by the session: take namespaces or ids of your own."""
    with temporal_server() as address:
        yield address


def opened(url: str) -> Database:
    """A database with the tables as they are in the code."""
    load_tables()
    database = Database(url)
    metadata.create_all(database.engine)
    return database


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new, empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'wyrd.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.new_database()
    yield url
    server.drop(url)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A new database with every table: SQLite once, PostgreSQL once."""
    database = opened(database_url)
    yield database
    database.close()


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    """A new SQLite database with every table."""
    database = opened(f"sqlite:///{tmp_path / 'wyrd.db'}")
    yield database
    database.close()


@pytest.fixture
async def local_blobs(tmp_path: Path) -> LocalBlobs:
    blobs = LocalBlobs(tmp_path / "blobs", SECRET)
    await blobs.open()
    return blobs


@pytest.fixture(params=["local", "s3"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    """An empty blob store: a folder once, an S3 bucket once."""
    if request.param == "local":
        local = LocalBlobs(tmp_path / "blobs", SECRET)
        await local.open()
        yield local
        return
    server: S3Server = request.getfixturevalue("s3")
    settings = Settings(
        home=tmp_path,
        blob_url=f"s3://wyrd-tests/{secrets.token_hex(8)}",
        s3_endpoint=server.endpoint,
        s3_access_key=server.access_key,
        s3_secret_key=server.secret_key,
    )
    remote = S3Blobs(settings)
    await remote.open()
    await remote.make_bucket()
    yield remote
    await remote.close()


@pytest.fixture
def tenant() -> Tenant:
    """A tenant for tests that need no row of it (blobs)."""
    return Tenant("01890000-0000-7000-8000-00000000000a", "acme")


@pytest.fixture
def other_tenant() -> Tenant:
    return Tenant("01890000-0000-7000-8000-00000000000b", "rival")


@pytest.fixture
async def stored_tenant(database: Database) -> Tenant:
    """The tenant `acme` with its row, in `database`."""
    return await ensure_tenant(database, "acme")
