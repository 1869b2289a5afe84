from __future__ import annotations

import io
import struct
import zipfile

import pytest

from tests.activities.extract.conftest import Files
from tests.activities.extract.documents import changed_zip, lying_zip, word, workbook

MIB = 1 << 20


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A docx of some 400 KB whose main part inflates to 400 MB."""
    into = io.BytesIO(word("refund 90"))
    with (
        zipfile.ZipFile(into) as archive,
        zipfile.ZipFile(into := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in archive.namelist():
            if name != "word/document.xml":
                target.writestr(name, archive.read(name))
        with target.open("word/document.xml", "w") as part:
            for _ in range(400):
                part.write(b"0" * 1_000_000)
    return into.getvalue()


async def test_p41_a_run_of_zeros_is_over_a_limit(files: Files, bomb: bytes) -> None:
    assert len(bomb) < MIB
    assert "200 times" in await files.limit(bomb, "docx")


async def test_p41_a_lying_declared_size_is_over_the_same_limit(files: Files, bomb: bytes) -> None:
    assert "200 times" in await files.limit(lying_zip(bomb, "word/document.xml", 1000), "docx")


async def test_p41_ten_thousand_and_one_members_are_over_the_limit(files: Files) -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        for number in range(10_001):
            archive.writestr(f"xl/{number}", b"")
    assert "10,000 members" in await files.limit(into.getvalue(), "xlsx")


async def test_p41_far_too_many_members_are_refused_before_their_directory_is_read(files: Files) -> None:
    data = b"PK\x01\x02" + b"\0" * 42
    assert "10,000 members" in await files.limit(b"PK\x03\x04" + data * 50_000, "xlsx")


async def test_p41_members_that_share_their_bytes_count_each_time(files: Files) -> None:
    """Overlapping members: one 8 MiB run of noise, named by a hundred entries of the directory."""
    noise = (bytes(range(256)) * 128 + bytes(range(255, -1, -1)) * 128) * 128
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("word/noise.bin", noise)
        entry = archive.infolist()[0]
        for number in range(100):
            copy = zipfile.ZipInfo(f"word/{number}")
            for name in ("header_offset", "CRC", "compress_size", "file_size", "compress_type"):
                setattr(copy, name, getattr(entry, name))
            archive.filelist.append(copy)
    assert len(into.getvalue()) < 10 * MIB
    assert "512 MiB" in await files.limit(into.getvalue(), "docx")


async def test_a_member_may_compress_well_below_one_mebibyte(files: Files) -> None:
    paragraph = "<w:p/>" * 100_000
    from tests.activities.extract.documents import with_body

    assert len((await files.output(with_body(paragraph), "docx"))["blocks"]) == 100_000


async def test_a_declared_size_that_is_wrong_but_small_is_broken(files: Files) -> None:
    data = lying_zip(word("refund 90"), "word/document.xml", 100)
    assert "broken archive" in await files.refusal(data, "docx")


async def test_a_changed_byte_is_broken(files: Files) -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("word/media/x.bin", b"refund 90")
    changed = into.getvalue().replace(b"refund 90", b"refund 91", 1)
    assert "broken archive" in await files.refusal(changed, "docx")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("offset", [0, MIB - 4, MIB - 9])
async def test_a_document_type_declaration_is_refused_wherever_it_stands(
    files: Files, encoding: str, offset: int
) -> None:
    width = len("<".encode(encoding))
    xml = (
        "<!---->".ljust(offset // width) + '<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]><w>&x;</w>'
    )
    for name in ("word/document.xml", "word/other.bin"):
        data = changed_zip(word("refund 90"), {name: xml.encode(encoding)}, zipfile.ZIP_STORED)
        assert "DOCTYPE" in await files.refusal(data, "docx")
        assert "DOCTYPE" in await files.check_refusal(data, "docx")


async def test_a_web_page_that_a_document_carries_may_have_its_own(files: Files) -> None:
    data = changed_zip(word("refund 90"), {"word/part.html": b"<!DOCTYPE html><p>x"})
    assert (await files.output(data, "docx"))["blocks"][0]["text"] == "refund 90"


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "..\\x", "C:\\x", "\\x", "C:/x"])
async def test_unsafe_names_are_refused(files: Files, name: str) -> None:
    assert "unsafe name" in await files.refusal(changed_zip(word("x"), {name: b"x"}), "docx")


async def test_an_encrypted_member_is_refused_by_name(files: Files) -> None:
    data = bytearray(word("x"))
    start = data.index(b"PK\x01\x02")
    struct.pack_into("<H", data, start + 8, 0x1)
    assert "encrypted, password needed" in await files.refusal(bytes(data), "docx")


async def test_an_unusual_compression_is_refused(files: Files) -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("[Content_Types].xml", b"<x/>" * 100)
    assert "compression" in await files.refusal(into.getvalue(), "xlsx")


OLE = bytes.fromhex("d0cf11e0a1b11ae1")


@pytest.mark.parametrize("format", ["docx", "pptx", "xlsx"])
async def test_an_ole_header_is_encrypted_or_legacy(files: Files, format: str) -> None:
    assert "encrypted or legacy" in await files.refusal(OLE + b"\0" * 1000, format)
    assert "encrypted or legacy" in await files.check_refusal(OLE + b"\0" * 1000, format)
    package = OLE + b"\0" * 1000 + "EncryptedPackage".encode("utf-16-le")
    assert "encrypted, password needed" in await files.refusal(package, format)


async def test_entities_are_never_expanded_even_in_a_workbook(files: Files) -> None:
    xml = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><worksheet><sheetData/></worksheet>'
    data = changed_zip(workbook([["a"]]), {"xl/worksheets/sheet1.xml": xml})
    assert "DOCTYPE" in await files.refusal(data, "xlsx")
