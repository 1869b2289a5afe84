from __future__ import annotations

import re

import pptx
from pptx.util import Inches

from tests.activities.extract.conftest import Files
from tests.activities.extract.documents import changed_zip, saved, slides


async def test_a_slide_has_number_title_paragraphs_tables_and_notes(files: Files) -> None:
    presentation = pptx.Presentation()
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    first.shapes.title.text = "Überblick \U0001f600"
    first.placeholders[1].text = "one\n\ntwo\vbroken"
    table = first.shapes.add_table(1, 2, 0, 0, Inches(2), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "a", "b\nc"
    first.notes_slide.notes_text_frame.text = "say\nthis"
    presentation.slides.add_slide(presentation.slide_layouts[6])
    extracted = await files.extract(saved(presentation), "pptx")
    assert extracted.output == {
        "format": "pptx",
        "slides": [
            {
                "number": 1,
                "title": "Überblick \U0001f600",
                "paragraphs": ["one", "two\nbroken"],
                "tables": [{"rows": [["a", "b\nc"]]}],
                "notes": "say\nthis",
            },
            {"number": 2, "title": None, "paragraphs": [], "tables": [], "notes": None},
        ],
    }
    assert extracted.places.slides == 2
    assert extracted.places.document == extracted.output
    assert extracted.version.startswith("python-pptx/")


async def test_groups_are_searched_to_any_depth(files: Files) -> None:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "in a group"
    deeper = group.shapes.add_group_shape().shapes.add_group_shape()
    deeper.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "deeper"
    assert (await files.output(saved(presentation), "pptx"))["slides"][0]["paragraphs"] == [
        "in a group",
        "deeper",
    ]


async def test_of_alternatives_the_current_one_is_read(files: Files) -> None:
    data = slides("T")
    name = "ppt/slides/slide1.xml"
    shape = (
        '<p:sp><p:nvSpPr><p:cNvPr id="9" name="n"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>'
        "<p:txBody><a:bodyPr/><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:txBody></p:sp>"
    )
    added = (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f'<mc:Choice Requires="a14">{shape.format("new")}</mc:Choice>'
        f"<mc:Fallback>{shape.format('old')}</mc:Fallback></mc:AlternateContent></p:spTree>"
    )
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        xml = archive.read(name).decode("utf-8")
    changed = changed_zip(data, {name: xml.replace("</p:spTree>", added).encode("utf-8")})
    assert (await files.output(changed, "pptx"))["slides"][0]["paragraphs"] == ["new"]


async def test_slides_stand_in_presentation_order(files: Files) -> None:
    presentation = pptx.Presentation()
    for title in ("first", "second"):
        presentation.slides.add_slide(presentation.slide_layouts[5]).shapes.title.text = title
    order = presentation.slides._sldIdLst
    order.append(order[0])
    found = (await files.output(saved(presentation), "pptx"))["slides"]
    assert [(slide["number"], slide["title"]) for slide in found] == [(1, "second"), (2, "first")]


async def test_a_presentation_without_slides_has_none(files: Files) -> None:
    extracted = await files.extract(slides(), "pptx")
    assert extracted.output["slides"] == []
    assert extracted.places.slides == 0


async def test_a_broken_slide_fails_the_file(files: Files) -> None:
    reason = await files.refusal(changed_zip(slides("T"), {"ppt/slides/slide1.xml": b"<p:sld"}), "pptx")
    assert re.search("broken|XML", reason)


async def test_a_missing_slide_fails_the_file(files: Files) -> None:
    assert "broken" in await files.refusal(changed_zip(slides("T"), {"ppt/slides/slide1.xml": None}), "pptx")
