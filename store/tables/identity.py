"""Tenants, principals, their roles and their API keys."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, String, Table, UniqueConstraint

from store.tables.metadata import Document, Instant, metadata

tenants = Table(
    "tenants",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("slug", String(64), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
)

principals = Table(
    "principals",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("tenant_id", String(36), ForeignKey("tenants.id"), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("name", String(512), nullable=False),
    Column("email", String(320)),
    Column("description", String(2000)),
    Column("status", String(16), nullable=False),
    Column("card_uid", String(36)),
    Column("card_ref", Document),
    Column("created_at", Instant, nullable=False),
    Column("suspended_at", Instant),
    Column("suspension_reason", String(2000)),
    UniqueConstraint("tenant_id", "name", name="uq_principals_tenant_id_name"),
    Index("ix_principals_tenant_id_card_uid", "tenant_id", "card_uid"),
)

principal_roles = Table(
    "principal_roles",
    metadata,
    Column("tenant_id", String(36), ForeignKey("tenants.id"), nullable=False),
    Column("principal_id", String(36), ForeignKey("principals.id"), primary_key=True),
    Column("role", String(16), primary_key=True),
    Column("granted_at", Instant, nullable=False),
    Index("ix_principal_roles_tenant_id_role", "tenant_id", "role"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("tenant_id", String(36), ForeignKey("tenants.id"), nullable=False),
    Column("principal_id", String(36), ForeignKey("principals.id"), nullable=False),
    # The beginning of the key, which finds the row; the rest is compared in constant time.
    Column("prefix", String(32), nullable=False),
    Column("key_sha256", String(64), nullable=False, unique=True),
    Column("label", String(255)),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("last_used_at", Instant),
    Index("ix_api_keys_prefix", "prefix"),
    Index("ix_api_keys_principal_id", "principal_id"),
)
