"""Tables of Operators: the connections they name, their dispatches, and each attempt to deliver one."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
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

operator_connections = Table(
    "operator_connections",
    metadata,
    Column("connection_id", String(36), primary_key=True),
    Column("tenant_id", String(36), nullable=False),
    Column("provider", String(16), nullable=False),
    Column("name", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("workspace_id", String(64)),
    Column("origin", String(512)),
    Column("auth_scheme", String(16)),
    Column("auth_header", String(200)),
    # The secret under a key of its own, and that key under the one from the configuration.
    Column("sealed_secret", LargeBinary, nullable=False),
    Column("sealed_key", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("tenant_id", "name", name="uq_operator_connections_name"),
)

dispatches = Table(
    "dispatches",
    metadata,
    Column("dispatch_id", String(36), primary_key=True),
    Column("tenant_id", String(36), nullable=False),
    Column("workflow_id", String(200), nullable=False),
    Column("execution_id", String(36), nullable=False),
    Column("binding_id", String(36), nullable=False),
    Column("reaction", String(16), nullable=False),
    # One of the two: the Operator Card's uid, or the digest of an inline Operator.
    Column("operator_uid", String(36)),
    Column("operator_digest", String(64)),
    # JSON text: what is sent, rendered once, without secrets; none where it could not be rendered.
    Column("request", Text),
    Column("status", String(16), nullable=False),
    # Whether its workflow is known to have been started.
    Column("acknowledged", Boolean, nullable=False),
    Column("error_code", String(32)),
    Column("error_message", Text),
    Column("created_at", Instant, nullable=False),
    Column("deadline_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Index("ix_dispatches_execution", "tenant_id", "execution_id"),
    Index(
        "ix_dispatches_open",
        "created_at",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
)

dispatch_attempts = Table(
    "dispatch_attempts",
    metadata,
    Column("tenant_id", String(36), nullable=False),
    Column("dispatch_id", String(36), nullable=False),
    Column("number", Integer, nullable=False),
    Column("started_at", Instant, nullable=False),
    # Neither is set for an attempt whose worker was lost.
    Column("duration_ms", Integer),
    Column("status_code", Integer),
    Column("error_code", String(32)),
    Column("error_message", Text),
    PrimaryKeyConstraint("tenant_id", "dispatch_id", "number"),
)
