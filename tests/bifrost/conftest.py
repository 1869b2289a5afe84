"""Fixtures of Bifrost's tests: the table of tickets over each kind of database and storage."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs
import pytest

from store.database import Database
from tests.bifrost.published import Desk
from tests.conftest import opened
from tests.servers import S3Server


@pytest.fixture(params=["sqlite-folder", "postgresql-s3"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """Embedded once, SQLite and a folder; as in production once, PostgreSQL and S3."""
    if request.param == "sqlite-folder":
        yield from _desk(opened(f"sqlite:///{tmp_path / 'wyrd.db'}"), tmp_path)
        return
    postgres = request.getfixturevalue("postgres")
    url = postgres.new_database()
    server: S3Server = request.getfixturevalue("s3")
    yield from _desk(opened(url), tmp_path, **bucket(server))
    postgres.drop(url)


@pytest.fixture
def embedded_desk(tmp_path: Path) -> Iterator[Desk]:
    yield from _desk(opened(f"sqlite:///{tmp_path / 'wyrd.db'}"), tmp_path)


def bucket(server: S3Server) -> dict[str, str]:
    """Settings of a new prefix in a bucket that is there."""
    address = server.endpoint.removeprefix("http://")
    pyarrow.fs.S3FileSystem(
        access_key=server.access_key,
        secret_key=server.secret_key,
        region="us-east-1",
        scheme="http",
        endpoint_override=address,
        allow_bucket_creation=True,
    ).create_dir("wyrd-tables")
    return {
        "warehouse_url": f"s3://wyrd-tables/{secrets.token_hex(8)}",
        "s3_endpoint": server.endpoint,
        "s3_access_key": server.access_key,
        "s3_secret_key": server.secret_key,
    }


def _desk(database: Database, home: Path, **settings: str) -> Iterator[Desk]:
    desk = Desk(database, home, **settings)
    yield desk
    desk.close()
    database.close()
