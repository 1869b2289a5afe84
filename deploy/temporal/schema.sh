#!/bin/sh
# Bring Temporal's two databases to the schema of this version. Connection from SQL_… variables.
set -eu
schema=/etc/temporal/schema/postgresql/v12
for pair in temporal:temporal temporal_visibility:visibility; do
    database=${pair%%:*} kind=${pair##*:}
    temporal-sql-tool --database "$database" setup-schema -v 0.0
    temporal-sql-tool --database "$database" update-schema -d "$schema/$kind/versioned"
done
