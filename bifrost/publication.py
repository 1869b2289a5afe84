"""A publication: rows of one table that one snapshot adds, and that name it."""

from __future__ import annotations

from typing import Final

from pyiceberg.table.metadata import TableMetadata

PUBLISH_ID: Final = "wyrd.publish-id"
"""The property of a snapshot that says which publication it is."""


class AlreadyPublished(Exception):
    """The table has a snapshot of that publication."""


class ClaimSettled(Exception):
    """Another process brought the claim of that publication to its end."""


def publications(metadata: TableMetadata) -> set[str]:
    """The publications that the table's snapshots are."""
    named = (snapshot.summary.get(PUBLISH_ID) for snapshot in metadata.snapshots if snapshot.summary)
    return {name for name in named if name is not None}
