"""The clock that due decisions ask: the database's, the same for every process.

When evidence was acknowledged, when a group is due and whether that time has come are all read
here, so that no process's own clock decides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from sqlalchemy import Connection

from store.database import database_now

_offset: Callable[[], timedelta] | None = None


def now(connection: Connection) -> datetime:
    """This moment, by the database's clock."""
    moment: datetime = database_now(connection)
    return moment if _offset is None else moment + _offset()


@contextlib.contextmanager
def shifted(offset: Callable[[], timedelta]) -> Iterator[None]:
    """Add an offset, for tests that let hours pass on a server that skips time."""
    global _offset
    before, _offset = _offset, offset
    try:
        yield
    finally:
        _offset = before
