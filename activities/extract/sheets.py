"""xlsx: the cells of every sheet, streamed.

Values are those stored: a date is its number, a formula stands beside its cached value (null when
the file has none) and is written as stored, without a leading equals sign.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from lxml import etree

from activities.extract.formulas import column_letters, shift_formula, split_address
from activities.extract.office import Package, local_name, open_package, xml_fault
from activities.extract.reading import OutputBudget, Reading, unreadable

_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_INTEGER = re.compile(r"-?[0-9]{1,400}")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_CELL_OVERHEAD = 60
"""Characters of the JSON around one cell's address and contents."""

Scalar = str | int | float | bool | None


def extract(data: bytes) -> Reading:
    """`{format, sheets: [{name, cells: [{address, value, formula, error}]}]}`, sheets in workbook order."""
    package = open_package(data, "xlsx")
    budget = OutputBudget()
    relations = package.relations(package.main)
    shared: list[str] = []
    for kind, target in relations.values():
        if kind.endswith("/sharedStrings") and package.has(target):
            shared = [_rich_text(item) for item in _stream(package, target, "si")]
    sheets: list[dict[str, Any]] = []
    for sheet in package.tree(package.main).iterfind("{*}sheets/{*}sheet"):
        name = sheet.get("name", "")
        identity = next((value for key, value in sheet.attrib.items() if key.endswith("}id")), None)
        if identity not in relations:
            raise unreadable(f"broken xlsx file: sheet {name[:80]!r} is missing")
        budget.spend(len(name) + _CELL_OVERHEAD)
        sheets.append({"name": name, "cells": list(_cells(package, relations[identity][1], shared, budget))})
    if not sheets:
        # Every workbook has one; what names none was damaged, and must not read as an empty one.
        raise unreadable("broken xlsx file: the workbook names no sheet")
    return Reading(output={"format": "xlsx", "sheets": sheets})


def _stream(package: Package, name: str, tag: str) -> Iterator[Any]:
    """The elements of one tag, each freed after its use."""
    if not package.has(name):
        raise unreadable(f"broken xlsx file: {name} is missing")
    with package.archive.open(name) as stream:
        walk = etree.iterparse(
            stream,
            events=("end",),
            tag="{*}" + tag,
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
        )
        try:
            for _, element in walk:
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
        except etree.XMLSyntaxError as error:
            raise xml_fault(error, name) from None


def _cells(package: Package, part: str, shared: list[str], budget: OutputBudget) -> Iterator[dict[str, Any]]:
    masters: dict[str, tuple[str, int, int]] = {}
    row_number = 0
    for row in _stream(package, part, "row"):
        row_number = _number(row.get("r"), row_number + 1)
        column = 0
        for cell in row.iterfind("{*}c"):
            address = cell.get("r")
            if address is None:
                column += 1
                address = f"{column_letters(column)}{row_number}"
            else:
                place = split_address(address)
                if place is None:
                    raise unreadable(f"broken xlsx file: {address[:20]!r} is no cell address")
                column = place[0]
            found = _cell(cell, address, (column, row_number), shared, masters)
            if found is not None:
                spent = len(found["value"]) if isinstance(found["value"], str) else 20
                budget.spend(_CELL_OVERHEAD + spent + len(found["formula"] or ""))
                yield found


def _cell(
    cell: Any,
    address: str,
    place: tuple[int, int],
    shared: list[str],
    masters: dict[str, tuple[str, int, int]],
) -> dict[str, Any] | None:
    """One cell, or None when it holds nothing but a style."""
    formula: str | None = None
    raw: str | None = None
    inline: str | None = None
    for child in cell:
        tag = local_name(child)
        if tag == "v":
            raw = child.text or ""
        elif tag == "f":
            formula = _formula(child, place, masters)
        elif tag == "is":
            inline = _rich_text(child)
    kind = cell.get("t", "n")
    if raw is None and inline is None and formula is None:
        return None
    if kind == "e" and raw:
        return {"address": address, "value": None, "formula": formula, "error": raw}
    if kind == "inlineStr" and inline is not None:
        value: Scalar = inline
    else:
        value = _value(kind, raw, shared, address)
        if value is None and formula is None:
            return None
    return {"address": address, "value": value, "formula": formula, "error": None}


def _value(kind: str, raw: str | None, shared: list[str], address: str) -> Scalar:
    if raw is None:
        return None
    if kind in ("str", "inlineStr"):
        return _unescape(raw)
    if not raw.strip():
        return None
    if kind == "d":
        return raw
    try:
        if kind == "s":
            index = int(raw)
            if index < 0:
                raise IndexError
            return shared[index]
        if kind == "b":
            return {"0": False, "1": True, "false": False, "true": True}[raw.strip()]
        return _stored_number(raw.strip())
    except (ValueError, IndexError, KeyError):
        raise unreadable(f"broken xlsx file: the value of cell {address} cannot be read") from None


def _stored_number(raw: str) -> int | float:
    if _INTEGER.fullmatch(raw):
        return int(raw)
    number = float(raw) if _NUMBER.fullmatch(raw) else math.nan
    if not math.isfinite(number):
        raise ValueError(raw)
    return number


def _formula(element: Any, place: tuple[int, int], masters: dict[str, tuple[str, int, int]]) -> str | None:
    text = _unescape(element.text or "")
    if element.get("t") != "shared":
        return text or None
    group = element.get("si", "")
    if text:
        masters[group] = (text, *place)
        return text
    if group not in masters:
        raise unreadable("broken xlsx file: a shared formula is missing")
    master, column, row = masters[group]
    return shift_formula(master, place[0] - column, place[1] - row)


def _rich_text(item: Any) -> str:
    """The text of a string item: plain or in runs; phonetic hints are not part of it."""
    pieces: list[str] = []
    for child in item:
        tag = local_name(child)
        if tag == "t":
            pieces.append(child.text or "")
        elif tag == "r":
            pieces.extend(run.text or "" for run in child.iterfind("{*}t"))
    return _unescape("".join(pieces))


def _unescape(text: str) -> str:
    # The file format writes characters that XML cannot hold as _xHHHH_, and a literal _x as _x005F_x.
    return _ESCAPED.sub(_character, text) if "_x" in text else text


def _character(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return match[0] if 0xD800 <= code <= 0xDFFF else chr(code)


def _number(text: str | None, otherwise: int) -> int:
    if text is None:
        return otherwise
    if not _INTEGER.fullmatch(text):
        raise unreadable("broken xlsx file: a row has no proper number")
    return int(text)
