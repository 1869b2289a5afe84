"""Where the files of tables are: a folder a tenant, or a prefix a tenant in a bucket.

What is written to a local folder is on the disk, file and folder, before its stream is closed:
the catalog names a file only after that, so what it names survives a power cut.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from bifrost.cut import Storage
from store.caller import Tenant
from store.settings import Settings
from wyrd.errors import Code, WyrdError

_FILE = "file://"
_S3 = "s3://"


class Warehouse:
    """The place of every tenant's tables, by the settings of the service."""

    def __init__(self, settings: Settings) -> None:
        if settings.warehouse_url is None:
            self.root = f"{_FILE}{(settings.home / 'warehouse').absolute()}"
            self.storage = Storage()
            self.properties = {"py-io-impl": f"{__name__}.WarehouseIO"}
            return
        url = urlsplit(settings.warehouse_url)
        if url.scheme != "s3" or not url.netloc:
            raise WyrdError(
                Code.CFG_400_SCHEMA_MISMATCH,
                "WYRD_WAREHOUSE_URL must read s3://bucket/prefix",
                field="warehouse_url",
            )
        self.root = f"{_S3}{url.netloc}{url.path}".rstrip("/")
        self.storage = Storage(_arrow_options(settings))
        self.properties = {"py-io-impl": f"{__name__}.WarehouseIO", **_library_options(settings)}

    def folder(self, tenant: Tenant) -> str:
        """The URL everything of a tenant is under."""
        return f"{self.root}/{tenant.slug}"


def plain_path(location: str) -> str:
    """A file's location as pyarrow knows it: an absolute path, or `bucket/key`."""
    return location.removeprefix(_FILE).removeprefix(_S3)


class WarehouseIO(PyArrowFileIO):
    """The library's file access, with local writes that last."""

    @staticmethod
    def parse_location(location: str, properties: Any = None) -> tuple[str, str, str]:
        # Not parsed as a URL: a folder's name may hold what means something in one.
        if location.startswith(_FILE):
            return "file", "", location.removeprefix(_FILE)
        bucket_and_key = location.removeprefix(_S3)
        return "s3", bucket_and_key.partition("/")[0], bucket_and_key

    def new_output(self, location: str) -> PyArrowFile:
        if not location.startswith(_FILE):
            return super().new_output(location)
        return _LocalFile(location, location.removeprefix(_FILE), self.fs_by_scheme("file", ""))


class _LocalFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> Any:
        path = Path(self._path)
        _make_folder(path.parent)
        return _LastingFile(path, "wb" if overwrite else "xb")


class _LastingFile(io.BufferedWriter):
    """A new file that is on the disk, and known to its folder, once it is closed."""

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(io.FileIO(path, mode), 1024 * 1024)
        self._folder = path.parent

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
        finally:
            super().close()
        sync_folder(self._folder)


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make what was added to or removed from a folder last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _arrow_options(settings: Settings) -> dict[str, str]:
    options = {"region": settings.s3_region}
    if settings.s3_endpoint is not None:
        endpoint = urlsplit(settings.s3_endpoint)
        options |= {"scheme": endpoint.scheme, "endpoint_override": endpoint.netloc}
    if settings.s3_access_key is not None and settings.s3_secret_key is not None:
        options["access_key"] = settings.s3_access_key
        options["secret_key"] = settings.s3_secret_key.get_secret_value()
    return options


def _library_options(settings: Settings) -> dict[str, str]:
    options = {
        "s3.region": settings.s3_region,
        "s3.connect-timeout": "5",
        "s3.request-timeout": "30",
    }
    if settings.s3_endpoint is not None:
        options["s3.endpoint"] = settings.s3_endpoint
    if settings.s3_access_key is not None and settings.s3_secret_key is not None:
        options["s3.access-key-id"] = settings.s3_access_key
        options["s3.secret-access-key"] = settings.s3_secret_key.get_secret_value()
    return options
