"""The SQL schema, one module a concept, all on one MetaData."""
