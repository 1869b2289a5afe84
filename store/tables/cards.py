"""Tables of the registry: Cards, what they refer to, their files, their bindings, declarations."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)

from store.tables.metadata import Instant, metadata

ByteOrdered = Text().with_variant(Text(collation="C"), "postgresql")
"""Text compared byte by byte on both databases, whatever the server's locale."""

cards = Table(
    "cards",
    metadata,
    Column("uid", Text, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("kind", ByteOrdered, nullable=False),
    Column("space", ByteOrdered, nullable=False),
    Column("name", ByteOrdered, nullable=False),
    Column("version", ByteOrdered, nullable=False),
    # Sorts as SemVer orders versions; equal for versions that differ in build metadata alone.
    Column("precedence", ByteOrdered, nullable=False),
    Column("prerelease", Boolean, nullable=False),
    # Text, not a JSON type: the order of a response schema's members matters to a model, and
    # PostgreSQL's JSONB would reorder keys and refuse NUL characters.
    Column("spec", Text, nullable=False),
    Column("spec_hash", Text, nullable=False),
    Column("artifact_hash", Text),
    # Labels, annotations and origin, as JSON text.
    Column("descriptive", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("tenant_id", "kind", "space", "name", "version", name="uq_cards_identity"),
    Index("ix_cards_precedence", "tenant_id", "space", "kind", "name", "precedence"),
)

card_references = Table(
    "card_references",
    metadata,
    Column("source_uid", Text, ForeignKey("cards.uid"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("target_uid", Text, ForeignKey("cards.uid"), nullable=False),
    # The alias of a Service component; none for every other reference.
    Column("alias", Text),
    Index("ix_card_references_target_uid", "target_uid"),
)

card_artifacts = Table(
    "card_artifacts",
    metadata,
    Column("card_uid", Text, ForeignKey("cards.uid"), primary_key=True),
    Column("relative_path", ByteOrdered, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("upload_id", Text, nullable=False, unique=True),
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("content_type", Text),
    # When the stored bytes were read and found to be the declared ones; none while pending.
    Column("stored_at", Instant),
)

bindings = Table(
    "bindings",
    metadata,
    Column("binding_id", Text, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("owner_uid", Text, ForeignKey("cards.uid"), nullable=False),
    Column("subject_uid", Text, ForeignKey("cards.uid"), nullable=False),
    Column("verifier_uid", Text, ForeignKey("cards.uid"), nullable=False),
    # Where the owner's spec says it: `spec.components[0].verified_by[1]`.
    Column("occurrence", Text, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("verifier_space", Text, nullable=False),
    Column("verifier_name", Text, nullable=False),
    Column("verifier_version", Text, nullable=False),
    Column("alias", Text),
    # The Trigger's spec as JSON text, with its Card in `trigger_uid` when it is not inline.
    Column("runs_on", Text),
    Column("trigger_uid", Text, ForeignKey("cards.uid")),
    # JSON text: a list of {on, uid or digest, spec}.
    Column("operators", Text, nullable=False),
    # Whether the owner is active; a deleted owner's bindings never become active again.
    Column("active", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("owner_uid", "occurrence", "verifier_uid", name="uq_bindings_occurrence"),
    Index("ix_bindings_target", "subject_uid", "verifier_uid"),
    Index("ix_bindings_owner", "tenant_id", "owner_uid"),
)

card_declarations = Table(
    "card_declarations",
    metadata,
    Column("tenant_id", Text, primary_key=True),
    Column("idempotency_key", Text, primary_key=True),
    Column("body_digest", Text, nullable=False),
    # JSON text: the uids and outcomes that the first answer named.
    Column("receipt", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("ix_card_declarations_created_at", "created_at"),
)
