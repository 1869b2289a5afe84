from __future__ import annotations

import datetime
import io
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.formula.translate import Translator

from activities.extract.formulas import column_letters, column_number, shift_formula, split_address
from tests.activities.extract.conftest import Files
from tests.activities.extract.documents import changed_zip, saved, with_sheet, workbook


def cell(address: str, value: Any, formula: str | None = None, error: str | None = None) -> dict[str, Any]:
    return {"address": address, "value": value, "formula": formula, "error": error}


async def cells(files: Files, data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await files.output(data, "xlsx"))["sheets"][0]["cells"]
    return found


async def test_cells_come_in_row_order_with_address_value_formula_and_error(files: Files) -> None:
    data = with_sheet(
        '<row r="1"><c r="A1" t="s"><v>1</v></c><c r="B1"><v>90</v></c><c r="C1"><v>0.1</v></c></row>'
        '<row r="3"><c r="A3" t="b"><v>1</v></c><c r="B3" t="inlineStr"><is><t>inline</t></is></c>'
        '<c r="C3" t="str"><f>A1&amp;"x"</f><v>refundx</v></c><c r="D3" t="e"><f>1/0</f><v>#DIV/0!</v></c>'
        '<c r="E3" s="1"/></row>',
        "<si><t>unused</t></si><si><r><t>re</t></r><r><t>fund</t></r><rPh><t>hint</t></rPh></si>",
    )
    extracted = await files.extract(data, "xlsx")
    assert extracted.output == {
        "format": "xlsx",
        "sheets": [
            {
                "name": "Sheet",
                "cells": [
                    cell("A1", "refund"),
                    cell("B1", 90),
                    cell("C1", 0.1),
                    cell("A3", True),
                    cell("B3", "inline"),
                    cell("C3", "refundx", 'A1&"x"'),
                    cell("D3", None, "1/0", "#DIV/0!"),
                ],
            }
        ],
    }
    assert extracted.places.document == extracted.output


async def test_a_formula_without_a_cached_value_has_value_null(files: Files) -> None:
    assert await cells(files, workbook([["=1+1"]])) == [cell("A1", None, "1+1")]


async def test_dates_are_the_numbers_that_are_stored(files: Files) -> None:
    found = await cells(files, workbook([[datetime.datetime(2026, 1, 2, 12, tzinfo=None)]]))  # noqa: DTZ001
    assert found == [cell("A1", 46024.5)]


async def test_a_shared_formula_is_written_out_for_every_cell(files: Files) -> None:
    data = with_sheet(
        '<row r="1"><c r="B1"><f t="shared" ref="B1:B3" si="0">A1*$D$1+LOG10(A1)</f><v>1</v></c></row>'
        '<row r="2"><c r="B2"><f t="shared" si="0"/><v>2</v></c></row>'
        '<row r="3"><c r="B3"><f t="shared" si="0"/></c></row>'
    )
    assert await cells(files, data) == [
        cell("B1", 1, "A1*$D$1+LOG10(A1)"),
        cell("B2", 2, "A2*$D$1+LOG10(A2)"),
        cell("B3", None, "A3*$D$1+LOG10(A3)"),
    ]


async def test_cells_without_an_address_take_the_next_place(files: Files) -> None:
    data = with_sheet(
        '<row><c><v>1</v></c><c><v>2</v></c></row><row r="5"><c r="C5"><v>3</v></c><c><v>4</v></c></row>'
    )
    assert [found["address"] for found in await cells(files, data)] == ["A1", "B1", "C5", "D5"]


async def test_escaped_characters_are_the_characters(files: Files) -> None:
    data = with_sheet('<row r="1"><c r="A1" t="str"><v>a_x000D_b_x005F_x000D__xD83D_</v></c></row>')
    assert (await cells(files, data))[0]["value"] == "a\rb_x000D__xD83D_"


async def test_sheets_stand_in_workbook_order_hidden_ones_too(files: Files) -> None:
    book = openpyxl.Workbook()
    book.active.title = "Zahlen"
    book.create_sheet("versteckt").sheet_state = "hidden"
    book["versteckt"]["B2"] = "你好 \U0001f600"
    output = await files.output(saved(book), "xlsx")
    assert output["sheets"] == [
        {"name": "Zahlen", "cells": []},
        {"name": "versteckt", "cells": [cell("B2", "你好 \U0001f600")]},
    ]


async def test_values_and_formulas_are_those_that_openpyxl_reads(files: Files) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in range(1, 40):
        sheet.append(
            [row, row * 1.5, f"text {row}", row % 2 == 0, f"=A{row}+B{row}", None, -row * 10**12, " space "]
        )
    data = saved(book)
    oracle = openpyxl.load_workbook(io.BytesIO(data)).active
    expected = []
    for line in oracle.iter_rows():
        for found in line:
            if found.value is not None:
                formula = found.value[1:] if found.data_type == "f" else None
                expected.append(cell(found.coordinate, None if formula else found.value, formula))
    assert await cells(files, data) == expected


@pytest.mark.parametrize(
    "bad",
    [
        '<c r="A1"><v>ninety</v></c>',
        '<c r="A1"><v>1e999</v></c>',
        '<c r="A1"><v>NaN</v></c>',
        '<c r="A1" t="s"><v>7</v></c>',
        '<c r="A1" t="s"><v>-1</v></c>',
        '<c r="A1" t="b"><v>yes</v></c>',
        '<c r="A0"><v>1</v></c>',
        '<c r="XFE1"><v>1</v></c>',
        '<c r="A1"><f t="shared" si="3"/></c>',
    ],
)
async def test_a_cell_that_cannot_be_read_fails_the_file(files: Files, bad: str) -> None:
    assert "broken xlsx" in await files.refusal(
        with_sheet(f'<row r="1">{bad}</row>', "<si><t>x</t></si>"), "xlsx"
    )


async def test_a_workbook_without_sheets_is_broken_and_not_empty(files: Files) -> None:
    data = changed_zip(workbook([["a"]]), {"xl/workbook.xml": b"<workbook><sheets/></workbook>"})
    assert "no sheet" in await files.refusal(data, "xlsx")


async def test_one_long_string_named_a_million_times_is_over_the_limit(files: Files) -> None:
    many = '<c t="s"><v>0</v></c>' * 5000
    data = with_sheet(f"<row>{many}</row>", f"<si><t>{'x' * 30000}</t></si>")
    assert "64 MiB" in await files.limit(data, "xlsx")


REFERENCES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "$"]),
    st.sampled_from(["C", "z", "AB"]),
    st.sampled_from(["", "$"]),
    st.integers(10, 99),
)
OTHERS = st.sampled_from(
    [
        '"A1 ""q"" B2"',
        "1.5",
        "SUM(C15,D$6)",
        "TRUE",
        "'A1 b'!C12",
        "Sheet1!D14",
        "E10:F20",
        "LOG10(2)",
        "x_1",
    ]
)


@given(
    st.lists(st.one_of(REFERENCES, OTHERS), min_size=1, max_size=8), st.integers(-2, 9), st.integers(-9, 9)
)
def test_a_moved_formula_is_the_one_openpyxl_makes(parts: list[str], columns: int, rows: int) -> None:
    formula = "+".join(parts)
    target = f"{column_letters(10 + columns)}{20 + rows}"
    expected = Translator("=" + formula, origin="J20").translate_formula(target)[1:]
    # Spreadsheets write columns in capitals; openpyxl does so only for those that move.
    assert shift_formula(formula, columns, rows).upper() == expected.upper()


def test_what_only_looks_like_a_reference_stays() -> None:
    for formula in (
        '"A1"',
        "'A1'!$B$1",
        "LOG10(1)",
        "Tbl[A1]",
        "Tbl[[A1]:[B2]]",
        "A1.x",
        "_A1",
        "A1B",
        "name_A1",
        "1E5",
    ):
        assert shift_formula(formula, 1, 1) == formula


def test_a_reference_that_leaves_the_sheet_is_no_reference() -> None:
    assert shift_formula("A1+XFD5", -1, 0) == "#REF!+XFC5"
    assert shift_formula("A:B", 2, 7) == "C:D"
    assert shift_formula("3:$4", 2, 7) == "10:$4"


@given(st.integers(1, 16384))
def test_column_letters_and_numbers_are_inverse(number: int) -> None:
    assert column_number(column_letters(number)) == number


def test_addresses() -> None:
    assert split_address("XFD1048576") == (16384, 1048576)
    for bad in ("", "A", "1", "a1", "A01", "A1048577", "XFE1", "$A$1", "A1 "):
        assert split_address(bad) is None
