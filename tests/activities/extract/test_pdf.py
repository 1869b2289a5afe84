from __future__ import annotations

import pikepdf
import pytest

from activities.extract import EXTRACTION_VERSIONS
from tests.activities.extract.conftest import Files
from tests.activities.extract.documents import changed_pdf, encrypted_pdf, pdf, picture


async def test_every_page_has_its_number_and_text(files: Files) -> None:
    extracted = await files.extract(pdf("refund 90", "second page\nof two lines"), "pdf")
    assert extracted.output == {
        "format": "pdf",
        "pages": [{"number": 1, "text": "refund 90"}, {"number": 2, "text": "second page\nof two lines"}],
    }
    assert extracted.version == EXTRACTION_VERSIONS["pdf"]
    assert extracted.version.startswith("pypdfium2/")
    assert extracted.places.pages is not None
    assert len(extracted.places.pages) == 2
    assert not extracted.places.has_document


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
async def test_a_turned_page_has_its_text_and_the_size_it_is_shown_in(files: Files, turn: int) -> None:
    def change(document: pikepdf.Pdf) -> None:
        document.pages[0].obj.Rotate = turn
        document.pages[0].obj.MediaBox = pikepdf.Array([0, 0, 600, 900])

    data = changed_pdf(pdf("refund 90"), change)
    extracted = await files.extract(data, "pdf")
    assert extracted.output["pages"][0]["text"] == "refund 90"
    assert extracted.places.pages == (((600.0, 900.0) if turn in (0, 180) else (900.0, 600.0)),)
    assert await files.places(data, "pdf") == extracted.places


async def test_the_crop_box_is_what_is_shown(files: Files) -> None:
    def change(document: pikepdf.Pdf) -> None:
        document.pages[0].obj.Rotate = 90
        document.pages[0].obj.CropBox = pikepdf.Array([50, 100, 250, 700])

    places = await files.places(changed_pdf(pdf("refund 90"), change), "pdf")
    assert places.pages == ((600.0, 200.0),)


_CMAP = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def
1 begincodespacerange <00> <FF> endcodespacerange
4 beginbfchar <41> <D83DDE00> <42> <00E9> <43> <4F60> <44> <D835DC00> endbfchar
endcmap CMapName currentdict /CMap defineresource pop end end"""


async def test_characters_beyond_latin_and_beyond_the_basic_plane_are_kept(files: Files) -> None:
    def change(document: pikepdf.Pdf) -> None:
        page = document.pages[0]
        font = pikepdf.Dictionary(
            Type=pikepdf.Name.Font,
            Subtype=pikepdf.Name.Type1,
            BaseFont=pikepdf.Name.Helvetica,
            ToUnicode=document.make_stream(_CMAP),
        )
        page.obj.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
        page.obj.Contents = document.make_stream(b"BT /F1 20 Tf 50 500 Td (xABCDx) Tj ET")

    output = await files.output(changed_pdf(pdf(""), change), "pdf")
    assert output["pages"][0]["text"] == "x\U0001f600é你\U0001d400x"


async def test_p39_a_pdf_with_an_empty_password_is_read(files: Files) -> None:
    data = encrypted_pdf(pdf("refund 90"), "")
    await files.check(data, "pdf")
    assert (await files.output(data, "pdf"))["pages"] == [{"number": 1, "text": "refund 90"}]


async def test_p39_a_pdf_with_a_real_password_is_refused_by_name(files: Files) -> None:
    data = encrypted_pdf(pdf("refund 90"), "secret")
    assert "encrypted, password needed" in await files.refusal(data, "pdf")
    assert "encrypted, password needed" in await files.check_refusal(data, "pdf")


async def test_p39_a_scan_is_not_an_empty_document(files: Files) -> None:
    from fpdf import FPDF

    scan = FPDF()
    scan.add_page()
    scan.image(picture("png"), x=10, y=10, w=100)
    assert "no text" in await files.refusal(bytes(scan.output()), "pdf")


async def test_a_blank_page_is_empty(files: Files) -> None:
    assert (await files.output(pdf(""), "pdf"))["pages"] == [{"number": 1, "text": ""}]


async def test_a_picture_beside_text_is_no_fault(files: Files) -> None:
    from fpdf import FPDF

    document = FPDF()
    document.add_page()
    document.image(picture("png"), x=10, y=10, w=100)
    document.add_page()
    document.set_font("helvetica", size=12)
    document.cell(text="refund 90")
    output = await files.output(bytes(document.output()), "pdf")
    assert [page["text"] for page in output["pages"]] == ["", "refund 90"]


async def test_values_typed_into_a_form_are_text(files: Files) -> None:
    def change(document: pikepdf.Pdf) -> None:
        appearance = document.make_stream(b"/Tx BMC BT /Helv 12 Tf 2 5 Td (typed amount 90) Tj ET EMC")
        appearance.Type = pikepdf.Name.XObject
        appearance.Subtype = pikepdf.Name.Form
        appearance.BBox = pikepdf.Array([0, 0, 200, 20])
        helvetica = pikepdf.Dictionary(
            Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica
        )
        fonts = pikepdf.Dictionary(Font=pikepdf.Dictionary(Helv=helvetica))
        appearance.Resources = fonts
        field = document.make_indirect(
            pikepdf.Dictionary(
                Type=pikepdf.Name.Annot,
                Subtype=pikepdf.Name.Widget,
                FT=pikepdf.Name.Tx,
                T="amount",
                V="typed amount 90",
                F=4,
                DA="/Helv 12 Tf 0 g",
                Rect=pikepdf.Array([50, 50, 250, 70]),
                AP=pikepdf.Dictionary(N=appearance),
            )
        )
        document.pages[0].obj.Annots = pikepdf.Array([field])
        document.Root.AcroForm = pikepdf.Dictionary(Fields=pikepdf.Array([field]), DR=fonts)

    output = await files.output(changed_pdf(pdf("the form"), change), "pdf")
    assert "the form" in output["pages"][0]["text"]
    assert "typed amount 90" in output["pages"][0]["text"]


async def test_more_than_two_thousand_pages_are_over_the_limit(files: Files) -> None:
    def change(document: pikepdf.Pdf) -> None:
        for _ in range(2000):
            document.add_blank_page(page_size=(100, 100))

    data = changed_pdf(pdf("refund 90"), change)
    assert "2,000 pages" in await files.limit(data, "pdf")
    await files.check(data, "pdf")


async def test_more_than_fifty_mebibytes_are_over_the_limit(files: Files) -> None:
    data = pdf("refund 90")
    assert "50 MiB" in await files.limit(data + b"\n" * (51 << 20), "pdf")


async def test_a_page_that_does_not_exist_fails_the_file(files: Files) -> None:
    def change(document: pikepdf.Pdf) -> None:
        document.Root.Pages.Kids[1] = pikepdf.Dictionary(Type=pikepdf.Name.Font)

    assert "page 2" in await files.refusal(changed_pdf(pdf("one", "two"), change), "pdf")
