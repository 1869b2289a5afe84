"""png, jpeg, gif, webp: signature, pixel size, and that the file is whole. Pixels are never decoded.

Sizes are those stored; an EXIF orientation does not turn them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from activities.extract.reading import Reading, unreadable


def check(format: str, data: bytes) -> None:
    """Raises EVIDENCE_UNREADABLE when the bytes are not a whole image of that format."""
    _size(format, data)


def inspect(format: str, data: bytes) -> Reading:
    """The pixel size of the image."""
    return Reading(image=_size(format, data))


def _size(format: str, data: bytes) -> tuple[int, int]:
    signature, measure = _FORMATS[format]
    if not any(data.startswith(start) for start in signature):
        raise unreadable(f"not a {format} file: wrong signature")
    try:
        width, height = measure(data)
    except (struct.error, IndexError):
        raise unreadable(f"broken {format} file: it ends too early") from None
    if width <= 0 or height <= 0:
        raise unreadable(f"broken {format} file: it has no size")
    return width, height


def _png(data: bytes) -> tuple[int, int]:
    view = memoryview(data)
    size: tuple[int, int] | None = None
    at = 8
    while True:
        length, kind = struct.unpack_from(">I4s", data, at)
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(view[at + 4 : at + 8 + length]) != checksum:
            raise unreadable("broken png file: a chunk does not match its checksum")
        if size is None:
            if kind != b"IHDR" or length != 13:
                raise unreadable("broken png file: it does not begin with its header")
            width, height = struct.unpack_from(">II", data, at + 8)
            size = (width, height)
        if kind == b"IEND":
            return size
        at += 12 + length


_JPEG_ALONE = frozenset((0x01, *range(0xD0, 0xD8)))
_JPEG_FRAME = frozenset((*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)))


def _jpeg(data: bytes) -> tuple[int, int]:
    size: tuple[int, int] | None = None
    at = 2
    while True:
        if data[at] != 0xFF:
            raise unreadable("broken jpeg file: a marker is missing")
        while data[at] == 0xFF:
            at += 1
        marker = data[at]
        at += 1
        if marker in _JPEG_ALONE:
            continue
        if marker == 0xD9:
            raise unreadable("broken jpeg file: it ends before its image")
        (length,) = struct.unpack_from(">H", data, at)
        if marker in _JPEG_FRAME:
            height, width = struct.unpack_from(">HH", data, at + 3)
            size = (width, height)
        at += length
        if marker == 0xDA:
            break
    # Thumbnails carry an end marker too, but they stand before the scan.
    if size is None or data.rfind(b"\xff\xd9") < at:
        raise unreadable("broken jpeg file: it ends too early")
    return size


def _gif(data: bytes) -> tuple[int, int]:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)
    frames = 0
    while True:
        kind = data[at]
        at += 1
        if kind == 0x3B:
            break
        if kind == 0x21:
            at += 1
        elif kind == 0x2C:
            frames += 1
            local = data[at + 8]
            at += 9 + (3 << ((local & 7) + 1) if local & 0x80 else 0) + 1
        else:
            raise unreadable("broken gif file: an unknown block")
        while data[at]:
            at += data[at] + 1
        at += 1
    if not frames:
        raise unreadable("broken gif file: it holds no image")
    return width, height


def _webp(data: bytes) -> tuple[int, int]:
    (length,) = struct.unpack_from("<I", data, 4)
    if data[8:12] != b"WEBP":
        raise unreadable("not a webp file: wrong signature")
    if length + 8 > len(data):
        raise unreadable("broken webp file: it ends too early")
    kind = data[12:16]
    if kind == b"VP8X":
        low, high = data[24:27], data[27:30]
        return int.from_bytes(low, "little") + 1, int.from_bytes(high, "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise unreadable("broken webp file: it does not begin with an image")


_FORMATS: dict[str, tuple[tuple[bytes, ...], Callable[[bytes], tuple[int, int]]]] = {
    "png": ((b"\x89PNG\r\n\x1a\n",), _png),
    "jpeg": ((b"\xff\xd8\xff",), _jpeg),
    "gif": ((b"GIF87a", b"GIF89a"), _gif),
    "webp": ((b"RIFF",), _webp),
}
