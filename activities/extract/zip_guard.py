"""What an Office file's archive must be before any library may open it.

Sizes are those really inflated: the declared ones lie. What passes here holds few enough members,
small enough, with true checksums, plain names, and no document type declaration in any XML.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator

from activities.extract import limits
from activities.extract.reading import over_limit, unreadable

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ENTRY = b"PK\x01\x02"
_CHUNK = 64 * 1024
_OUT = limits.MIB

_DOCTYPES = tuple("<!DOCTYPE".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
_TAIL = max(map(len, _DOCTYPES)) - 1
_XML_NAME = re.compile(r"\.(xml|rels|vml)$", re.IGNORECASE)
# Pages and drawings that a document may carry along; no parser of ours opens them.
_CARRIED = re.compile(r"\.(x?html?|mht|mhtml|svg)$", re.IGNORECASE)
_XML_STARTS = (b"<", b"\xef\xbb\xbf<", b"\xff\xfe<\0", b"\xfe\xff\0<", b"<\0", b"\0<")


def open_guarded(data: bytes, format: str) -> zipfile.ZipFile:
    """The archive of an Office file, after every member was inflated once and discarded.

    Raises EVIDENCE_UNREADABLE (not a zip, encrypted, legacy, broken, unsafe names, a document
    type declaration) or LIMIT_EXCEEDED (members, member size, total size, ratio).
    """
    if data.startswith(_OLE):
        if _OLE_ENCRYPTED in data:
            raise unreadable(f"the {format} file is encrypted, password needed")
        raise unreadable(f"not a {format} file: an encrypted or legacy Office file (OLE container)")
    # Before the directory is parsed at all. The signature may also occur inside members, hence the slack.
    if data.count(_ENTRY) > 4 * limits.ZIP_MEMBERS:
        raise _too_many()
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
        raise unreadable(f"not a {format} file, or a broken one: {error}") from None
    members = archive.infolist()
    if len(members) > limits.ZIP_MEMBERS:
        raise _too_many()
    for member in members:
        _check_entry(member)
    total = 0
    for member in members:
        total += _check_content(data, member, limits.ZIP_TOTAL_BYTES - total)
    return archive


def _too_many() -> Exception:
    return over_limit(f"the archive holds more than {limits.ZIP_MEMBERS:,} members")


def _check_entry(member: zipfile.ZipInfo) -> None:
    # orig_filename: zipfile cuts names at a NUL, other readers may not.
    name = member.orig_filename
    if member.flag_bits & 0x1:
        raise unreadable("the archive is encrypted, password needed")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise unreadable("the archive uses a compression that Office files do not have")
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or parts[0] == "" or parts[0].endswith(":") or "\0" in name:
        raise unreadable(f"the archive holds an unsafe name {name[:80]!r}")


def _check_content(data: bytes, member: zipfile.ZipInfo, total_left: int) -> int:
    """Inflate one member, count it, and look through it. Returns its true size."""
    size = 0
    checksum = 0
    tail = b""
    searched: bool | None = None
    for piece in _inflate(data, member):
        size += len(piece)
        if size > limits.ZIP_MEMBER_BYTES:
            raise over_limit(
                f"a member of the archive is over the limit of {limits.ZIP_MEMBER_BYTES >> 20} MiB"
            )
        if size > total_left:
            raise over_limit(f"the archive is over the limit of {limits.ZIP_TOTAL_BYTES >> 20} MiB inflated")
        if size > limits.ZIP_RATIO_FREE_BYTES and size > limits.ZIP_RATIO * max(member.compress_size, 1):
            raise over_limit(
                f"a member of the archive inflates to over {limits.ZIP_RATIO} times its size (limit)"
            )
        checksum = zlib.crc32(piece, checksum)
        if searched is None:
            searched = _is_xml(member.filename, piece)
        if searched:
            if any(mark in tail + piece[:_TAIL] or mark in piece for mark in _DOCTYPES):
                raise unreadable("the file holds a DOCTYPE declaration, which Office files must not")
            tail = (tail + piece)[-_TAIL:]
    if size != member.file_size or checksum != member.CRC:
        raise unreadable("broken archive: a member is not what the directory declares")
    return size


def _is_xml(name: str, start: bytes) -> bool:
    if _XML_NAME.search(name):
        return True
    return not _CARRIED.search(name) and start.lstrip(b" \t\r\n").startswith(_XML_STARTS)


def _inflate(data: bytes, member: zipfile.ZipInfo) -> Iterator[bytes]:
    view = memoryview(data)
    header = data[member.header_offset : member.header_offset + 30]
    if len(header) < 30 or header[:4] != b"PK\x03\x04":
        raise unreadable("broken archive: a member is missing")
    name_length, extra_length = struct.unpack_from("<HH", header, 26)
    start = member.header_offset + 30 + name_length + extra_length
    packed = view[start : start + member.compress_size]
    if len(packed) < member.compress_size:
        raise unreadable("broken archive: it ends too early")
    if member.compress_type == zipfile.ZIP_STORED:
        for at in range(0, len(packed), _OUT):
            yield bytes(packed[at : at + _OUT])
        return
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for at in range(0, len(packed), _CHUNK):
            pending: bytes | memoryview = packed[at : at + _CHUNK]
            while pending and not inflater.eof:
                yield inflater.decompress(pending, _OUT)
                pending = inflater.unconsumed_tail
        while not inflater.eof:
            piece = inflater.decompress(b"", _OUT)
            if not piece:
                raise unreadable("broken archive: a member ends too early")
            yield piece
    except zlib.error:
        raise unreadable("broken archive: a member does not inflate") from None
