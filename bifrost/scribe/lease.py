"""The lease on one table: who may publish to it and tend it. Each of its commits proves it anew."""

from __future__ import annotations

from sqlalchemy import Connection

from bifrost.names import TableName
from store.caller import Tenant
from store.database import Database
from store.leases import hold, release, renew

LEASE_SECONDS = 120.0


class LeaseLost(Exception):
    """Another process took the table up: what this one began is called off."""


class TableLease:
    """The lease on a table of a tenant, for one holder."""

    def __init__(self, database: Database, tenant: Tenant, table: TableName, holder: str) -> None:
        self._database = database
        self._name = f"publish/{tenant.slug}/{table}"
        self._holder = holder

    def take(self) -> bool:
        """Take the lease; False while another process has it."""
        return self._database.write_now(hold, self._name, self._holder, LEASE_SECONDS)

    def keep(self, connection: Connection) -> None:
        """Within a transaction: make sure that the lease is still held, and until the transaction ends.

        Raises `LeaseLost`.
        """
        if not renew(connection, self._name, self._holder, LEASE_SECONDS):
            raise LeaseLost(self._name)

    def prove(self) -> None:
        """`keep`, in a transaction of its own. Raises `LeaseLost`."""
        self._database.write_now(self.keep)

    def release(self) -> None:
        self._database.write_now(release, self._name, self._holder)
