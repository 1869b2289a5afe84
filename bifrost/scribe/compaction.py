"""Which data files of a table are merged, and merging them: the same rows in fewer files.

A partition that still grows is merged in tiers, eight files of a size class at a time, so that a
row is rewritten a few times and not at every publication; one that is past is merged as far as
the target size goes. No file spans partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pyarrow.dataset as ds
from pyiceberg.table import Table

from bifrost.cut import Storage
from bifrost.files import LiveFile, SnapshotFiles
from bifrost.reading import filesystem
from bifrost.warehouse import plain_path
from bifrost.writing import TableChange, write_rows
from wyrd.wire.bifrost import SortKey

TARGET_BYTES = 64 * 1024**2
MAX_TARGET_BYTES = 128 * 1024**2
"""Merging holds the rows in memory, several times the size of their file."""

_TIER_FILES = 8
_FIRST_TIER = 512 * 1024


def target_of(asked: int | None) -> int:
    """The size files are merged towards, in bytes."""
    return min(asked or TARGET_BYTES, MAX_TARGET_BYTES)


def merges(files: Sequence[LiveFile], target: int, growing: int) -> list[list[LiveFile]]:
    """Groups of files to merge, each of one partition; `growing` is the partition of now.

    Merging them all, and asking again, ends: every group is two files at least, and fits the target.
    """
    tiers: defaultdict[tuple[int, int], list[LiveFile]] = defaultdict(list)
    for file in files:
        if file.bytes < target:
            tier = _tier(file.bytes) if file.partition >= growing else 0
            tiers[file.partition, tier].append(file)
    groups = []
    for (partition, _), small in sorted(tiers.items()):
        least = _TIER_FILES if partition >= growing else 2
        if len(small) >= least:
            groups.extend(_fitting(small, target))
    return groups


def merge(
    table: Table,
    groups: Sequence[Sequence[LiveFile]],
    files: SnapshotFiles,
    storage: Storage,
    keys: list[SortKey],
) -> None:
    """Replace each group by one file, in one commit that adds and removes no row.

    Raises `ValueError` rather than commit files that hold another number of rows.
    """
    current = table.current_snapshot()
    assert current is not None
    known = {file.file_path: file for file in files.data_files(current)}
    merged = []
    for group in groups:
        rows = ds.dataset(
            [plain_path(file.location) for file in group],
            # The columns of Iceberg's own schema: it may have grown since anybody looked elsewhere.
            schema=table.schema().as_arrow(),
            format="parquet",
            filesystem=filesystem(storage),
        ).to_table()
        if rows.num_rows != sum(file.rows for file in group):
            raise ValueError(f"{len(group)} files of {table.name()} hold {rows.num_rows} rows")
        merged.append(write_rows(table, group[0].partition, rows, keys))
    with TableChange(table) as change, change.update_snapshot().overwrite() as snapshot:
        for group in groups:
            for file in group:
                snapshot.delete_data_file(known[file.location])
        for written in merged:
            snapshot.append_data_file(written)


def _tier(size: int) -> int:
    tier, limit = 0, _FIRST_TIER
    while size >= limit:
        tier, limit = tier + 1, limit * 8
    return tier


def _fitting(files: list[LiveFile], target: int) -> list[list[LiveFile]]:
    """Those files in groups of two or more that are no larger than the target."""
    groups: list[list[LiveFile]] = []
    group: list[LiveFile] = []
    room = target
    for file in sorted(files, key=lambda file: (file.bytes, file.location)):
        if file.bytes > room:
            groups.append(group)
            group, room = [], target
        group.append(file)
        room -= file.bytes
    groups.append(group)
    return [group for group in groups if len(group) > 1]
