"""Files of every format, made for the tests."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import docx
import openpyxl
import pikepdf
import pptx
from fpdf import FPDF
from PIL import Image


def pdf(*pages: str) -> bytes:
    document = FPDF()
    document.set_font("helvetica", size=12)
    for text in pages:
        document.add_page()
        document.multi_cell(0, text=text)
    return bytes(document.output())


def changed_pdf(data: bytes, change: Callable[[pikepdf.Pdf], None], **saving: Any) -> bytes:
    with pikepdf.open(io.BytesIO(data)) as document:
        change(document)
        into = io.BytesIO()
        document.save(into, **saving)
    return into.getvalue()


def encrypted_pdf(data: bytes, user: str) -> bytes:
    return changed_pdf(data, lambda _: None, encryption=pikepdf.Encryption(owner="owner", user=user, R=6))


def saved(document: Any) -> bytes:
    """The bytes of a python-docx, python-pptx or openpyxl document."""
    into = io.BytesIO()
    document.save(into)
    return into.getvalue()


def word(*paragraphs: str) -> bytes:
    document = docx.Document()
    for text in paragraphs:
        document.add_paragraph(text)
    return saved(document)


def slides(*titles: str) -> bytes:
    presentation = pptx.Presentation()
    for title in titles:
        presentation.slides.add_slide(presentation.slide_layouts[5]).shapes.title.text = title
    return saved(presentation)


def workbook(rows: list[list[Any]]) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    return saved(book)


def changed_zip(
    data: bytes, changes: dict[str, bytes | None], compression: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """The archive with members replaced, added or (None) removed."""
    into = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as source,
        zipfile.ZipFile(into, "w", compression) as target,
    ):
        for name in source.namelist():
            if name not in changes:
                target.writestr(name, source.read(name))
        for name, content in changes.items():
            if content is not None:
                target.writestr(name, content)
    return into.getvalue()


def with_body(paragraphs_xml: str) -> bytes:
    """A docx whose body is the given XML, with the prefixes w, mc, wps, m and v bound."""
    namespaces = (
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
        'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
        'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
        'xmlns:v="urn:schemas-microsoft-com:vml"'
    )
    xml = f'<?xml version="1.0"?><w:document {namespaces}><w:body>{paragraphs_xml}</w:body></w:document>'
    return changed_zip(word(), {"word/document.xml": xml.encode("utf-8")})


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_STRINGS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
_RELATIONS = "xl/_rels/workbook.xml.rels"


def with_sheet(rows_xml: str, shared: str | None = None) -> bytes:
    """An xlsx whose one sheet holds the given rows, and whose shared strings are the given items."""
    data = workbook([["a"]])
    sheet = f'<worksheet xmlns="{_MAIN}"><sheetData>{rows_xml}</sheetData></worksheet>'
    changes: dict[str, bytes | None] = {"xl/worksheets/sheet1.xml": sheet.encode("utf-8")}
    if shared is not None:
        changes["xl/sharedStrings.xml"] = f'<sst xmlns="{_MAIN}">{shared}</sst>'.encode()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            relations = archive.read(_RELATIONS).decode("utf-8")
        if "/sharedStrings" not in relations:
            added = (
                f'<Relationship Id="rIdS" Type="{_STRINGS}" Target="/xl/sharedStrings.xml"/></Relationships>'
            )
            changes[_RELATIONS] = relations.replace("</Relationships>", added).encode("utf-8")
    return changed_zip(data, changes)


def lying_zip(data: bytes, name: str, declared: int) -> bytes:
    """The same archive with the declared size of one member changed, in both of its headers."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        local = archive.getinfo(name).header_offset
        directory = archive.start_dir
    changed = bytearray(data)
    at = changed.index(b"PK\x01\x02", directory)
    while changed[at + 46 : at + 46 + len(name)] != name.encode("ascii"):
        at = changed.index(b"PK\x01\x02", at + 4)
    struct.pack_into("<I", changed, at + 24, declared)
    struct.pack_into("<I", changed, local + 22, declared)
    return bytes(changed)


def picture(format: str, size: tuple[int, int] = (30, 20), **saving: Any) -> bytes:
    into = io.BytesIO()
    Image.effect_noise(size, 60).convert("RGB").save(into, format, **saving)
    return into.getvalue()


def plain_zip() -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("a.txt", b"text")
    return into.getvalue()


def tar_gz() -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w:gz") as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"text"))
    return into.getvalue()


def sample(format: str) -> bytes:
    """A small sound file of any format."""
    if format in ("png", "jpeg", "gif", "webp"):
        return picture(format)
    made: dict[str, Callable[[], bytes]] = {
        "pdf": lambda: pdf("refund 90"),
        "docx": lambda: word("refund 90"),
        "pptx": lambda: slides("refund 90"),
        "xlsx": lambda: workbook([["refund", 90]]),
        "csv": lambda: b"refund,90\r\n",
        "json": lambda: json.dumps({"refund": 90}).encode("utf-8"),
        "text": lambda: b"refund 90\n",
        "markdown": lambda: b"# refund\n\n90\n",
        "html": lambda: b"<p>refund 90</p>\n",
        "zip": plain_zip,
        "tar_gz": tar_gz,
    }
    return made[format]()
