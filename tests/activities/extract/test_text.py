from __future__ import annotations

import codecs

import pytest

from tests.activities.extract.conftest import Files

TEXTS = ("text", "markdown", "html")


@pytest.mark.parametrize("format", TEXTS)
async def test_text_is_the_text_of_the_file_character_by_character(files: Files, format: str) -> None:
    content = "\u00a0 x\t\u200b\r\ne\u0301 \u2028 你好 \U0001f600 \x0c\x01 <b>&amp;</b>\r\n\r"
    extracted = await files.extract(content.encode("utf-8"), format)
    assert extracted.output == {"format": format, "text": content}
    assert extracted.places.lines == 3


async def test_p35_lines_end_at_three_sequences_only(files: Files) -> None:
    data = "l1\u2028l2\nl3\x0cl4\r\nl5\rl6".encode()
    for format in (*TEXTS, "csv"):
        assert (await files.places(data, format)).lines == 4
    assert (await files.places(b"a\nb\n", "text")).lines == 2
    assert (await files.places(b"", "text")).lines == 0


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
async def test_a_byte_order_mark_decides_the_encoding_and_is_no_text(
    files: Files, mark: bytes, encoding: str
) -> None:
    data = mark + "grüße \U0001f600\nzwei".encode(encoding)
    extracted = await files.extract(data, "text")
    assert extracted.output == {"format": "text", "text": "grüße \U0001f600\nzwei"}
    assert extracted.places.lines == 2
    await files.check(data, "text")


async def test_windows_text_is_read_and_marked_as_assumed(files: Files) -> None:
    data = "grüße – 90 €".encode("cp1252")
    assert await files.output(data, "text") == {
        "format": "text",
        "text": "grüße – 90 €",
        "encoding": "cp1252 (assumed)",
    }
    assert (await files.output(data, "csv"))["encoding"] == "cp1252 (assumed)"
    await files.check(data, "text")


@pytest.mark.parametrize(
    "data",
    [
        b"a\0b",
        "a\0b".encode("utf-16"),
        codecs.BOM_UTF8 + b"\xff",
        codecs.BOM_UTF16_LE + b"a",
        codecs.BOM_UTF16_LE + "a".encode("utf-16-le") + b"\x00\xd8",
        b"\x81\x8d\x8f\x90\x9d",
        "a".encode("utf-16-le"),
    ],
)
async def test_what_is_not_text_is_refused(files: Files, data: bytes) -> None:
    for format in (*TEXTS, "csv"):
        assert "not text" in await files.refusal(data, format)
        assert "not text" in await files.check_refusal(data, format)


async def test_a_fault_after_the_first_mebibyte_is_found_too(files: Files) -> None:
    whole = "ü".encode() * 600_000
    await files.check(whole, "text")
    assert "encoding" not in await files.output(whole, "text")
    assert "not text" in await files.refusal(whole + b"\x81", "text")


async def test_an_empty_file_is_an_empty_text(files: Files) -> None:
    assert await files.output(b"", "text") == {"format": "text", "text": ""}
    assert await files.output(codecs.BOM_UTF8, "markdown") == {"format": "markdown", "text": ""}


async def test_p63_three_megabytes_of_text_come_back_whole(files: Files) -> None:
    content = "refund of ninety euros, größer\n" * 100_000
    assert (await files.output(content.encode("utf-8"), "text"))["text"] == content


async def test_text_over_the_output_limit_is_refused(files: Files) -> None:
    assert "64 MiB" in await files.limit(b"x" * (64 << 20), "text")
    assert "64 MiB" in await files.limit(b"x" * ((64 << 20) + 1), "text")


async def test_every_csv_row_is_text(files: Files) -> None:
    data = b'id,amount\r\n007,9.50\r\n"a ""q"",\r\nb",\r\n\r\n1,2,3\n'
    extracted = await files.extract(data, "csv")
    assert extracted.output == {
        "format": "csv",
        "rows": [["id", "amount"], ["007", "9.50"], ['a "q",\r\nb', ""], [], ["1", "2", "3"]],
    }
    assert extracted.places.lines == 6
    assert (await files.output(b"", "csv"))["rows"] == []


@pytest.mark.parametrize("data", [b'a,"b\n', b'"a"b,c\n'])
async def test_broken_quoting_is_refused(files: Files, data: bytes) -> None:
    assert "broken csv" in await files.refusal(data, "csv")
    assert "broken csv" in await files.check_refusal(data, "csv")


async def test_a_csv_field_over_one_mebibyte_is_over_the_limit(files: Files) -> None:
    assert "1 MiB" in await files.limit(b"a," + b"x" * (1 << 20) + b"x\n", "csv")
    assert len((await files.output(b"x" * (1 << 20), "csv"))["rows"][0][0]) == 1 << 20


async def test_json_is_parsed_and_keeps_every_digit(files: Files) -> None:
    data = '\ufeff{"a": 123456789012345678901234567890, "b": [1.5, null, "\\u00e9\U0001f600"]}\n'.encode()
    extracted = await files.extract(data, "json")
    value = {"a": 123456789012345678901234567890, "b": [1.5, None, "é\U0001f600"]}
    assert extracted.output == {"format": "json", "value": value}
    assert extracted.places.document == value
    assert extracted.places.has_document
    assert extracted.places.lines == 1
    assert await files.places(data, "json") == extracted.places


async def test_json_null_is_a_document(files: Files) -> None:
    places = await files.places(b"null", "json")
    assert places.has_document
    assert places.document is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"answer": NaN}',
        b'{"answer": 1e999}',
        b'{"score": -Infinity}',
        b'{"a": 1, "a": 2}',
        b'"\\ud800"',
        b"",
        b"{} {}",
        b'{"a": "\xfc"}',
        '{"a": 1}'.encode("utf-16"),
        b"1" * 5000,
    ],
)
async def test_p43_what_is_not_strict_json_is_refused(files: Files, data: bytes) -> None:
    assert "not JSON" in await files.refusal(data, "json")
    assert "not JSON" in await files.check_refusal(data, "json")


async def test_json_may_nest_two_hundred_deep_and_no_deeper(files: Files) -> None:
    await files.output(b"[" * 200 + b"]" * 200, "json")
    assert "200" in await files.limit(b"[" * 201 + b"]" * 201, "json")
    assert "200" in await files.limit(b"[" * 100_000 + b"]" * 100_000, "json")
