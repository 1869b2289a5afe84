"""pptx: the text of every slide in presentation order, with its tables and speaker notes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pptx
from lxml import etree
from pptx.exc import PythonPptxError

from activities.extract.office import local_name, open_package, parse_xml, xml_fault
from activities.extract.reading import OutputBudget, Reading, unreadable

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_TITLES = ("title", "ctrTitle")
_OVERHEAD = 60


def extract(data: bytes) -> Reading:
    """`{format, slides: [{number, title, paragraphs, tables: [{rows}], notes}]}`.

    `title` is null without a title placeholder and `notes` is null without notes. `paragraphs` are
    those of every other shape, in drawing order, groups and diagrams included, empty ones left
    out; a line break inside one is `\\n`.
    """
    package = open_package(data, "pptx")
    if package.strict:
        raise unreadable("the pptx file is in the strict form of Office Open XML, which cannot be read here")
    budget = OutputBudget()
    try:
        presentation = pptx.Presentation(io.BytesIO(data))
        slides = [_slide(number, slide, budget) for number, slide in enumerate(presentation.slides, start=1)]
    except etree.XMLSyntaxError as error:
        raise xml_fault(error, "the pptx file") from None
    except (KeyError, ValueError, PythonPptxError) as error:
        raise unreadable(f"broken pptx file: {error}") from None
    return Reading(output={"format": "pptx", "slides": slides}, slides=len(slides))


def _slide(number: int, slide: Any, budget: OutputBudget) -> dict[str, Any]:
    found = _Found()
    found.walk(slide.shapes._spTree, slide.part)
    notes: str | None = None
    if slide.has_notes_slide:
        frame = slide.notes_slide.notes_text_frame
        notes = None if frame is None else "\n".join(_paragraphs(frame._txBody))
    budget.spend(
        _OVERHEAD + len(notes or "") + sum(len(text) + 3 for text in (*found.titles, *found.paragraphs))
    )
    budget.spend(sum(len(cell) + 3 for table in found.tables for row in table for cell in row))
    return {
        "number": number,
        "title": "\n".join(found.titles) if found.titles else None,
        "paragraphs": [text for text in found.paragraphs if text],
        "tables": [{"rows": rows} for rows in found.tables],
        "notes": notes or None,
    }


class _Found:
    """What one slide's shapes say."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.paragraphs: list[str] = []
        self.tables: list[list[list[str]]] = []

    def walk(self, parent: Any, part: Any) -> None:
        for child in parent:
            name = local_name(child)
            if name == "sp":
                body = child.find(f"{_P}txBody")
                if body is not None:
                    into = self.titles if not self.titles and _is_title(child) else self.paragraphs
                    into.extend(_paragraphs(body))
            elif name == "graphicFrame":
                self._graphic(child, part)
            elif name != "Fallback":
                # Groups, and the alternative that current applications show.
                self.walk(child, part)

    def _graphic(self, frame: Any, part: Any) -> None:
        for table in frame.iter(f"{_A}tbl"):
            self.tables.append([_row(row) for row in table.iterfind(f"{_A}tr")])
        for relation in frame.iter("{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"):
            identity = relation.get(f"{_R}dm")
            if identity in part.rels and not part.rels[identity].is_external:
                target = part.rels[identity].target_part
                root = parse_xml(target.blob, str(target.partname))
                self.paragraphs.extend(_text(paragraph) for paragraph in root.iter(f"{_A}p"))


def _is_title(shape: Any) -> bool:
    placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return placeholder is not None and placeholder.get("type") in _TITLES


def _row(row: Any) -> list[str]:
    cells: list[str] = []
    for cell in row.iterfind(f"{_A}tc"):
        body = cell.find(f"{_A}txBody")
        covered = cell.get("hMerge") in ("1", "true") or cell.get("vMerge") in ("1", "true")
        cells.append("" if body is None or covered else "\n".join(_paragraphs(body)))
    return cells


def _paragraphs(body: Any) -> list[str]:
    return [_text(paragraph) for paragraph in body.iterfind(f"{_A}p")]


def _text(paragraph: Any) -> str:
    return "".join(_pieces(paragraph))


def _pieces(parent: Any) -> Iterator[str]:
    for child in parent:
        name = local_name(child)
        if name == "t":
            yield child.text or ""
        elif name == "br":
            yield "\n"
        elif name != "Fallback":
            yield from _pieces(child)
