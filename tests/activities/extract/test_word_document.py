from __future__ import annotations

import io

import docx

from tests.activities.extract.conftest import Files
from tests.activities.extract.documents import changed_zip, saved, with_body, word


async def test_paragraphs_and_tables_stand_in_reading_order(files: Files) -> None:
    document = docx.Document()
    document.add_heading("Überschrift 你好 \U0001f600", 1)
    document.add_paragraph("first\tline\nsecond line")
    table = document.add_table(2, 2)
    for place, text in zip(table._cells, ("a", "b", "c", "d"), strict=True):
        place.text = text
    document.add_paragraph("after", style="List Bullet")
    extracted = await files.extract(saved(document), "docx")
    assert extracted.output == {
        "format": "docx",
        "blocks": [
            {"kind": "paragraph", "text": "Überschrift 你好 \U0001f600", "style": "Heading1"},
            {"kind": "paragraph", "text": "first\tline\nsecond line", "style": None},
            {"kind": "table", "rows": [["a", "b"], ["c", "d"]]},
            {"kind": "paragraph", "text": "after", "style": "ListBullet"},
        ],
    }
    assert extracted.places.has_document
    assert extracted.places.document == extracted.output
    assert extracted.version.startswith("python-docx/")


async def test_the_places_without_a_step_are_those_of_the_extraction(files: Files) -> None:
    data = word("refund 90")
    assert await files.places(data, "docx") == (await files.extract(data, "docx")).places


async def test_an_empty_document_has_no_blocks(files: Files) -> None:
    assert (await files.output(word(), "docx"))["blocks"] == []


async def test_covered_cells_are_empty_so_that_columns_keep_their_place(files: Files) -> None:
    document = docx.Document()
    table = document.add_table(3, 3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(1, 0).merge(table.cell(2, 0)).text = "tall"
    table.cell(0, 2).text = "x"
    table.cell(2, 2).text = "y"
    rows = (await files.output(saved(document), "docx"))["blocks"][0]["rows"]
    assert rows == [["wide", "", "x"], ["tall", "", ""], ["", "", "y"]]


async def test_a_table_in_a_cell_is_part_of_its_text(files: Files) -> None:
    document = docx.Document()
    cell = document.add_table(1, 1).cell(0, 0)
    cell.text = "outer"
    inner = cell.add_table(1, 2)
    inner.cell(0, 0).text, inner.cell(0, 1).text = "a", "b"
    rows = (await files.output(saved(document), "docx"))["blocks"][0]["rows"]
    assert rows[0][0].splitlines()[:2] == ["outer", "a\tb"]


async def test_accepted_text_is_there_and_deleted_text_is_not(files: Files) -> None:
    data = with_body(
        "<w:p><w:r><w:t>refund </w:t></w:r><w:ins><w:r><w:t>of 90 </w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>of 50 </w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom>"
        "<w:sdt><w:sdtPr/><w:sdtContent><w:r><w:t>euros</w:t></w:r></w:sdtContent></w:sdt>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r>"
        '<w:fldSimple w:instr="X"><w:r><w:t>!</w:t></w:r></w:fldSimple>'
        "</w:p>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    )
    texts = [block["text"] for block in (await files.output(data, "docx"))["blocks"]]
    assert texts == ["refund of 90 euros!", "controlled"]


async def test_a_text_box_is_read_once_after_its_paragraph(files: Files) -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    data = with_body(
        "<w:p><w:r><w:t>anchor</w:t><mc:AlternateContent>"
        f'<mc:Choice Requires="wps"><w:drawing><wps:txbx>{box}</wps:txbx></w:drawing></mc:Choice>'
        f"<mc:Fallback><w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p><w:p><m:oMath><m:r><m:t>x=1</m:t></m:r></m:oMath></w:p>"
    )
    texts = [block["text"] for block in (await files.output(data, "docx"))["blocks"]]
    assert texts == ["anchor", "boxed", "x=1"]


async def test_characters_that_word_writes_as_elements_are_characters(files: Files) -> None:
    data = with_body(
        "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:noBreakHyphen/>"
        '<w:t>c</w:t><w:br/><w:t xml:space="preserve"> d</w:t><w:br w:type="page"/>'
        '<w:sym w:char="F0B7"/></w:r></w:p>'
    )
    assert (await files.output(data, "docx"))["blocks"][0]["text"] == "a\tb-c\n d\uf0b7"


async def test_headers_footers_and_notes_follow_the_body_and_say_what_they_are(files: Files) -> None:
    document = docx.Document()
    document.add_paragraph("body")
    document.sections[0].header.paragraphs[0].text = "letterhead"
    document.sections[0].footer.paragraphs[0].text = "small print"
    blocks = (await files.output(saved(document), "docx"))["blocks"]
    assert [(block["text"], block.get("part")) for block in blocks] == [
        ("body", None),
        ("letterhead", "header"),
        ("small print", "footer"),
    ]


async def test_a_hostile_column_span_does_not_fill_memory(files: Files) -> None:
    row = '<w:tr><w:tc><w:tcPr><w:gridSpan w:val="99999999"/></w:tcPr><w:p/></w:tc></w:tr>'
    rows = (await files.output(with_body(f"<w:tbl>{row}</w:tbl>"), "docx"))["blocks"][0]["rows"]
    assert len(rows[0]) == 63


async def test_a_document_without_a_body_is_broken(files: Files) -> None:
    body = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"/>'
    assert "docx" in await files.refusal(changed_zip(word(), {"word/document.xml": body}), "docx")


async def test_a_missing_related_part_is_broken(files: Files) -> None:
    assert "broken" in await files.refusal(changed_zip(word("x"), {"word/styles.xml": None}), "docx")


async def test_deep_nesting_is_refused_and_not_followed(files: Files) -> None:
    deep = "<w:sdt><w:sdtContent>" * 4000 + "<w:p/>" + "</w:sdtContent></w:sdt>" * 4000
    assert "limit" in await files.limit(with_body(deep), "docx")


async def test_the_bytes_written_by_python_docx_come_back_whole(files: Files) -> None:
    source = ["", " leading", "trailing ", "a\u00a0b", "\u200b", "e\u0301", "«q»"]
    document = docx.Document()
    for text in source:
        document.add_paragraph(text)
    into = io.BytesIO()
    document.save(into)
    blocks = (await files.output(into.getvalue(), "docx"))["blocks"]
    assert [block["text"] for block in blocks] == source
