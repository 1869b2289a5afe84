from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from activities.extract import EXTRACTION_VERSIONS
from tests.activities.extract.conftest import Files
from tests.activities.extract.documents import changed_zip, picture, word, workbook

EXTRACTED = ("pdf", "docx", "pptx", "xlsx", "csv", "json", "text", "markdown", "html")
IMAGES = ("png", "jpeg", "gif", "webp")
ARCHIVES = ("zip", "tar_gz")
PLAIN = ("csv", "text", "markdown", "html")
Samples = Callable[[str], bytes]


def test_every_extracted_format_has_a_version() -> None:
    assert set(EXTRACTION_VERSIONS) == set(EXTRACTED)
    for version in EXTRACTION_VERSIONS.values():
        name, _, number = version.partition("/")
        assert name
        assert number[0].isdigit()


@pytest.mark.parametrize("format", [*EXTRACTED, *IMAGES, *ARCHIVES])
async def test_a_sound_file_is_of_its_format_and_has_places(
    files: Files, samples: Samples, format: str
) -> None:
    await files.check(samples(format), format)
    places = await files.places(samples(format), format)
    assert (places.type, places.format) == ("media", format)


@pytest.mark.parametrize("format", [*IMAGES, *ARCHIVES])
async def test_images_and_archives_are_not_extracted(files: Files, samples: Samples, format: str) -> None:
    assert "cannot be extracted" in await files.refusal(samples(format), format)


async def test_archives_have_no_places(files: Files, samples: Samples) -> None:
    for format in ARCHIVES:
        places = await files.places(samples(format), format)
        assert (places.lines, places.pages, places.slides, places.image) == (None, None, None, None)
        assert not places.has_document


async def test_an_unknown_format_is_refused(files: Files) -> None:
    assert "'exe'" in await files.refusal(b"MZ", "exe")
    assert "'exe'" in await files.check_refusal(b"MZ", "exe")


@pytest.mark.parametrize("format", ["pdf", "docx", "pptx", "xlsx", "json", *IMAGES, *ARCHIVES])
async def test_a_file_cut_off_anywhere_is_refused(files: Files, samples: Samples, format: str) -> None:
    whole = samples(format)
    for length in {
        0,
        1,
        8,
        len(whole) // 3,
        len(whole) // 2,
        len(whole) * 9 // 10,
        len(whole) - 8,
        len(whole) - 1,
    }:
        if 0 <= length < len(whole) - (format == "pdf"):
            await files.check_refusal(whole[:length], format)
            if format in EXTRACTED:
                await files.refusal(whole[:length], format)


@pytest.mark.parametrize("declared", [*EXTRACTED, *IMAGES, *ARCHIVES])
async def test_a_file_of_another_format_is_refused(files: Files, samples: Samples, declared: str) -> None:
    for actual in (*EXTRACTED, *IMAGES, *ARCHIVES):
        is_text = declared in PLAIN and actual in (*PLAIN, "json")
        is_zip = declared == "zip" and actual in ("docx", "pptx", "xlsx")
        if actual != declared and not is_text and not is_zip:
            await files.check_refusal(samples(actual), declared)


async def test_the_main_part_decides_and_the_reason_names_what_it_is(files: Files, samples: Samples) -> None:
    assert "that of a xlsx file" in await files.check_refusal(samples("xlsx"), "docx")
    assert "not an Office one" in await files.refusal(
        changed_zip(word(), {"[Content_Types].xml": None}), "docx"
    )
    assert "no main part" in await files.refusal(changed_zip(word(), {"word/document.xml": None}), "docx")
    macros = b"<Types><Override PartName='/xl/workbook.xml' ContentType='x/macro'/></Types>"
    assert "x/macro" in await files.refusal(
        changed_zip(workbook([]), {"[Content_Types].xml": macros}), "xlsx"
    )


@pytest.mark.parametrize("format", IMAGES)
async def test_an_image_has_its_size_in_pixels(files: Files, format: str) -> None:
    places = await files.places(picture(format, (300, 17)), format)
    assert places.image == (300, 17)


async def test_every_kind_of_webp_and_jpeg_has_its_size(files: Files) -> None:
    assert (await files.places(picture("webp", (301, 18), lossless=True), "webp")).image == (301, 18)
    assert (await files.places(picture("webp", (301, 18), exif=b"Exif\0\0"), "webp")).image == (301, 18)
    assert (await files.places(picture("jpeg", (301, 18), progressive=True), "jpeg")).image == (301, 18)


async def test_a_changed_byte_in_a_png_is_found(files: Files) -> None:
    data = bytearray(picture("png"))
    data[len(data) // 2] ^= 1
    assert "checksum" in await files.check_refusal(bytes(data), "png")


async def test_an_image_without_a_size_is_broken(files: Files) -> None:
    data = bytearray(picture("gif"))
    struct.pack_into("<HH", data, 6, 0, 0)
    assert "no size" in await files.check_refusal(bytes(data), "gif")


@pytest.mark.parametrize("format", [*EXTRACTED, *IMAGES, *ARCHIVES])
async def test_an_empty_file_is_empty_text_and_nothing_else(files: Files, format: str) -> None:
    if format in PLAIN:
        await files.check(b"", format)
    else:
        await files.check_refusal(b"", format)
