"""Alembic revisions of the SQL schema, one file a change, never edited once released.

`store.schema` runs them. The tables themselves are declared in `store.tables`.
"""
