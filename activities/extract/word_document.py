"""docx: the paragraphs and tables of a document in reading order.

Everything a reader of the finished document sees as text is taken: inserted text, content controls,
fields' results, text boxes, formulas' characters, and after the body the headers, footers,
footnotes and endnotes (marked by `part`). Deleted text and comments are not part of the document.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import docx
from docx.opc.exceptions import OpcError
from lxml import etree

from activities.extract.office import local_name, open_package, parse_xml, xml_fault
from activities.extract.reading import OutputBudget, Reading, unreadable

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_CHARACTERS = {"tab": "\t", "ptab": "\t", "cr": "\n", "noBreakHyphen": "-"}
_SKIPPED = frozenset(
    ("del", "moveFrom", "Fallback", "pPr", "rPr", "tblPr", "trPr", "tcPr", "sdtPr", "instrText")
)
_BESIDE = ("header", "footer", "footnotes", "endnotes")
_CELL_OVERHEAD = 60


def extract(data: bytes) -> Reading:
    """`{format, blocks}`: `{kind: paragraph, text, style}` or `{kind: table, rows[][]}`.

    `style` is the style's id, null where the paragraph has the default one. A table is a grid: the
    columns and rows that a merged cell covers beyond its first hold "".
    """
    package = open_package(data, "docx")
    if package.strict:
        raise unreadable("the docx file is in the strict form of Office Open XML, which cannot be read here")
    try:
        document = docx.Document(io.BytesIO(data))
        body = document.element.body
    except etree.XMLSyntaxError as error:
        raise xml_fault(error, "the docx file") from None
    except (KeyError, ValueError, OpcError) as error:
        raise unreadable(f"broken docx file: {error}") from None
    budget = OutputBudget()
    blocks = list(_blocks(body, budget))
    for kind in _BESIDE:
        # By name, so that the order does not depend on how an application numbered its relations.
        parts = {
            str(relation.target_part.partname): relation.target_part.blob
            for relation in document.part.rels.values()
            if not relation.is_external and relation.reltype.endswith(f"/{kind}")
        }
        for name in sorted(parts):
            root = parse_xml(parts[name], name)
            blocks.extend(block | {"part": kind} for block in _blocks(root, budget) if _says_something(block))
    return Reading(output={"format": "docx", "blocks": blocks})


def _says_something(block: dict[str, Any]) -> bool:
    return bool(block["text"]) if block["kind"] == "paragraph" else any(map(any, block["rows"]))


def _blocks(parent: Any, budget: OutputBudget) -> Iterator[dict[str, Any]]:
    for child in parent:
        name = local_name(child)
        if name == "p":
            yield from _paragraph(child, budget)
        elif name == "tbl":
            yield {"kind": "table", "rows": _rows(child, budget)}
        elif name not in _SKIPPED and name != "sectPr":
            # Content controls, custom XML, insertions, notes: whatever wraps blocks.
            yield from _blocks(child, budget)


def _paragraph(element: Any, budget: OutputBudget) -> Iterator[dict[str, Any]]:
    boxes: list[Any] = []
    text = "".join(_pieces(element, boxes))
    style = element.find(f"{_W}pPr/{_W}pStyle")
    budget.spend(len(text) + _CELL_OVERHEAD)
    yield {"kind": "paragraph", "text": text, "style": None if style is None else style.get(f"{_W}val")}
    for box in boxes:
        yield from _blocks(box, budget)


def _pieces(parent: Any, boxes: list[Any]) -> Iterator[str]:
    """The text in an element of a paragraph; text boxes anchored in it are put aside in `boxes`."""
    for child in parent:
        name = local_name(child)
        if name == "t":
            yield child.text or ""
        elif name in _CHARACTERS and child.tag.startswith(_W):
            yield _CHARACTERS[name]
        elif name == "br":
            # Page and column breaks are layout, as they are between paragraphs.
            yield "\n" if child.get(f"{_W}type", "textWrapping") == "textWrapping" else ""
        elif name == "sym":
            yield _symbol(child)
        elif name == "txbxContent":
            boxes.append(child)
        elif name not in _SKIPPED:
            yield from _pieces(child, boxes)


def _symbol(element: Any) -> str:
    try:
        return chr(int(element.get(f"{_W}char", ""), 16))
    except ValueError:
        return "\ufffd"


def _rows(table: Any, budget: OutputBudget) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in _inside(table, "tr"):
        cells: list[str] = []
        before = row.find(f"{_W}trPr/{_W}gridBefore")
        cells.extend([""] * _span(before))
        for cell in _inside(row, "tc"):
            properties = cell.find(f"{_W}tcPr")
            merge = None if properties is None else properties.find(f"{_W}vMerge")
            continued = merge is not None and merge.get(f"{_W}val", "continue") == "continue"
            text = "" if continued else _cell_text(cell, budget)
            span = 1 if properties is None else max(1, _span(properties.find(f"{_W}gridSpan")))
            budget.spend(len(text) + 4 * span)
            cells.extend([text, *[""] * (span - 1)])
        rows.append(cells)
    return rows


def _span(element: Any) -> int:
    value = "" if element is None else element.get(f"{_W}val", "")
    # Word knows 63 columns; a larger number is an attempt to fill memory.
    return min(int(value), 63) if value.isascii() and value.isdigit() and len(value) < 9 else 0


def _inside(parent: Any, name: str) -> Iterator[Any]:
    """The rows of a table or the cells of a row, also those in content controls."""
    for child in parent:
        found = local_name(child)
        if found == name:
            if name != "tr" or child.find(f"{_W}trPr/{_W}del") is None:
                yield child
        elif found not in _SKIPPED and found not in ("tblGrid", "tblPrEx"):
            yield from _inside(child, name)


def _cell_text(cell: Any, budget: OutputBudget) -> str:
    """Paragraphs by lines; a table in a cell by lines of cells with tabs between."""
    lines: list[str] = []
    for block in _blocks(cell, budget):
        if block["kind"] == "paragraph":
            lines.append(block["text"])
        else:
            lines.extend("\t".join(row) for row in block["rows"])
    return "\n".join(lines)
