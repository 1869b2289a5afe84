"""Where tables are kept: local files last before they are named, and a bucket may be away for a while."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bifrost.catalog import TenantCatalog
from bifrost.warehouse import Warehouse, plain_path
from store.settings import Settings
from tests.bifrost.conftest import bucket
from tests.bifrost.published import TICKETS, Desk
from tests.bifrost.way import Way
from tests.conftest import opened
from tests.servers import S3Server
from wyrd.errors import Code, WyrdError


def test_p69_everything_a_commit_names_is_on_the_disk_before_the_commit(
    embedded_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = embedded_desk
    folder = desk.settings.home / "warehouse"
    lasting: set[int] = set()
    plain_sync, plain_swap = os.fsync, TenantCatalog._swap
    looked: list[int] = []

    def synced(descriptor: int) -> None:
        plain_sync(descriptor)
        lasting.add(os.fstat(descriptor).st_ino)

    def swapped(self: Any, *arguments: Any) -> None:
        files = [path for path in folder.rglob("*") if path.is_file()]
        folders = {path.parent for path in folder.rglob("*")}
        assert {path.stat().st_ino for path in files} <= lasting
        assert {path.stat().st_ino for path in folders} <= lasting
        looked.append(len(files))
        plain_swap(self, *arguments)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(TenantCatalog, "_swap", swapped)
    desk.put("a")
    assert desk.publisher.publish(desk.tenant, TICKETS) == 1
    # Two metadata files, a list of manifests, a manifest, and the rows.
    assert looked == [5]


def test_p69_a_folder_may_have_any_name(tmp_path: Path) -> None:
    home = tmp_path / "a home? #1 50% ü"
    home.mkdir()
    database = opened(f"sqlite:///{tmp_path / 'wyrd.db'}")
    desk = Desk(database, home)
    desk.put("a")
    assert desk.publisher.publish(desk.tenant, TICKETS) == 1
    assert desk.ids() == desk.iceberg_ids() == ["a"]
    assert all(Path(path).is_file() for path in desk.cuts.take_now(desk.tenant, [TICKETS])[TICKETS].files)
    desk.close()
    database.close()


def test_p69_a_warehouse_url_that_is_no_bucket_is_refused() -> None:
    with pytest.raises(WyrdError) as raised:
        Warehouse(Settings(warehouse_url="https://example.com/tables"))
    assert raised.value.member is Code.CFG_400_SCHEMA_MISMATCH
    assert plain_path("s3://bucket/key") == "bucket/key"
    assert plain_path("file:///a/b") == "/a/b"


async def test_p64_publishing_goes_on_by_itself_once_the_bucket_is_reachable_again(
    tmp_path: Path, s3: S3Server
) -> None:
    with Way(s3.endpoint) as way:
        settings = bucket(s3) | {"s3_endpoint": way.endpoint}
        database = opened(f"sqlite:///{tmp_path / 'wyrd.db'}")
        desk = Desk(database, tmp_path, **settings)
        desk.put("before")
        assert await desk.publisher.pass_once(everything=True) == 1
        way.close()
        desk.put("during")
        assert await desk.publisher.pass_once(everything=True) == 0
        assert desk.waiting() == 1
        way.open()
        assert await desk.publisher.pass_once(everything=True) == 1
        assert desk.ids() == desk.iceberg_ids() == ["before", "during"]
        desk.close()
        database.close()
