"""A cut: what one table of one tenant holds at one moment, published files and the tail beside them.

`bifrost.reading` takes cuts; the Oracle and everything that reads rows work from them alone, so a
row is seen once whatever the publisher does meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bifrost.names import TableName


@dataclass(frozen=True)
class Storage:
    """Where a tenant's files are: a local folder, or a bucket with what it takes to read it.

    `options` are keyword arguments of `pyarrow.fs.S3FileSystem`; None means the local file system.
    """

    options: dict[str, str] | None = None


@dataclass(frozen=True)
class Cut:
    """`schema` is the table's full Arrow schema, system columns included. `files` are Parquet files
    (absolute paths, or `bucket/key` for S3); one that lacks a column of the schema holds nulls there.
    `tail` are rows of `schema` that are in no file yet; all of them where the cut is `whole`."""

    table: TableName
    schema: pa.Schema
    files: Sequence[str] = ()
    tail: Sequence[pa.RecordBatch] = ()
    storage: Storage = field(default_factory=Storage)
    snapshot_id: int | None = None
    whole: bool = True
