"""Taking cuts: every row once, whatever is published while one is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from sqlalchemy import event, update

from bifrost.catalog import Catalogs
from bifrost.names import TRACE_SPANS, TableName
from bifrost.reading import Cuts
from store.caller import Tenant
from store.database import Database
from store.settings import Settings
from store.tables.iceberg import iceberg_tables
from tests.bifrost.published import TICKETS, Desk
from tests.servers import free_ports
from wyrd.errors import Code, WyrdError


def test_p63_a_publication_at_any_point_of_taking_a_cut_hides_and_repeats_no_row(desk: Desk) -> None:
    """A cut is statements to the database and files it opens. Before each of them, in turn, everything
    that waits is published by another, with a row that only then arrives."""
    point, expected = 0, ["first"]
    desk.put("first")
    desk.publisher.publish(desk.tenant, TICKETS)
    while True:
        waiting, arriving = f"waiting-{point}", f"arriving-{point}"
        desk.put(waiting)
        expected.append(waiting)

        def meanwhile(arriving: str = arriving) -> None:
            desk.put(arriving)
            assert desk.publisher.publish(desk.tenant, TICKETS) == 2

        # A process that has read nothing yet, and so opens every file.
        catalogs = Catalogs(desk.settings, desk.database)
        cuts = Cuts(desk.database, catalogs)
        with _at(desk, point, meanwhile) as met:
            seen = sorted(cuts.rows_now(desk.tenant, TICKETS)["ticket_id"].to_pylist())
        cuts.close()
        assert sorted(set(seen)) == seen
        assert set(expected) <= set(seen) <= {*expected, arriving}
        if not met:
            break
        expected.append(arriving)
        assert desk.ids() == sorted(expected)
        point += 1
    assert point > 5, "a cut has more points than these"


async def test_p63_several_tables_are_cut_at_the_same_moment(desk: Desk) -> None:
    desk.put("a")
    cuts = await desk.cuts.take(desk.tenant, [TICKETS, TRACE_SPANS])
    assert [batch.num_rows for batch in cuts[TICKETS].tail] == [1]
    assert (cuts[TRACE_SPANS].files, cuts[TRACE_SPANS].tail) == ((), [])
    assert cuts[TRACE_SPANS].schema.get_field_index("trace_id") >= 0


async def test_p63_rows_are_filtered_and_projected_alike_in_files_and_in_the_tail(desk: Desk) -> None:
    desk.put("a", priority=1)
    desk.put("b", priority=2)
    await desk.publisher.pass_once(everything=True)
    desk.put("c", priority=2)
    found = await desk.cuts.rows(
        desk.tenant, TICKETS, filter=pc.field("priority") == 2, columns=["ticket_id"]
    )
    assert found.column_names == ["ticket_id"]
    assert sorted(found["ticket_id"].to_pylist()) == ["b", "c"]


async def test_p63_what_a_file_says_is_read_once(
    embedded_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = embedded_desk
    desk.put("a")
    await desk.publisher.pass_once(everything=True)
    first = await desk.cuts.take(desk.tenant, [TICKETS])
    opened: list[str] = []
    plain = type(desk.catalogs.io).new_input

    def counted(self: Any, location: str) -> Any:
        opened.append(location)
        return plain(self, location)

    monkeypatch.setattr(type(desk.catalogs.io), "new_input", counted)
    assert await desk.cuts.take(desk.tenant, [TICKETS]) == first
    assert opened == []


async def test_p63_a_cut_takes_no_more_of_a_backlog_than_fits_the_oldest_first(
    embedded_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = embedded_desk
    size = len(desk.put("a").payload)
    desk.put("b")
    desk.put("c")
    monkeypatch.setattr("bifrost.reading.TAIL_BYTES", 2 * size)
    assert desk.ids() == ["a", "b"]
    await desk.publisher.pass_once(everything=True)
    assert desk.ids() == ["a", "b", "c"]


async def test_p63_an_unknown_table_is_told_as_such(desk: Desk) -> None:
    with pytest.raises(WyrdError) as raised:
        await desk.cuts.take(desk.tenant, [TableName("vala.datasets", "nothing")])
    assert raised.value.member is Code.VALA_404_BIFROST_TABLE_NOT_FOUND


async def test_p64_storage_that_is_away_is_told_by_its_code_and_rows_wait_for_it(
    tmp_path: Path, embedded_desk: Desk
) -> None:
    desk = embedded_desk
    (port,) = free_ports(1)
    away = Desk(
        desk.database,
        tmp_path,
        warehouse_url="s3://wyrd-tables/away",
        s3_endpoint=f"http://127.0.0.1:{port}",
        s3_access_key="key",
        s3_secret_key="secret",
    )
    away.put("a")
    assert await away.publisher.pass_once(everything=True) == 0
    assert away.waiting() == 1
    assert away.ids() == ["a"], "nothing was ever published there: the tail is all there is"
    # The storage is back, which here is another one.
    assert await desk.publisher.pass_once(everything=True) == 1
    desk.database.write_now(
        lambda connection: connection.execute(
            update(iceberg_tables).values(metadata_location="s3://wyrd-tables/away/0-x.metadata.json")
        )
    )
    with pytest.raises(WyrdError) as raised:
        await away.cuts.take(away.tenant, [TICKETS])
    assert raised.value.member is Code.VALA_503_BIFROST_STORAGE_UNREACHABLE
    away.close()


async def test_p64_a_catalog_that_is_away_is_told_by_its_code(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    database = Database(f"postgresql+psycopg://nobody@127.0.0.1:{port}/none?connect_timeout=1")
    cuts = Cuts(database, Catalogs(Settings(home=tmp_path), database))
    with pytest.raises(WyrdError) as raised:
        await cuts.take(Tenant("01890000-0000-7000-8000-00000000000a", "acme"), [TICKETS])
    assert raised.value.member is Code.VALA_503_BIFROST_CATALOG_UNREACHABLE
    cuts.close()
    database.close()


class _at:
    """Calls `work` before the statement or the opening of a file that is the `point`-th from here on."""

    def __init__(self, desk: Desk, point: int, work: Callable[[], None]) -> None:
        self._desk, self._left, self._work = desk, point, work
        self._patch = pytest.MonkeyPatch()
        self._met: list[None] = []
        self._busy = False

    def _pass(self, *_: Any) -> None:
        if self._busy or self._met:
            return
        if self._left:
            self._left -= 1
            return
        self._busy = True
        self._met.append(None)
        self._work()
        self._busy = False

    def __enter__(self) -> list[None]:
        plain = type(self._desk.catalogs.io).new_input

        def opened(io: Any, location: str) -> Any:
            self._pass()
            return plain(io, location)

        self._patch.setattr(type(self._desk.catalogs.io), "new_input", opened)
        event.listen(self._desk.database.engine, "before_cursor_execute", self._statement)
        return self._met

    def _statement(
        self, _connection: Any, _cursor: Any, statement: str, _values: Any, _context: Any, _many: bool
    ) -> None:
        # SET TRANSACTION must stay the first of its transaction; what comes before it is the point before.
        self._pass()

    def __exit__(self, *_: object) -> None:
        event.remove(self._desk.database.engine, "before_cursor_execute", self._statement)
        self._patch.undo()
