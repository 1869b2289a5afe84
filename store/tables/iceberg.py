"""The tables of the Iceberg catalog, as the catalog library and the other engines know them.

They are made by migrations and never by the library, whose processes would race for it.
"""

from __future__ import annotations

from sqlalchemy import Column, PrimaryKeyConstraint, String, Table

from store.tables.metadata import metadata

iceberg_tables = Table(
    "iceberg_tables",
    metadata,
    # The tenant's slug.
    Column("catalog_name", String(255), nullable=False),
    Column("table_namespace", String(255), nullable=False),
    Column("table_name", String(255), nullable=False),
    # The file that says what the table holds. A commit swaps it for another.
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
    PrimaryKeyConstraint("catalog_name", "table_namespace", "table_name"),
)

iceberg_namespace_properties = Table(
    "iceberg_namespace_properties",
    metadata,
    Column("catalog_name", String(255), nullable=False),
    Column("namespace", String(255), nullable=False),
    Column("property_key", String(255), nullable=False),
    Column("property_value", String(1000), nullable=False),
    PrimaryKeyConstraint("catalog_name", "namespace", "property_key"),
)
