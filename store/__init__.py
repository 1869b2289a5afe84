"""Storage: the SQL schema, migrations and repositories, the blob store, secrets, settings.

Repositories are plain functions and classes over one SQLAlchemy connection and one tenant;
`Database` runs them. No judgement, no HTTP and no Temporal here.
"""
