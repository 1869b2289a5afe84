"""The part of the standard library that every call finds already imported."""

from __future__ import annotations

import importlib

# Once a call runs, no executable page can be mapped: a C extension that is not loaded now never is.
_MODULES = """
abc array ast base64 binascii bisect bz2 calendar cmath codecs collections collections.abc colorsys
configparser contextlib copy csv dataclasses datetime decimal difflib email email.message email.parser
email.policy email.utils encodings.idna encodings.punycode encodings.utf_16 encodings.utf_32
encodings.utf_8_sig encodings.cp1252 encodings.latin_1 encodings.ascii encodings.unicode_escape enum fcntl
fnmatch fractions functools glob graphlib gzip hashlib heapq hmac html html.entities html.parser inspect io
ipaddress itertools json keyword linecache locale logging lzma math mimetypes mmap numbers operator pathlib
pickle posixpath pprint quopri queue random re reprlib resource secrets select shlex shutil signal socket
sqlite3 statistics string stringprep struct subprocess tempfile textwrap threading time token tokenize tomllib
traceback types typing unicodedata urllib.parse uuid warnings weakref xml.dom.minidom xml.etree.ElementTree
zipfile zlib zoneinfo _bisect _blake2 _bz2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp
_codecs_kr _codecs_tw _contextvars _csv _decimal _elementtree _hashlib _heapq _json _lzma _md5 _multibytecodec
_opcode _pickle _posixsubprocess _queue _random _sha1 _sha2 _sha256 _sha3 _sha512 _socket _sqlite3 _statistics
_strptime _struct pyexpat
"""


def load() -> None:
    """Import what there is of the list; a Python built without one of them is still a Python."""
    for name in _MODULES.split():
        try:
            importlib.import_module(name)
        except ImportError:
            continue
