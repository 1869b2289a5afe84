"""Tables of executions: one row each, the ends of their blocks, and idempotency keys.

Documents (inputs, results) are kept as text: evidence must come back as it was sent, and
PostgreSQL's JSONB reorders keys and refuses NUL characters.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

from store.tables.metadata import Instant, metadata

executions = Table(
    "executions",
    metadata,
    Column("execution_id", String(36), primary_key=True),
    Column("tenant_id", String(36), nullable=False),
    Column("workflow_id", String(200), nullable=False),
    Column("status", String(16), nullable=False),
    Column("source", String(16), nullable=False),
    Column("verifier_uid", String(36), nullable=False),
    Column("verifier", String(400), nullable=False),
    Column("subject_uid", String(36), nullable=False),
    Column("subject", String(400), nullable=False),
    Column("owner_uid", String(36)),
    Column("owner", String(400)),
    Column("binding_id", String(36)),
    Column("principal_id", String(36)),
    Column("run_id", String(36)),
    Column("group_id", String(256)),
    Column("session_id", String(36)),
    # JSON text, of a group's execution: what each source slot reads, and the executions it came from.
    Column("group_sources", Text),
    Column("window_start", Instant),
    Column("window_end", Instant),
    Column("inputs", Text, nullable=False),
    Column("timeout_seconds", Float, nullable=False),
    Column("acknowledged", Boolean, nullable=False),
    Column("verdict", String(16)),
    Column("result", Text),
    Column("error_code", String(80)),
    Column("error_message", Text),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant),
    Index("ix_executions_tenant_created", "tenant_id", "created_at", "execution_id"),
    Index("ix_executions_tenant_verifier", "tenant_id", "verifier_uid", "created_at"),
    Index("ix_executions_tenant_run", "tenant_id", "run_id"),
    Index("ix_executions_tenant_group", "tenant_id", "group_id"),
    Index("ix_executions_tenant_binding", "tenant_id", "binding_id", "created_at"),
    # A window of a binding is judged once, whoever opens it again; one that could not be is opened anew.
    Index(
        "uq_executions_window",
        "binding_id",
        "window_end",
        unique=True,
        sqlite_where=text("window_end IS NOT NULL AND status <> 'errored'"),
        postgresql_where=text("window_end IS NOT NULL AND status <> 'errored'"),
    ),
    Index(
        "ix_executions_open",
        "tenant_id",
        "created_at",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
)

execution_blocks = Table(
    "execution_blocks",
    metadata,
    Column("tenant_id", String(36), nullable=False),
    Column("execution_id", String(36), nullable=False),
    Column("block", Integer, nullable=False),
    Column("letter", String(1), nullable=False),
    Column("document", Text, nullable=False),
    Column("output", Text),
    Column("output_sha256", String(64)),
    Column("recorded_at", Instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "execution_id", "block"),
)

submission_keys = Table(
    "submission_keys",
    metadata,
    Column("tenant_id", String(36), nullable=False),
    Column("key", String(256), nullable=False),
    Column("body_sha256", String(64), nullable=False),
    Column("execution_id", String(36), nullable=False),
    Column("first", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "key", "body_sha256"),
    Index(
        "uq_submission_keys_first",
        "tenant_id",
        "key",
        unique=True,
        sqlite_where=text("first"),
        postgresql_where=text("first"),
    ),
)
