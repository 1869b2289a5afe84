"""Text, markdown and html: the characters of the file as they are.

The encoding is the byte order mark's, else UTF-8, else Windows-1252, which the output then says
in its member `encoding`. It is never guessed from the content: detectors guess wrong.
"""

from __future__ import annotations

import codecs

from activities.extract.reading import Reading, unreadable
from engine.lines import count_lines

ASSUMED = "cp1252 (assumed)"

# UTF-32 before UTF-16: the shorter mark of little-endian UTF-16 begins the longer one.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_CHUNK = 1024 * 1024


def decode(data: bytes) -> tuple[str, bool]:
    """The characters of a text file without its byte order mark, and whether cp1252 was assumed.

    Raises EVIDENCE_UNREADABLE for bytes that are not text: a NUL, or no encoding fits.
    """
    encoding, mark, assumed = _encoding(data)
    return str(memoryview(data)[mark:], encoding), assumed


def check(data: bytes) -> None:
    """Raises EVIDENCE_UNREADABLE when the bytes are not text."""
    _encoding(data)


def inspect(data: bytes) -> Reading:
    """The lines of a text file."""
    return Reading(lines=count_lines(decode(data)[0]))


def extract(format: str, data: bytes) -> Reading:
    """`{format, text}`, and `encoding` when it had to be assumed."""
    content, assumed = decode(data)
    output = {"format": format, "text": content}
    if assumed:
        output["encoding"] = ASSUMED
    return Reading(output=output, lines=count_lines(content))


def _encoding(data: bytes) -> tuple[str, int, bool]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            fault = _fault(data, len(mark), encoding)
            if fault is not None:
                raise unreadable(f"not text: the byte order mark says {encoding.upper()}, but {fault}")
            return encoding, len(mark), False
    if b"\0" in data:
        raise unreadable("not text: it holds a NUL byte")
    if _fault(data, 0, "utf-8") is None:
        return "utf-8", 0, False
    fault = _fault(data, 0, "cp1252")
    if fault is not None:
        raise unreadable(f"not text: neither UTF-8 nor Windows-1252 ({fault})")
    return "cp1252", 0, True


def _fault(data: bytes, start: int, encoding: str) -> str | None:
    """Why the bytes are not text in that encoding. In pieces, so that a large file costs no memory."""
    decoder = codecs.getincrementaldecoder(encoding)()
    view = memoryview(data)
    for offset in range(start, len(data) + 1, _CHUNK):
        piece = bytes(view[offset : offset + _CHUNK])
        try:
            characters = decoder.decode(piece, final=offset + _CHUNK > len(data))
        except UnicodeDecodeError:
            return f"its bytes do not decode (near byte {offset})" if offset else "its bytes do not decode"
        if "\0" in characters:
            return "it holds a NUL character"
    return None
