#!/bin/sh
# Run once by the PostgreSQL image, on an empty volume: one role and its databases for each of the two.
set -eu
psql --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
    --set temporal_password="$PASSWORD_OF_TEMPORAL" --set wyrd_password="$PASSWORD_OF_WYRD" <<'SQL'
CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;
CREATE ROLE wyrd LOGIN PASSWORD :'wyrd_password';
CREATE DATABASE wyrd OWNER wyrd;
REVOKE CONNECT ON DATABASE temporal, temporal_visibility, wyrd FROM PUBLIC;
SQL
