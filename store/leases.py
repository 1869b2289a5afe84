"""Leases: one holder at a time for each background duty, by the database's clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, or_, update

from store.database import database_now, insert_or_nothing
from store.tables.leases import leases


def hold(connection: Connection, name: str, holder: str, seconds: float) -> bool:
    """Take or renew the lease for `seconds`; False while another holder has it."""
    now: datetime = database_now(connection)
    until = now + timedelta(seconds=seconds)
    renewed = connection.execute(
        update(leases)
        .where(leases.c.name == name, or_(leases.c.holder == holder, leases.c.until < now))
        .values(holder=holder, until=until)
    )
    if renewed.rowcount:
        return True
    made = connection.execute(
        insert_or_nothing(connection, leases).values(name=name, holder=holder, until=until)
    )
    return bool(made.rowcount)


def renew(connection: Connection, name: str, holder: str, seconds: float) -> bool:
    """Keep a lease that is held, through this transaction at least; False once another holder took it."""
    until = database_now(connection) + timedelta(seconds=seconds)
    kept = connection.execute(
        update(leases).where(leases.c.name == name, leases.c.holder == holder).values(until=until)
    )
    return bool(kept.rowcount)


def release(connection: Connection, name: str, holder: str) -> None:
    """Give the lease up, so that another holder need not wait for its end."""
    connection.execute(leases.delete().where(leases.c.name == name, leases.c.holder == holder))
