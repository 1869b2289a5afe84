"""Tables of Bifrost's own bookkeeping: registered tables, and batches on their way to them."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from store.tables.metadata import Instant, metadata

bifrost_tables = Table(
    "bifrost_tables",
    metadata,
    Column("tenant_id", String(36), nullable=False),
    # The full name, "vala.datasets.tickets".
    Column("table_name", String(160), nullable=False),
    Column("uid", String(36), nullable=False),
    Column("status", String(16), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    # JSON text: the user's own columns as field specs, and the layout.
    Column("fields", Text, nullable=False),
    Column("layout", Text, nullable=False),
    Column("compaction_target_bytes", Integer),
    Column("compaction_type", String(32)),
    Column("retention_days", Integer),
    Column("registered_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "table_name"),
    UniqueConstraint("uid", name="uq_bifrost_tables_uid"),
)

bifrost_outbox = Table(
    "bifrost_outbox",
    metadata,
    Column("tenant_id", String(36), nullable=False),
    Column("table_name", String(160), nullable=False),
    Column("batch_id", String(36), nullable=False),
    # "json": UTF-8 JSON, a list of row objects; "arrow": one Arrow IPC stream.
    Column("encoding", String(8), nullable=False),
    Column("row_count", Integer, nullable=False),
    Column("byte_count", Integer, nullable=False),
    Column("principal_id", String(36), nullable=False),
    Column("actor_id", String(36)),
    Column("request_id", String(64), nullable=False),
    Column("ingested_at", Instant, nullable=False),
    # The publication that took the batch up; it names the snapshot that holds its rows.
    Column("publish_id", String(36)),
    Column("published_at", Instant),
    # Emptied when the rows are published; the rest stays a while, so that a late repeat is known.
    # Last, because SQLite reads through a large value to reach what stands after it.
    Column("payload", LargeBinary),
    PrimaryKeyConstraint("tenant_id", "table_name", "batch_id"),
    Index(
        "ix_bifrost_outbox_pending",
        "tenant_id",
        "table_name",
        "ingested_at",
        sqlite_where=text("published_at IS NULL"),
        postgresql_where=text("published_at IS NULL"),
    ),
    Index(
        "ix_bifrost_outbox_published",
        "published_at",
        sqlite_where=text("published_at IS NOT NULL"),
        postgresql_where=text("published_at IS NOT NULL"),
    ),
)
