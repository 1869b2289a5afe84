"""The table of drift baselines: one for each drift check of an exact Verifier version."""

from __future__ import annotations

from sqlalchemy import Column, PrimaryKeyConstraint, String, Table, Text

from store.tables.metadata import Instant, metadata

baselines = Table(
    "baselines",
    metadata,
    Column("tenant_id", String(36), nullable=False),
    Column("verifier_uid", String(36), nullable=False),
    Column("requirement_id", String(80), nullable=False),
    # fitting, ready, failed
    Column("status", String(16), nullable=False),
    # JSON text: the fitted baseline, rates of false alarms by feature and window size, and warnings.
    Column("document", Text),
    Column("false_alarms", Text),
    Column("warnings", Text),
    Column("error", Text),
    Column("created_at", Instant, nullable=False),
    Column("fitted_at", Instant),
    PrimaryKeyConstraint("tenant_id", "verifier_uid", "requirement_id"),
)
