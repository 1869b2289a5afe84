"""Tables of a tenant: registered once, growing only by columns that may be null."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from bifrost.builtin import BUILTIN, LAYOUTS
from bifrost.columns import CORRELATION, SYSTEM
from bifrost.names import (
    DRIFT_OBSERVATIONS,
    EXECUTION_INPUTS,
    TRACE_SPANS,
    VERIFICATION_RESULTS,
    TableName,
)
from bifrost.tables import StoredTable, Tables
from store.caller import Tenant
from store.database import Database
from store.tenants import make_tenant
from wyrd.errors import WyrdError
from wyrd.wire.arrow_fields import arrow_schema
from wyrd.wire.bifrost import FieldSpec, RegisterTable, TableRegistered
from wyrd.wire.table_names import RESERVED_COLUMNS
from wyrd.wire.table_schema import TIMESTAMP_UTC

TICKETS = TableName("vala.datasets", "tickets")
TEXT = {"name": "question", "data_type": "Utf8"}
WHEN = {"name": "opened_at", "data_type": {"Timestamp": {"unit": "Microsecond", "tz": "+00:00"}}}
SCORE = {"name": "score", "data_type": "Float64", "nullable": True}


class Desk:
    """The tables of one tenant."""

    def __init__(self, database: Database, slug: str = "acme") -> None:
        self.database = database
        self.tenant: Tenant = database.write_now(make_tenant, slug)

    def register(self, *fields: dict[str, Any], name: str = "tickets", **more: Any) -> TableRegistered:
        asked = RegisterTable.model_validate(
            {"namespace": "datasets", "name": name, "fields": list(fields), **more}
        )
        return self.database.write_now(lambda connection: Tables(connection, self.tenant).register(asked))

    def refused(self, *fields: dict[str, Any], **more: Any) -> WyrdError:
        with pytest.raises(WyrdError) as caught:
            self.register(*fields, **more)
        return caught.value

    def find(self, name: TableName = TICKETS) -> StoredTable:
        return self.database.read_now(lambda connection: Tables(connection, self.tenant).find(name))

    def all(self) -> list[StoredTable]:
        return self.database.read_now(lambda connection: Tables(connection, self.tenant).all())

    def keep(self, name: TableName, days: int | None) -> StoredTable:
        return self.database.write_now(
            lambda connection: Tables(connection, self.tenant).keep_days(name, days)
        )


@pytest.fixture
def tables(database: Database) -> Desk:
    return Desk(database)


@pytest.fixture
def embedded(sqlite_database: Database) -> Desk:
    return Desk(sqlite_database)


def test_a_table_is_made_once_and_found_again(tables: Desk) -> None:
    made = tables.register(TEXT, WHEN)
    assert made.outcome == "Created"
    again = tables.register(WHEN, {**TEXT, "metadata": {"PARQUET:field_id": "1"}}, namespace="vala.datasets")
    assert (again.outcome, again.table_uid) == ("AlreadyExists", made.table_uid)
    assert again.fingerprint == made.fingerprint
    found = tables.find()
    assert [field.name for field in found.fields] == ["question", "opened_at"]
    assert found.schema() == arrow_schema([*found.fields, *SYSTEM])
    assert (found.uid, found.status, found.retention_days) == (made.table_uid, "Active", None)


def test_a_table_grows_by_columns_that_may_be_null(tables: Desk) -> None:
    made = tables.register(TEXT)
    grown = tables.register(SCORE, TEXT)
    assert (grown.outcome, grown.table_uid) == ("AlreadyExists", made.table_uid)
    assert grown.fingerprint != made.fingerprint
    assert [field.name for field in tables.find().fields] == ["question", "score"]
    assert tables.find().registered_at < tables.find().updated_at


@pytest.mark.parametrize(
    "fields",
    [
        [{**TEXT, "data_type": "Int64"}],
        [{**TEXT, "nullable": True}],
        [{**SCORE, "nullable": False}, TEXT],
        [SCORE],
        [{**TEXT, "name": "query"}],
    ],
    ids=["type", "nullability", "new and required", "a column less", "renamed"],
)
def test_any_other_change_of_columns_is_a_fingerprint_mismatch(
    embedded: Desk, fields: list[dict[str, Any]]
) -> None:
    before = embedded.register(TEXT)
    error = embedded.refused(*fields)
    assert error.code == "WYRD_VALA_409_BIFROST_FINGERPRINT_MISMATCH"
    assert error.details == {"table": "vala.datasets.tickets"}
    assert embedded.find().fingerprint == before.fingerprint


def test_a_struct_does_not_grow(embedded: Desk) -> None:
    one = {"name": "customer", "data_type": {"Struct": [{"name": "name", "data_type": "Utf8"}]}}
    more = {"name": "age", "data_type": "Int64", "nullable": True}
    embedded.register(one)
    wider = {**one, "data_type": {"Struct": [*one["data_type"]["Struct"], more]}}  # type: ignore[index]
    assert embedded.refused(wider).code == "WYRD_VALA_409_BIFROST_FINGERPRINT_MISMATCH"


@pytest.mark.parametrize(
    ("option", "other", "code"),
    [
        (
            {"physical_layout": {"time_column": "opened_at"}},
            {"physical_layout": {"partition_granularity": "hour", "time_column": "opened_at"}},
            "WYRD_VALA_409_BIFROST_LAYOUT_MISMATCH",
        ),
        (
            {"compaction_target_file_size_bytes": 2**21},
            {"compaction_target_file_size_bytes": 2**22},
            "WYRD_VALA_409_BIFROST_COMPACTION_TARGET_MISMATCH",
        ),
        (
            {"compaction_type": "full"},
            {"compaction_type": "auto"},
            "WYRD_VALA_409_BIFROST_COMPACTION_TYPE_MISMATCH",
        ),
    ],
)
def test_options_stay_as_they_were_and_one_that_is_not_given_agrees(
    embedded: Desk, option: dict[str, Any], other: dict[str, Any], code: str
) -> None:
    embedded.register(TEXT, WHEN, **option)
    assert embedded.register(TEXT, WHEN, **option).outcome == "AlreadyExists"
    assert embedded.register(TEXT, WHEN).outcome == "AlreadyExists"
    error = embedded.refused(TEXT, WHEN, **other)
    assert (error.code, error.details) == (code, {"table": "vala.datasets.tickets"})


@pytest.mark.parametrize(
    "layout",
    [
        {"time_column": "closed_at"},
        {"time_column": "question"},
        {"sort_keys": [{"column": "nothing"}]},
        {"bloom_columns": ["nothing"]},
    ],
)
def test_a_layout_names_columns_of_the_table_and_a_time_column_is_a_timestamp(
    embedded: Desk, layout: dict[str, Any]
) -> None:
    error = embedded.refused(TEXT, WHEN, physical_layout=layout)
    assert error.code == "WYRD_VALA_400_BIFROST_INVALID_PHYSICAL_LAYOUT"
    assert error.details["field"] == f"physical_layout.{next(iter(layout))}"


@pytest.mark.parametrize("size", [0, 2**20 - 1, 2**30 + 1, -1])
def test_a_compaction_target_is_between_a_mebibyte_and_a_gibibyte(embedded: Desk, size: int) -> None:
    error = embedded.refused(TEXT, compaction_target_file_size_bytes=size)
    assert error.code == "WYRD_VALA_400_BIFROST_INVALID_COMPACTION_TARGET"
    assert error.details == {"table": "vala.datasets.tickets", "bytes": size}


@pytest.mark.parametrize(
    "namespace", ["vala.traces", "drift", "vala", "", "vala.datasets.more", "other.datasets"]
)
def test_only_datasets_can_be_registered(embedded: Desk, namespace: str) -> None:
    error = embedded.refused(TEXT, namespace=namespace)
    assert error.code == "WYRD_VALA_403_BIFROST_RESERVED_BUILTIN_WRITE"
    assert error.details == {"table": f"{namespace}.tickets"}


@pytest.mark.parametrize("name", ["Tickets", "1st", "", "a-b", "a.b", "../x", "x" * 64, "a b", "tickets\n"])
def test_a_table_has_a_plain_name(embedded: Desk, name: str) -> None:
    assert embedded.refused(TEXT, name=name).code == "WYRD_VALA_400_SCHEMA_PARSE"


def test_two_registrations_at_once_end_in_one_table(tables: Desk) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: tables.register(TEXT), range(8)))
    assert [one.outcome for one in made].count("Created") == 1
    assert len({(one.table_uid, one.fingerprint) for one in made}) == 1


def test_columns_that_are_added_at_once_are_all_there(tables: Desk) -> None:
    tables.register(TEXT)
    extras = [{"name": f"extra_{n}", "data_type": "Int64", "nullable": True} for n in range(6)]

    def grow(extra: dict[str, Any]) -> str:
        # Each knows only what it read: one that lost the race sees a column it was not told of.
        while True:
            known = [field.model_dump(mode="json", exclude_none=True) for field in tables.find().fields]
            try:
                return tables.register(*known, extra).outcome
            except WyrdError as error:
                if error.status != 409:
                    raise

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(grow, extras)) == {"AlreadyExists"}
    assert sorted(field.name for field in tables.find().fields) == [
        "extra_0",
        *(f"extra_{n}" for n in range(1, 6)),
        "question",
    ]


def test_built_in_tables_are_there_for_every_tenant_without_a_row(tables: Desk) -> None:
    rival = Desk(tables.database, "rival")
    tables.register(TEXT)
    mine = {table.name: table for table in tables.all()}
    theirs = {table.name: table for table in rival.all()}
    assert set(theirs) == set(BUILTIN)
    assert set(mine) == {*BUILTIN, TICKETS}
    assert list(mine) == sorted(mine)
    for name, table in theirs.items():
        assert table == rival.find(name)
        assert UUID(table.uid).version == 5
        assert table.uid != mine[name].uid
        assert table.fingerprint == mine[name].fingerprint


def test_p58_another_tenants_table_is_no_table(tables: Desk) -> None:
    rival = Desk(tables.database, "rival")
    tables.register(TEXT)
    with pytest.raises(WyrdError) as caught:
        rival.find()
    assert caught.value.code == "WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND"
    assert caught.value.details == {"table": "vala.datasets.tickets"}
    assert rival.register(SCORE).outcome == "Created"


def test_drift_observations_have_exactly_the_columns_that_clients_insist_on() -> None:
    assert [(field.name, field.data_type, field.nullable) for field in BUILTIN[DRIFT_OBSERVATIONS]] == [
        ("record_id", "Utf8", False),
        ("series", "Utf8", False),
        ("num_value", "Float64", True),
        ("str_value", "Utf8", True),
        ("session_id", "Utf8", True),
        ("created_at", TIMESTAMP_UTC, False),
    ]
    assert [field.name for field in CORRELATION] == ["card_uid", "run_id"]


def test_a_spans_links_are_structs_with_the_trace_they_lead_to() -> None:
    links = next(field for field in BUILTIN[TRACE_SPANS] if field.name == "links").data_type
    assert not isinstance(links, str)
    assert links.List is not None
    assert not isinstance(links.List.data_type, str)
    members = [one.name for one in links.List.data_type.Struct or ()]
    assert members == [
        "trace_id",
        "span_id",
        "trace_state",
        "attributes",
        "dropped_attributes_count",
        "flags",
    ]


@pytest.mark.parametrize("name", BUILTIN, ids=str)
def test_built_in_columns_are_no_system_columns_and_their_layout_names_one_of_them(name: TableName) -> None:
    columns = [field.name for field in BUILTIN[name]]
    assert len(set(columns)) == len(columns)
    assert RESERVED_COLUMNS.isdisjoint(columns)
    assert LAYOUTS[name].time_column in {None, *columns}


def test_the_reserved_columns_are_the_system_columns() -> None:
    assert {field.name for field in SYSTEM} == RESERVED_COLUMNS


@pytest.mark.parametrize("name", [TICKETS, TRACE_SPANS, VERIFICATION_RESULTS], ids=str)
def test_an_administrator_may_set_how_long_rows_are_kept(tables: Desk, name: TableName) -> None:
    tables.register(TEXT)
    before = tables.find(name)
    for days in (400, 365, None):
        assert tables.keep(name, days).retention_days == days
        found = tables.find(name)
        assert (found.retention_days, found.uid, found.fields) == (days, before.uid, before.fields)
    assert [table.name for table in tables.all()].count(name) == 1


@pytest.mark.parametrize(
    ("name", "days"),
    [(VERIFICATION_RESULTS, 364), (EXECUTION_INPUTS, 1), (TICKETS, 0), (TICKETS, -1), (TICKETS, 40_000)],
    ids=str,
)
def test_what_a_verdict_rests_on_is_kept_a_year_at_least(embedded: Desk, name: TableName, days: int) -> None:
    embedded.register(TEXT)
    with pytest.raises(WyrdError) as caught:
        embedded.keep(name, days)
    assert caught.value.code == "WYRD_SPEC_400_VALIDATION"
    assert caught.value.details["field"] == "retention_days"


def test_the_columns_of_a_table_come_back_as_they_were_registered(tables: Desk) -> None:
    deep: dict[str, Any] = {"name": "item", "data_type": "Int64"}
    for _ in range(14):
        deep = {"name": "item", "data_type": {"List": deep}}
    fields = [
        {"name": "deep", "data_type": deep["data_type"]},
        {"name": "money", "data_type": {"Decimal128": {"precision": 10, "scale": 2}}, "nullable": True},
        {"name": "wide", "data_type": "LargeUtf8", "metadata": {"note": "kept"}},
    ]
    tables.register(*fields)
    assert list(tables.find().fields) == [FieldSpec.model_validate(field) for field in fields]
