"""Run outside the sandbox, once: which shared libraries the Python and its preloaded modules need.

Writes a JSON object from the name a library is looked up by to the path it was found at.
"""

from __future__ import annotations

import ctypes
import json
import sys

from . import determinism, preload


class _Loaded(ctypes.Structure):
    """The head of the C library's struct dl_phdr_info."""

    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]


def main() -> None:
    """Import everything the sandbox will, then list what the loader holds."""
    determinism.install()
    preload.load()
    found: dict[str, str] = {}

    def collect(loaded: ctypes._Pointer[_Loaded], _size: int, _data: int) -> int:
        path = (loaded.contents.name or b"").decode("utf-8", "surrogateescape")
        if path.startswith("/"):
            found[path.rsplit("/", 1)[1]] = path
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(collect), None)
    sys.stdout.write(json.dumps(found))
