"""How much the confined process costs: pages a second of our PDF extraction and of plain pypdfium2.

Both read the same file in the same run, several times in turn; the best time of each counts. Ours
includes the fork, the limits, the format checks, the answer's way back and its validation.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import pypdfium2
from fpdf import FPDF

from activities.extract import EXTRACTION_VERSIONS, extract_file

PAGES = 300
ROUNDS = 5
LINES = 45
_LINE = "The customer asked for a refund of {} euros on day {}; the letter must say so plainly."


def _document(pages: int) -> bytes:
    document = FPDF()
    document.set_font("helvetica", size=11)
    for page in range(pages):
        document.add_page()
        for line in range(LINES):
            document.cell(0, 6, _LINE.format(page, line), new_x="LMARGIN", new_y="NEXT")
    return bytes(document.output())


def _plain(path: Path) -> list[str]:
    document = pypdfium2.PdfDocument(path)
    try:
        return [page.get_textpage().get_text_range() for page in document]
    finally:
        document.close()


async def _measure(path: Path, small: Path) -> dict[str, Any]:
    # The one start of the process from which all others are forked is not a file's cost.
    began = time.perf_counter()
    await extract_file(small, "pdf", timeout=60)
    start = time.perf_counter() - began
    plain, ours = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        expected = _plain(path)
        plain.append(time.perf_counter() - began)
        began = time.perf_counter()
        extracted = await extract_file(path, "pdf", timeout=60)
        ours.append(time.perf_counter() - began)
        texts = [page["text"] for page in extracted.output["pages"]]
        if texts != [text.replace("\r\n", "\n") for text in expected]:
            raise AssertionError("the two do not read the same text")
    began = time.perf_counter()
    for _ in range(50):
        await extract_file(small, "pdf", timeout=60)
    one = (time.perf_counter() - began) / 50
    return {
        "version": EXTRACTION_VERSIONS["pdf"],
        "pages": PAGES,
        "pages_per_second": round(PAGES / min(ours)),
        "plain_pages_per_second": round(PAGES / min(plain)),
        "ratio": round(min(plain) / min(ours), 3),
        "one_page_file_ms": round(one * 1000, 2),
        "first_file_ms": round(start * 1000, 1),
    }


def measure() -> dict[str, Any]:
    """Pages a second of ours and of plain pypdfium2, their ratio, and what small and first files cost."""
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "large.pdf", Path(folder) / "small.pdf"
        path.write_bytes(_document(PAGES))
        small.write_bytes(_document(1))
        return asyncio.run(_measure(path, small))


if __name__ == "__main__":
    print(measure())
