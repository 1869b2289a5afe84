"""When samples came in, so that a window which has ended can be read whole.

A sample's time is taken by the database's clock inside the transaction that stores it. Whoever
reads a window waits first for the transactions that took their time before: what it sees then is
all that will ever have come in before that moment, however long a commit takes.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, text

from store.caller import Tenant
from store.clock import now


def sample_time(connection: Connection, tenant: Tenant) -> datetime:
    """The time of samples that this transaction stores."""
    _lock(connection, tenant, shared=True)
    return now(connection)


def samples_settled(connection: Connection, tenant: Tenant) -> None:
    """Wait for every transaction that has taken a time for samples. To be run as a write.

    SQLite has one writer at a time, so a write has waited for the others by itself.
    """
    _lock(connection, tenant, shared=False)


def _lock(connection: Connection, tenant: Tenant, *, shared: bool) -> None:
    if connection.dialect.name == "postgresql":
        lock = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
        connection.execute(
            text(f"SELECT {lock}(hashtextextended(:key, 0))"), {"key": f"wyrd/samples/{tenant.id}"}
        )
