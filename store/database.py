"""One SQL database, SQLite or PostgreSQL, behind two calls: `read` and `write`.

Repositories are synchronous functions over a SQLAlchemy connection; the database runs each in
a thread, one hop a transaction. On SQLite every write goes through one thread that commits
what has queued up together (each write in a savepoint of its own), because a commit waits for
the disk and waiting once for many is what keeps the embedded set-up fast.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, Table, create_engine, event, text
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import QueuePool

from wyrd.errors import Code, WyrdError

P = ParamSpec("P")
T = TypeVar("T")

_BATCH = 64
_FAULTS_OF_OURS = ("no such ", "near ", "table ")
"""How SQLite begins what it also calls operational, but no waiting will mend."""
_Job = tuple[Callable[[Connection], Any], "Future[Any]"]


def utc_now() -> datetime:
    """This process's clock. Due decisions ask the database instead (`Database.clock`)."""
    return datetime.now(UTC)


def _sqlite_engine(url: str) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=10,
        max_overflow=10,
        connect_args={"check_same_thread": False, "timeout": 30.0, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A deferred transaction that writes later can fail with "database is locked" at once,
        # whatever the busy timeout: the lock is taken up front instead.
        mode = "IMMEDIATE" if connection.get_execution_options().get("wyrd_write") else "DEFERRED"
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


class Database:
    """Opens nothing until first used. `close` waits for the writes under way."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sqlite = url.startswith("sqlite")
        if self.sqlite:
            self.engine = _sqlite_engine(url)
        else:
            self.engine = create_engine(url, pool_size=10, max_overflow=10, pool_pre_ping=True)
        self._threads = ThreadPoolExecutor(12, thread_name_prefix="wyrd-sql")
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` in a transaction that is rolled back at its end."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self.read_now, work, *arguments
        )

    async def write(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` and commit; what it raises rolls it back.

        The work may run again after a lost connection, so its writes land on natural keys.
        """
        return await asyncio.wrap_future(self._submit(work, arguments))

    def read_now(self, work: Callable[..., T], *arguments: Any) -> T:
        """`read`, in the calling thread."""
        with _translated(), self.engine.connect() as connection, connection.begin() as transaction:
            try:
                return work(connection, *arguments)
            finally:
                transaction.rollback()

    def write_now(self, work: Callable[..., T], *arguments: Any) -> T:
        """`write`, waited for in the calling thread."""
        result: T = self._submit(work, arguments).result()
        return result

    async def clock(self) -> datetime:
        """Now, by the database's clock."""
        return await self.read(database_now)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            writer = self._writer
        if writer is not None:
            self._jobs.put(None)
            writer.join()
        self._threads.shutdown(wait=True)
        self.engine.dispose()

    def _submit(self, work: Callable[..., T], arguments: tuple[Any, ...]) -> Future[T]:
        if not self.sqlite:
            return self._threads.submit(self._write_alone, work, arguments)
        with self._lock:
            if self._closed:
                raise WyrdError(Code.SERVER_503_SERVICE_UNAVAILABLE, "the database is closed")
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_loop, name="wyrd-sql-writer", daemon=True)
                self._writer.start()
        future: Future[T] = Future()
        self._jobs.put(((lambda connection: work(connection, *arguments)), future))
        return future

    def _write_alone(self, work: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        with _translated(), self.engine.begin() as connection:
            return work(connection, *arguments)

    def _write_loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch = [job]
            last = False
            while len(batch) < _BATCH:
                try:
                    more = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    last = True
                    break
                batch.append(more)
            self._write_batch(batch)
            if last:
                return

    def _write_batch(self, batch: list[_Job]) -> None:
        done: list[tuple[Future[Any], Any]] = []
        # From here on none can be cancelled, so that setting its outcome never fails: this thread must live.
        batch = [job for job in batch if job[1].set_running_or_notify_cancel()]
        try:
            writing = self.engine.connect().execution_options(wyrd_write=True)
            with _translated(), writing as connection, connection.begin():
                for work, future in batch:
                    failed: OperationalError | None = None
                    try:
                        with connection.begin_nested():
                            try:
                                result = work(connection)
                            except OperationalError as error:
                                failed = error
                                raise
                    except OperationalError as error:
                        # A full disk ends the whole transaction, so that leaving the savepoint fails too.
                        raise failed or error from None
                    except Exception as error:
                        future.set_exception(error)
                    else:
                        done.append((future, result))
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for future, result in done:
            future.set_result(result)


def database_now(connection: Connection) -> datetime:
    """The database server's clock; on SQLite, which runs in this process, the process's."""
    if connection.dialect.name == "sqlite":
        return utc_now()
    return connection.execute(text("SELECT clock_timestamp()")).scalar_one()  # type: ignore[no-any-return]


def insert_or_nothing(connection: Connection, table: Table) -> Any:
    """An INSERT that leaves a row which is already there as it is; `rowcount` tells which it was."""
    # Without the option SQLAlchemy answers -1 on PostgreSQL, which looks like one row.
    if connection.dialect.name == "sqlite":
        return sqlite_insert(table).on_conflict_do_nothing()
    return postgresql_insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)


def _no_room(error: Any) -> bool:
    """Whether the database could not write for want of disk space (PostgreSQL: 53100)."""
    return getattr(error, "sqlstate", None) == "53100" or str(error).startswith("database or disk is full")


@contextlib.contextmanager
def _translated() -> Any:
    """An unreachable database is a 503, and a full disk a 507, whatever the driver calls them."""
    try:
        yield
    except OperationalError as error:
        if str(error.orig).startswith(_FAULTS_OF_OURS):
            raise
        if _no_room(error.orig):
            raise WyrdError(
                Code.VALA_507_WAL_DISK_FULL, "the disk of the database is full; nothing of this was stored"
            ) from error
        raise WyrdError(
            Code.SERVER_503_SERVICE_UNAVAILABLE, "the database cannot be reached", service="database"
        ) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise WyrdError(
                Code.SERVER_503_SERVICE_UNAVAILABLE,
                "the connection to the database was lost",
                service="database",
            ) from error
        raise
