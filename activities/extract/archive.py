"""zip and tar_gz: that the bytes are such an archive. Nothing in them is extracted or cited."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib

from activities.extract import limits
from activities.extract.reading import unreadable

_CHUNK = 64 * 1024
_TAR_BLOCK = 512


def check_zip(data: bytes) -> None:
    """Raises EVIDENCE_UNREADABLE unless the bytes open as a zip archive."""
    try:
        zipfile.ZipFile(io.BytesIO(data)).close()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise unreadable(f"not a zip file: {error}") from None


def check_tar_gz(data: bytes) -> None:
    """Raises EVIDENCE_UNREADABLE unless the bytes are a whole gzip stream that begins with a tar header.

    Only the first 512 MiB are inflated; what lies beyond is taken on trust.
    """
    head = b""
    inflated = 0
    inflater = zlib.decompressobj(wbits=31)
    try:
        for start in range(0, len(data), _CHUNK):
            pending = data[start : start + _CHUNK]
            while pending and not inflater.eof:
                piece = inflater.decompress(pending, limits.MIB)
                pending = inflater.unconsumed_tail
                inflated += len(piece)
                head = (head + piece)[:_TAR_BLOCK] if len(head) < _TAR_BLOCK else head
                if inflated > limits.ZIP_TOTAL_BYTES:
                    break
            if inflater.eof or inflated > limits.ZIP_TOTAL_BYTES:
                break
        else:
            raise unreadable("not a tar_gz file: it is empty or ends too early")
    except zlib.error as error:
        raise unreadable(f"not a tar_gz file: {error}") from None
    if head.strip(b"\0"):
        try:
            tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise unreadable(f"not a tar_gz file: no tar header inside ({error})") from None
    elif len(head) < _TAR_BLOCK:
        raise unreadable("not a tar_gz file: no tar header inside")
