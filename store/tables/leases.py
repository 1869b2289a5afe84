"""The table of leases on background duties."""

from __future__ import annotations

from sqlalchemy import Column, String, Table

from store.tables.metadata import Instant, metadata

leases = Table(
    "leases",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("until", Instant, nullable=False),
)
