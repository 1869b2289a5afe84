"""pdf: the text of each page, and the size of each page as it is displayed."""

from __future__ import annotations

import pypdfium2 as pdfium
from pypdfium2 import PdfiumError

from activities.extract import limits
from activities.extract.reading import Reading, over_limit, unreadable
from engine.lines import normal_ends

_HEADER_WITHIN = 1024
_END_WITHIN = 1024
_ERROR_PASSWORD = 4
_ERROR_SECURITY = 5


def check(data: bytes) -> None:
    """Raises EVIDENCE_UNREADABLE unless the bytes have a PDF's header and end and open as one."""
    _open(data).close()


def inspect(data: bytes) -> Reading:
    """The displayed size of each page: after its rotation, of its crop box, in points."""
    with _open_limited(data) as document:
        return Reading(pages=[_page(document, number).get_size() for number in range(len(document))])


def extract(data: bytes) -> Reading:
    """`{format, pages: [{number, text}]}`, line ends as `\\n`, form fields with their values.

    Raises EVIDENCE_UNREADABLE for a file that draws something but holds no text on any page: a
    scan is not an empty document, and nobody may judge it as one.
    """
    with _open_limited(data) as document:
        # Values typed into a form live beside the page until they are flattened into it.
        form = document.get_formtype() != pdfium.raw.FORMTYPE_NONE
        if form:
            document.init_forms()
        pages: list[dict[str, object]] = []
        sizes: list[tuple[float, float]] = []
        characters = 0
        drawn = False
        for index in range(len(document)):
            page = _page(document, index)
            sizes.append(page.get_size())
            if form:
                page.flatten()
                page.close()
                page = _page(document, index)
            text_page = page.get_textpage()
            text = normal_ends(text_page.get_text_range())
            characters += len(text)
            if characters > limits.PDF_CHARACTERS:
                raise over_limit(f"the pdf file holds more than {limits.PDF_CHARACTERS:,} characters")
            drawn = drawn or (not characters and next(iter(page.get_objects(max_depth=1)), None) is not None)
            text_page.close()
            page.close()
            pages.append({"number": index + 1, "text": text})
    if drawn and not characters:
        raise unreadable("the pdf file holds no text, only pictures or drawings (a scan?)")
    return Reading(output={"format": "pdf", "pages": pages}, pages=sizes)


def _open_limited(data: bytes) -> pdfium.PdfDocument:
    if len(data) > limits.PDF_BYTES:
        raise over_limit(f"the pdf file is over the limit of {limits.PDF_BYTES // limits.MIB} MiB")
    document = _open(data)
    if len(document) > limits.PDF_PAGES:
        raise over_limit(f"the pdf file holds more than {limits.PDF_PAGES:,} pages")
    return document


def _open(data: bytes) -> pdfium.PdfDocument:
    if b"%PDF-" not in data[:_HEADER_WITHIN]:
        raise unreadable("not a pdf file: it has no PDF header")
    # PDFium repairs what was cut off and shows the pages that are left: half a document is none.
    if b"%%EOF" not in data[-_END_WITHIN:] and b"%%EOF" not in data.rstrip(b"\0\t\r\n ")[-_END_WITHIN:]:
        raise unreadable("broken pdf file: it ends too early")
    try:
        # Without a password PDFium tries the empty one, with which most protected files open.
        return pdfium.PdfDocument(data)
    except PdfiumError as error:
        if error.err_code == _ERROR_PASSWORD:
            raise unreadable("the pdf file is encrypted, password needed") from None
        if error.err_code == _ERROR_SECURITY:
            raise unreadable(
                "the pdf file is encrypted, password needed (by a method unknown here)"
            ) from None
        raise unreadable("broken pdf file: it does not open") from None


def _page(document: pdfium.PdfDocument, index: int) -> pdfium.PdfPage:
    try:
        return document[index]
    except PdfiumError:
        raise unreadable(f"broken pdf file: page {index + 1} does not open") from None
