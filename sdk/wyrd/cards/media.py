"""Media formats: their canonical words, the other spellings, and what can be done with each."""

from __future__ import annotations

from typing import Final

_OOXML = "application/vnd.openxmlformats-officedocument."

SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    "png": ("image/png",),
    "jpeg": ("jpg", "image/jpeg"),
    "gif": ("image/gif",),
    "webp": ("image/webp",),
    "pdf": ("application/pdf",),
    "docx": (_OOXML + "wordprocessingml.document",),
    "doc": ("application/msword",),
    "xlsx": (_OOXML + "spreadsheetml.sheet",),
    "xls": ("application/vnd.ms-excel",),
    "pptx": (_OOXML + "presentationml.presentation",),
    "ppt": ("application/vnd.ms-powerpoint",),
    "csv": ("text/csv",),
    "json": ("application/json",),
    "html": ("text/html", "htm"),
    "text": ("txt", "text/plain"),
    "markdown": ("md", "text/markdown"),
    "zip": ("application/zip",),
    "tar_gz": ("tar.gz", "tgz", "application/gzip", "application/x-gzip"),
}
"""Each canonical format with the other spellings that a Card or a file name may use."""

FORMATS: Final = tuple(SPELLINGS)

_PLAIN: Final = frozenset(
    (
        *("c", "cc", "cfg", "conf", "cpp", "cs", "css", "eml", "go", "h", "hpp", "ini"),
        *("ipynb", "java", "js", "jsonl", "jsx"),
        *("kt", "log", "lua", "ndjson", "php", "pl", "ps1", "py", "r", "rb", "rs", "rst", "sh", "sql"),
        *("svg", "swift", "tex", "toml", "ts", "tsx", "tsv", "xml", "yaml", "yml"),
    )
)
"""Endings of files that are plain text, and of no format with a word of its own."""

_FOREIGN: Final = frozenset(
    (
        *("7z", "aac", "aiff", "apk", "avi", "avif", "bin", "bmp", "bz2", "class", "dll", "dmg", "gz"),
        *("epub", "exe", "flac", "heic", "ico", "iso", "jar", "key", "m4a", "mkv", "mov", "mp3"),
        *("mp4", "msg", "numbers", "odp", "ods", "odt", "ogg", "pages", "parquet", "psd", "pyc", "rar"),
        *("rtf", "so", "sqlite", "tar", "tif", "tiff", "ttf", "wasm", "wav", "webm", "whl"),
        *("wma", "wmv", "woff", "xz", "zst"),
    )
)
"""Endings of files that no slot takes."""

EXTRACTABLE: Final = frozenset(("pdf", "docx", "xlsx", "pptx", "csv", "json", "text", "markdown", "html"))
PROVIDER_NATIVE: Final = frozenset(("png", "jpeg", "gif", "webp", "pdf", "text"))

_CANONICAL: Final = {spelling: name for name, others in SPELLINGS.items() for spelling in (name, *others)}


def canonical_format(text: str) -> str | None:
    """The canonical word of a format, in any letter case, or None when it is not one."""
    return _CANONICAL.get(text.lower()) if text.isascii() else None


def format_of_name(filename: str) -> str | None:
    """The format that a file name's ending says, or None."""
    lowered = filename.lower()
    if lowered.endswith(".tar.gz"):
        return "tar_gz"
    _, dot, ending = lowered.rpartition(".")
    return canonical_format(ending) if dot and "/" not in ending else None


def foreign_ending(filename: str, accepted: tuple[str, ...]) -> str | None:
    """The ending of a name that says the file is of none of those formats; None for any other ending.

    An ending that nobody knows says nothing, and one of plain text fits a slot that takes `text`.
    """
    _, dot, ending = filename.lower().rpartition(".")
    foreign = ending in _FOREIGN or (ending in _PLAIN and "text" not in accepted)
    return f".{ending}" if dot and foreign else None
