"""Citations: the places a judge may name, and whether each exists in the pinned evidence.

A citation of the right shape that names no existing place is *invalid*; one of another shape
breaks the whole Verdict and never gets here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Tag

from engine.pointers import PointerUnresolved, resolve


class _Closed(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class PageLocator(_Closed):
    """A page of a pdf, from 1."""

    page: int


class SlideLocator(_Closed):
    """A slide of a pptx, from 1."""

    slide: int


class LineRange(_Closed):
    """Lines `start` to `end`, from 1, both included, by the definition of `engine.lines`."""

    start: int
    end: int


class LinesLocator(_Closed):
    lines: LineRange


class PointerLocator(_Closed):
    """RFC 6901; "" is the whole document."""

    json_pointer: str


class Region(_Closed):
    """A rectangle, origin top-left: points on a pdf page as displayed, pixels of an image (page 1)."""

    page: int
    x: float
    y: float
    width: float
    height: float


class RegionLocator(_Closed):
    region: Region


Locator = PageLocator | SlideLocator | LinesLocator | PointerLocator | RegionLocator


def _form(value: Any) -> str | None:
    # Brackets keep the chosen form apart from member names in the places of faults.
    if type(value) is dict and len(value) == 1:
        return f"({next(iter(value))})"
    return f"({next(iter(type(value).model_fields))})" if isinstance(value, _Closed) else None


class Citation(_Closed):
    """An original input slot and one place in it."""

    slot: str
    locator: Annotated[
        Annotated[PageLocator, Tag("(page)")]
        | Annotated[SlideLocator, Tag("(slide)")]
        | Annotated[LinesLocator, Tag("(lines)")]
        | Annotated[PointerLocator, Tag("(json_pointer)")]
        | Annotated[RegionLocator, Tag("(region)")],
        Discriminator(_form),
    ]

    def document(self) -> dict[str, Any]:
        """The JSON form, `{slot, locator}`."""
        return self.model_dump()


@dataclass(frozen=True, slots=True)
class Places:
    """The places that exist in one slot's pinned evidence, as far as citations can name them.

    `type` is the slot's (json, source, trace, media); `format` the file's canonical format. What
    the evidence does not have, or could not be read, is None: `document` for pointers (the value
    itself, the trace document, the parsed json file, or an extraction output; only with
    `has_document`), `lines` of a text file, `pages` of a pdf as (width, height) in points as
    displayed, `slides` of a pptx, `image` as (width, height) in pixels.
    """

    type: str
    format: str | None = None
    document: Any = None
    has_document: bool = False
    lines: int | None = None
    pages: tuple[tuple[float, float], ...] | None = None
    slides: int | None = None
    image: tuple[float, float] | None = None

    @classmethod
    def of_value(cls, type: str, value: Any) -> Places:
        """The places of a json, source or trace slot: pointers into what the slot reads as."""
        return cls(type, document=value, has_document=True)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Places:
        """Back from the JSON form."""
        pages, image = data.get("pages"), data.get("image")
        return cls(
            type=data["type"],
            format=data.get("format"),
            document=data.get("document"),
            has_document=data.get("has_document", False),
            lines=data.get("lines"),
            pages=None if pages is None else tuple((width, height) for width, height in pages),
            slides=data.get("slides"),
            image=None if image is None else (image[0], image[1]),
        )


@dataclass(frozen=True, slots=True)
class InvalidCitation:
    """A citation that names no existing place, and why."""

    citation: Citation
    reason: str


class _NoPlace(Exception):
    pass


def check_citations(
    citations: Iterable[Citation], places: Mapping[str, Places]
) -> tuple[list[Citation], list[InvalidCitation]]:
    """Sort citations into valid and invalid ones, in their order.

    `places` has one entry for each input slot that was supplied; steps have none, so that a
    citation of a step is invalid.
    """
    valid: list[Citation] = []
    invalid: list[InvalidCitation] = []
    for citation in citations:
        try:
            _check(citation, places)
        except _NoPlace as missing:
            invalid.append(
                InvalidCitation(citation, f"{_name(citation, citation.slot in places)}: {missing}")
            )
        else:
            valid.append(citation)
    return valid, invalid


_TEXT = frozenset({"lines"})
_IMAGE = frozenset({"region"})
_TAKEN: dict[str, frozenset[str]] = {
    "json": frozenset({"json_pointer"}),
    "source": frozenset({"json_pointer"}),
    "trace": frozenset({"json_pointer"}),
    "media/text": _TEXT,
    "media/markdown": _TEXT,
    "media/html": _TEXT,
    "media/csv": _TEXT,
    "media/json": frozenset({"json_pointer", "lines"}),
    "media/pdf": frozenset({"page", "region"}),
    "media/pptx": frozenset({"slide", "json_pointer"}),
    "media/docx": frozenset({"json_pointer"}),
    "media/xlsx": frozenset({"json_pointer"}),
    "media/png": _IMAGE,
    "media/jpeg": _IMAGE,
    "media/gif": _IMAGE,
    "media/webp": _IMAGE,
}
"""The locators each kind of evidence takes; formats that are not here take none."""


def _check(citation: Citation, places: Mapping[str, Places]) -> None:
    place = places.get(citation.slot)
    if place is None:
        raise _NoPlace("there is no evidence in an input slot of that name")
    form = next(iter(type(citation.locator).model_fields))
    evidence = f"media/{place.format}" if place.type == "media" else place.type
    taken = _TAKEN.get(evidence, frozenset())
    if form not in taken:
        what = f"a {place.format} file" if place.type == "media" else f"a {place.type} slot"
        raise _NoPlace(f"{what} has no {form} to cite")
    _CHECKS[form](citation.locator, place)


def _check_page(locator: PageLocator, place: Places) -> None:
    _page_size(locator.page, place)


def _page_size(page: int, place: Places) -> tuple[float, float]:
    if place.pages is None:
        raise _NoPlace("its pages could not be read")
    if not 1 <= page <= len(place.pages):
        raise _NoPlace(f"the file has {_count(len(place.pages), 'page')}")
    return place.pages[page - 1]


def _check_slide(locator: SlideLocator, place: Places) -> None:
    if place.slides is None:
        raise _NoPlace("its slides could not be read")
    if not 1 <= locator.slide <= place.slides:
        raise _NoPlace(f"the file has {_count(place.slides, 'slide')}")


def _check_lines(locator: LinesLocator, place: Places) -> None:
    if place.lines is None:
        raise _NoPlace("its lines could not be read")
    if not 1 <= locator.lines.start <= locator.lines.end <= place.lines:
        raise _NoPlace(f"the file has {_count(place.lines, 'line')}")


def _check_pointer(locator: PointerLocator, place: Places) -> None:
    if not place.has_document:
        raise _NoPlace("its content could not be read")
    try:
        resolve(place.document, locator.json_pointer)
    except PointerUnresolved as unresolved:
        raise _NoPlace(str(unresolved)) from None


def _check_region(locator: RegionLocator, place: Places) -> None:
    region = locator.region
    if place.type == "media" and place.format == "pdf":
        width, height = _page_size(region.page, place)
    elif place.image is None:
        raise _NoPlace("its size could not be read")
    elif region.page != 1:
        raise _NoPlace("an image has one page")
    else:
        width, height = place.image
    inside = (
        region.x >= 0
        and region.y >= 0
        and region.width > 0
        and region.height > 0
        and region.x + region.width <= width
        and region.y + region.height <= height
    )
    if not inside:
        raise _NoPlace(f"the region is not inside {width:g} × {height:g}")


_CHECKS: dict[str, Callable[[Any, Places], None]] = {
    "page": _check_page,
    "slide": _check_slide,
    "lines": _check_lines,
    "json_pointer": _check_pointer,
    "region": _check_region,
}


def _name(citation: Citation, known: bool) -> str:
    """A citation by its slot and numbers. Text that only the judge wrote stays out of reasons."""
    locator = citation.locator
    slot = citation.slot if known else "an unknown slot"
    if isinstance(locator, LinesLocator):
        return f"{slot} lines {_number(locator.lines.start)}-{_number(locator.lines.end)}"
    if isinstance(locator, PageLocator):
        return f"{slot} page {_number(locator.page)}"
    if isinstance(locator, SlideLocator):
        return f"{slot} slide {_number(locator.slide)}"
    if isinstance(locator, RegionLocator):
        return f"{slot} region on page {_number(locator.region.page)}"
    return f"{slot} json_pointer"


def _number(value: int) -> str:
    return str(value) if value.bit_length() <= 64 else "…"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
