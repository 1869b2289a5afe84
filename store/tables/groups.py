"""Tables of groups: what was acknowledged for each, when it is due, and how it was judged last."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, PrimaryKeyConstraint, String, Table, text

from store.tables.metadata import Instant, metadata

groups = Table(
    "groups",
    metadata,
    Column("tenant_id", String(36), nullable=False),
    Column("binding_id", String(36), nullable=False),
    Column("group_id", String(256), nullable=False),
    # Seconds of quiet after which it is judged.
    Column("after_seconds", Float, nullable=False),
    # When it will have been quiet long enough; null when nothing is due.
    Column("due_at", Instant),
    # The due time that the group's workflow has; signalled again until it has this one.
    Column("told_due_at", Instant),
    # The last judgement that passed or failed; null before the first.
    Column("verdict", String(16)),
    Column("last_execution_id", String(36)),
    Column("updated_at", Instant, nullable=False),
    # How often its evidence has changed: what was looked at is what is judged while this stands.
    Column("revision", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant_id", "binding_id", "group_id"),
    Index(
        "ix_groups_due",
        "due_at",
        sqlite_where=text("due_at IS NOT NULL"),
        postgresql_where=text("due_at IS NOT NULL"),
    ),
)

UNTOLD = text("coalesce(told_due_at < due_at, due_at IS NOT NULL)")
"""Groups whose workflow does not have their due time yet: few, however many wait. One term, so that
SQLite cannot take the index of everything that is due for it."""
Index("ix_groups_untold", groups.c.due_at, sqlite_where=UNTOLD, postgresql_where=UNTOLD)

group_evidence = Table(
    "group_evidence",
    metadata,
    Column("tenant_id", String(36), nullable=False),
    Column("binding_id", String(36), nullable=False),
    Column("group_id", String(256), nullable=False),
    Column("execution_id", String(36), nullable=False),
    Column("acknowledged_at", Instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "binding_id", "group_id", "execution_id"),
    Index("ix_group_evidence_execution", "tenant_id", "execution_id"),
)
