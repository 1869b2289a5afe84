"""The shape of each format's extraction output, and of what the parsing process answers.

The process that parsed a hostile file may be in its hands; so its answer is checked like any
other input.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, TypeAdapter, with_config

# pydantic asks for this one before Python 3.12.
from typing_extensions import TypedDict

_CLOSED = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@with_config(_CLOSED)
class PdfPage(TypedDict):
    number: int
    text: str


@with_config(_CLOSED)
class PdfOutput(TypedDict):
    format: Literal["pdf"]
    pages: list[PdfPage]


@with_config(_CLOSED)
class Grid(TypedDict):
    rows: list[list[str]]


@with_config(_CLOSED)
class Slide(TypedDict):
    number: int
    title: str | None
    paragraphs: list[str]
    tables: list[Grid]
    notes: str | None


@with_config(_CLOSED)
class PptxOutput(TypedDict):
    format: Literal["pptx"]
    slides: list[Slide]


@with_config(_CLOSED)
class Block(TypedDict):
    """A paragraph has `text` and `style`, a table has `rows`; `part` where it is not in the body."""

    kind: Literal["paragraph", "table"]
    text: NotRequired[str]
    style: NotRequired[str | None]
    rows: NotRequired[list[list[str]]]
    part: NotRequired[Literal["header", "footer", "footnotes", "endnotes"]]


@with_config(_CLOSED)
class DocxOutput(TypedDict):
    format: Literal["docx"]
    blocks: list[Block]


@with_config(_CLOSED)
class Cell(TypedDict):
    address: str
    value: str | int | float | bool | None
    formula: str | None
    error: str | None


@with_config(_CLOSED)
class Sheet(TypedDict):
    name: str
    cells: list[Cell]


@with_config(_CLOSED)
class XlsxOutput(TypedDict):
    format: Literal["xlsx"]
    sheets: list[Sheet]


@with_config(_CLOSED)
class CsvOutput(TypedDict):
    format: Literal["csv"]
    rows: list[list[str]]
    encoding: NotRequired[str]


@with_config(_CLOSED)
class JsonOutput(TypedDict):
    format: Literal["json"]
    value: Any


@with_config(_CLOSED)
class TextOutput(TypedDict):
    format: Literal["text", "markdown", "html"]
    text: str
    encoding: NotRequired[str]


OUTPUTS: dict[str, TypeAdapter[Any]] = {
    "pdf": TypeAdapter(PdfOutput),
    "pptx": TypeAdapter(PptxOutput),
    "docx": TypeAdapter(DocxOutput),
    "xlsx": TypeAdapter(XlsxOutput),
    "csv": TypeAdapter(CsvOutput),
    "json": TypeAdapter(JsonOutput),
    "text": TypeAdapter(TextOutput),
    "markdown": TypeAdapter(TextOutput),
    "html": TypeAdapter(TextOutput),
}


@with_config(_CLOSED)
class Found(TypedDict):
    """The answer about a file that could be read; pairs are (width, height)."""

    ok: Literal[True]
    output: dict[str, Any] | None
    lines: int | None
    pages: list[list[float]] | None
    slides: int | None
    image: list[int] | None


@with_config(_CLOSED)
class Refused(TypedDict):
    """The answer about a file that could not."""

    ok: Literal[False]
    kind: Literal["evidence_unreadable", "limit_exceeded", "internal"]
    reason: str
    where: list[str]


ANSWER: TypeAdapter[Found | Refused] = TypeAdapter(Found | Refused)
