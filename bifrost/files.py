"""The data files of a snapshot, read from its manifests once: neither ever changes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.concurrent import ExecutorFactory

from bifrost.warehouse import WarehouseIO

_KEPT_SNAPSHOTS = 512
_KEPT_MANIFESTS = 8192


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One data file. `partition` is its day or hour since 1970."""

    location: str
    partition: int
    bytes: int
    rows: int


class SnapshotFiles:
    """What snapshots hold, over one way to the storage."""

    def __init__(self, io: WarehouseIO) -> None:
        self._io = io
        self._of = functools.lru_cache(_KEPT_SNAPSHOTS)(self._read)
        self._manifest = functools.lru_cache(_KEPT_MANIFESTS)(self._read_manifest)

    def current(self, metadata: TableMetadata) -> Sequence[LiveFile]:
        """Files of the table as it is now."""
        snapshot = metadata.current_snapshot()
        return () if snapshot is None else self._of(_Held(snapshot))

    def of(self, snapshot: Snapshot) -> Sequence[LiveFile]:
        return self._of(_Held(snapshot))

    def manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        return snapshot.manifests(self._io)

    def data_files(self, snapshot: Snapshot) -> list[DataFile]:
        """The same files with all that the manifests say of them, not kept."""
        return [
            entry.data_file
            for manifest in self.manifests(snapshot)
            for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True)
        ]

    def _read(self, held: _Held) -> tuple[LiveFile, ...]:
        found = [_Listed(manifest) for manifest in self.manifests(held.snapshot)]
        listed = ExecutorFactory.get_or_create().map(self._manifest, found)
        return tuple(file for files in listed for file in files)

    def _read_manifest(self, listed: _Listed) -> tuple[LiveFile, ...]:
        return tuple(
            _live(entry.data_file)
            for entry in listed.manifest.fetch_manifest_entry(self._io, discard_deleted=True)
        )


class _Held:
    """A snapshot by its identity: where its list of manifests is."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def __hash__(self) -> int:
        return hash(self.snapshot.manifest_list)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Held) and self.snapshot.manifest_list == other.snapshot.manifest_list


class _Listed:
    """A manifest by its identity: its path."""

    def __init__(self, manifest: ManifestFile) -> None:
        self.manifest = manifest

    def __hash__(self) -> int:
        return hash(self.manifest.manifest_path)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Listed) and self.manifest.manifest_path == other.manifest.manifest_path


def _live(file: DataFile) -> LiveFile:
    return LiveFile(file.file_path, int(file.partition[0]), file.file_size_in_bytes, file.record_count)
