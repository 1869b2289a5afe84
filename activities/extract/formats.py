"""The formats of evidence, and what is done with a file of each: check it, find its places, extract it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from activities.extract import (
    archive,
    image,
    json_document,
    limits,
    office,
    pdf,
    sheets,
    slides,
    table,
    text,
    word_document,
)
from activities.extract.reading import Reading


@dataclass(frozen=True, slots=True)
class FormatReader:
    """How files of one format are read. `extract` is None where nothing is extracted.

    `max_bytes` bounds the files that are inspected and extracted, not those only checked.
    """

    check: Callable[[bytes], None]
    inspect: Callable[[bytes], Reading]
    extract: Callable[[bytes], Reading] | None
    max_bytes: int = limits.INPUT_BYTES


def _nothing(data: bytes) -> Reading:
    return Reading()


def _text(format: str) -> FormatReader:
    return FormatReader(text.check, text.inspect, partial(text.extract, format), limits.TEXT_BYTES)


def _office(format: str, extract: Callable[[bytes], Reading]) -> FormatReader:
    # Citations point into the extraction output, so looking for places is extracting.
    return FormatReader(partial(office.check, format), extract, extract)


def _image(format: str) -> FormatReader:
    return FormatReader(partial(image.check, format), partial(image.inspect, format), None)


READERS: dict[str, FormatReader] = {
    "pdf": FormatReader(pdf.check, pdf.inspect, pdf.extract, limits.PDF_BYTES),
    "docx": _office("docx", word_document.extract),
    "pptx": _office("pptx", slides.extract),
    "xlsx": _office("xlsx", sheets.extract),
    "csv": FormatReader(table.check, text.inspect, table.extract, limits.TEXT_BYTES),
    "json": FormatReader(
        json_document.check, json_document.extract, json_document.extract, limits.TEXT_BYTES
    ),
    "text": _text("text"),
    "markdown": _text("markdown"),
    "html": _text("html"),
    "png": _image("png"),
    "jpeg": _image("jpeg"),
    "gif": _image("gif"),
    "webp": _image("webp"),
    "zip": FormatReader(archive.check_zip, _nothing, None),
    "tar_gz": FormatReader(archive.check_tar_gz, _nothing, None),
}
