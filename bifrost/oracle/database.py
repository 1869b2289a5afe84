"""One query's database: an engine in memory that reads a tenant's cuts and nothing else.

It is made for one query and closed after it. What a query could leave behind (a view, a setting, a
transaction, a cached block) has nowhere to stay, so two queries share nothing but the code.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import duckdb
import orjson
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from bifrost.oracle.gate import Passed, in_short, passed, place, plain
from bifrost.oracle.shapes import Names, Refused

_BATCH_ROWS: Final = 8192

# The order counts: no setting of files can be changed once external access is off.
_SETTINGS: Final = """
SET temp_directory = '';
SET enable_external_access = false;
SET autoinstall_known_extensions = false;
SET autoload_known_extensions = false;
SET allow_community_extensions = false;
SET allow_persistent_secrets = false;
SET enable_external_file_cache = false;
SET python_enable_replacements = false;
SET python_scan_all_frames = false;
SET threads = 2;
SET memory_limit = '512MB';
SET max_expression_depth = 250;
SET errors_as_json = true;
SET enable_progress_bar = false;
SET TimeZone = 'UTC';
ATTACH ':memory:' AS vala;
CREATE MACRO main.decode(value, format) AS
    CASE WHEN lower(format) = 'hex' THEN lower(value) ELSE error('decode reads hex') END;
"""

_TAKEN: Final = """
SELECT view_name FROM duckdb_views() UNION SELECT table_name FROM duckdb_tables()
UNION SELECT schema_name FROM duckdb_schemas() UNION SELECT database_name FROM duckdb_databases()
"""

# Types whose values an Arrow stream would change, or that clients cannot read.
_NOT_ANSWERED: Final = re.compile(r"UHUGEINT|BIGNUM|VARIANT|TIMESTAMP_NS|\bBIT\b|ENUM\(|UNION\(|GEOMETRY")

# Faults of what was asked. Everything else is ours.
_ASKED: Final = (
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.TypeMismatchException,
    duckdb.InvalidTypeException,
    duckdb.InvalidInputException,
    duckdb.NotImplementedException,
    duckdb.ConstraintException,
    duckdb.SequenceException,
)
_ASKED_WORDS: Final = (
    "Conversion Error",
    "Out of Range Error",
    "Invalid Input Error",
    "Mismatch Type Error",
    "Binder Error",
)
_MEMORY: Final = re.compile(r"out of memory|bad_alloc|failed to allocate|malloc", re.IGNORECASE)
_OURS: Final = re.compile(r"_cut_\d|arrow_scan")
_UNREAD: Final = re.compile(r"reading the stream registered as '_cut_\d+' failed: (?:IOError|Invalid)\b")
_QUOTED: Final = re.compile(r"'[^']*'")
_EXPLAIN: Final = "EXPLAIN "

# What is read ahead of a local disk costs a change of threads for each piece, and saves no waiting.
_LOCAL_PARQUET: Final = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False)
)


class Broken(Exception):
    """The query failed by no fault of the asker's; `where` is `engine` or `storage`."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


class OutOfMemory(Exception):
    """The query needs more memory than a query may have."""


class Stopped(Exception):
    """The query was interrupted."""


class Database:
    """An engine of its own, its settings locked once the tables are there."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:", config={"allow_unsigned_extensions": "false"})
        self._connection.execute(_SETTINGS)
        self._taken = _names_taken(self._connection)
        self._tables = 0
        self._paths: set[str] = set()

    def close(self) -> None:
        self._connection.close()

    def interrupt(self) -> None:
        """May be called from any thread."""
        self._connection.interrupt()

    def passed(self, sql: str, parameters: int) -> Passed:
        """What the gate says of the query. Raises `Refused`."""
        with _faults(sql):
            return passed(self._connection, sql, parameters, self._taken)

    def add(self, schema: str, name: str, cut: Mapping[str, Any], tail: bytes) -> None:
        """Make a table of a cut: its files, what is in none yet, and the Cards that may be seen."""
        with _faults(""):
            source = f"_cut_{self._tables}"
            self._tables += 1
            self._paths |= {os.path.dirname(path) for path in cut["files"]}
            self._connection.register(source, dataset(cut, tail))
            self._connection.execute(
                f'CREATE SCHEMA IF NOT EXISTS vala."{schema}";'
                f'CREATE VIEW vala."{schema}"."{name}" AS SELECT * FROM "{source}"'
            )

    def lock(self) -> None:
        """No setting changes from here on."""
        self._connection.execute("SET lock_configuration = true")

    def run(self, sql: str, values: Sequence[Any]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The answer's columns, and its rows as they are worked out.

        Raises `Refused`, `OutOfMemory`, `Stopped`, `Broken`; so does the iterator.
        """
        with _faults(sql, self._paths):
            statements = self._connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise Refused("a query is one SELECT statement")
            found = self._bound(statements[0], sql, list(values))
            for column, kind in zip(found.columns, found.types, strict=True):
                if _NOT_ANSWERED.search(str(kind)):
                    raise Refused(f"column {column[:80]!r} is of a type that answers cannot hold; cast it")
            reader = found.to_arrow_reader(_BATCH_ROWS)
            schema = _marked(reader.schema, [str(kind) for kind in found.types])
        return schema, self._batches(sql, reader)

    def _bound(self, statement: Any, sql: str, values: list[Any]) -> duckdb.DuckDBPyRelation:
        try:
            return self._connection.sql(statement, params=values or None)
        except duckdb.BinderException:
            # The same fault, with its place in the query.
            with _faults(sql, self._paths, len(_EXPLAIN)):
                self._connection.execute(_EXPLAIN + sql, values)
            raise

    def _batches(self, sql: str, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            with _faults(sql, self._paths):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch


def _names_taken(connection: duckdb.DuckDBPyConnection) -> Names:
    """The names that an engine has of its own: the same in every one that is made here, and asking
    costs as much as the engine."""
    global _names
    if _names is None:
        _names = frozenset(plain(name) for (name,) in connection.execute(_TAKEN).fetchall())
    return _names


_names: Names | None = None


def dataset(cut: Mapping[str, Any], tail: bytes) -> ds.Dataset:
    """The rows of a cut. What a Card-bound asker may not see is filtered here, below the engine: a
    condition of the query never looks at such a row, not even to fail on it."""
    with pa.ipc.open_stream(tail) as stream:
        waiting = stream.read_all()
    parts: list[ds.Dataset] = []
    if cut["files"]:
        parts.append(
            ds.FileSystemDataset.from_paths(
                cut["files"],
                schema=waiting.schema,
                format=_LOCAL_PARQUET if cut["storage"] is None else ds.ParquetFileFormat(),
                filesystem=_filesystem(orjson.dumps(cut["storage"])),
            )
        )
    if waiting.num_rows or not parts:
        parts.append(ds.dataset(waiting))
    rows = parts[0] if len(parts) == 1 else ds.UnionDataset(waiting.schema, parts)
    if cut["cards"] is None:
        return rows
    card = ds.field("card_uid")
    return rows.filter(card.is_null() | card.isin(pa.array(cut["cards"], pa.string())))


@functools.lru_cache(8)
def _filesystem(options: bytes) -> pyarrow.fs.FileSystem:
    given = orjson.loads(options)
    if given is None:
        return pyarrow.fs.LocalFileSystem()
    return pyarrow.fs.S3FileSystem(**given, connect_timeout=5, request_timeout=30)


def _marked(schema: pa.Schema, kinds: Sequence[str]) -> pa.Schema:
    """JSON columns say that they are: clients decode those."""
    fields = [
        field.with_metadata({"wyrd.type": "variant"}) if kind == "JSON" else field
        for field, kind in zip(schema, kinds, strict=True)
    ]
    return pa.schema(fields)


class _faults:
    """The engine's exceptions as ours."""

    def __init__(self, sql: str, paths: Collection[str] = (), before: int = 0) -> None:
        self._sql = sql
        self._paths = paths
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
            raise OutOfMemory from None
        if isinstance(error, duckdb.InterruptException):
            raise Stopped from None
        if isinstance(error, _ASKED):
            raise self._refusal(str(error)) from None
        if isinstance(error, RecursionError):
            raise Refused("the query is nested too deeply") from None
        if isinstance(error, duckdb.Error | pa.ArrowException | OSError):
            raise self._told(error) from None

    def _refusal(self, told: str) -> Exception:
        text, at = _words(told)
        if "Arrow Appender" in text:
            return OutOfMemory()
        if _UNREAD.match(text):
            # The engine takes every fault of what it reads from for one of what was asked.
            return OutOfMemory() if _MEMORY.search(_QUOTED.sub("", text)) else Broken("storage")
        if _OURS.search(text) or any(path in text for path in self._paths):
            # The engine's words name something of ours: they are not repeated.
            return Refused("the query cannot be run")
        return Refused(place(self._sql, None if at is None else at - self._before) + in_short(text))

    def _told(self, error: Exception) -> Exception:
        """What comes by way of Arrow's stream has lost its type, and so is read."""
        told = str(error)
        if _MEMORY.search(told):
            return OutOfMemory()
        if told.startswith("INTERRUPT"):
            return Stopped()
        if told.startswith(_ASKED_WORDS):
            return self._refusal(told)
        if isinstance(error, OSError | duckdb.IOException | duckdb.HTTPException):
            return Broken("storage")
        return Broken("engine")


def _words(told: str) -> tuple[str, int | None]:
    """What the engine says, and the place in the query it says it of."""
    text = told.partition(": ")[2] or told
    if text.startswith("{"):
        try:
            found = orjson.loads(text)
            position = str(found.get("position", ""))
            return str(found["exception_message"]), int(position) if position.isdigit() else None
        except (orjson.JSONDecodeError, KeyError, AttributeError):
            pass
    return text, None
