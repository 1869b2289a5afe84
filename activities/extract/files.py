"""Extract a file, find its places, check its format: each in a process of its own, off the event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from activities.extract import limits
from activities.extract.processes import Answer, ask
from activities.extract.shapes import ANSWER, OUTPUTS, Found
from engine.citations import Places
from engine.failure import BlockFailure, ReasonKind
from wyrd.wire.canonical import JsonRefused, strict_loads

_log = logging.getLogger(__name__)

_RULES = 1
"""Our own rules of shaping an output. Raised whenever the same file would give another one."""

_INLINE_BYTES = 64 * 1024
_POINTED = frozenset(("docx", "xlsx", "pptx"))


def _versions() -> dict[str, str]:
    libraries = {"pdf": "pypdfium2", "docx": "python-docx", "pptx": "python-pptx", "xlsx": "lxml"}
    found = {format: f"{name}/{version(name)}" for format, name in libraries.items()}
    for format in ("csv", "json", "text", "markdown", "html"):
        found[format] = f"python/{platform.python_version()}"
    return {format: f"{name}+rules.{_RULES}" for format, name in found.items()}


EXTRACTION_VERSIONS: dict[str, str] = _versions()
"""Format to what extracts it, such as `pypdfium2/5.15.2+rules.1`: recorded with every result."""


@dataclass(frozen=True, slots=True)
class ExtractedFile:
    """An extraction: the JSON document of the format, the places in the file, and its provenance."""

    output: dict[str, Any]
    places: Places
    version: str
    duration_ms: int


async def extract_file(path: Path, format: str, *, timeout: float) -> ExtractedFile:
    """Extract one file of a canonical format within `timeout` seconds.

    Raises `BlockFailure`: EVIDENCE_UNREADABLE (encrypted, broken, of another format, or a format
    that is not extracted), LIMIT_EXCEEDED, TIMEOUT, WORKER_LOST (retryable), INTERNAL (the stored
    file is gone). Never an empty output in place of content that cannot be read.
    """
    answer = await _ask("extract", path, format, timeout)
    found = await _checked(answer, format)
    if found["output"] is None:
        raise _not_ours(format)
    return ExtractedFile(
        output=found["output"],
        places=_places(format, found),
        version=EXTRACTION_VERSIONS[format],
        duration_ms=answer.duration_ms,
    )


async def inspect_file(path: Path, format: str, *, timeout: float) -> Places:
    """The places that exist in a file, for citations, when no step extracts it. Raises as `extract_file`.

    Images have a size; zip and tar_gz have no places at all.
    """
    return _places(format, await _checked(await _ask("inspect", path, format, timeout), format))


async def check_format(path: Path, format: str, *, timeout: float) -> None:
    """Whether the bytes are what their declared format says. Raises as `extract_file`.

    A pdf has its header and end and opens; Office files have the right main part; json parses; csv,
    text, markdown and html decode; images and archives have their signature and are whole.
    """
    await _checked(await _ask("check", path, format, timeout), format)


def _request(operation: str, path: Path, format: str) -> dict[str, str]:
    # The reading process works in another folder.
    return {"operation": operation, "path": os.path.abspath(path), "format": format}


async def _ask(
    operation: Literal["extract", "inspect", "check"], path: Path, format: str, timeout: float
) -> Answer:
    return await ask(_request(operation, path, format), timeout=timeout)


async def _checked(answer: Answer, format: str) -> Found:
    if len(answer.content) <= _INLINE_BYTES:
        return _read(answer.content, format)
    return await asyncio.to_thread(_read, answer.content, format)


def _read(content: bytes, format: str) -> Found:
    try:
        found = ANSWER.validate_python(strict_loads(content, max_depth=limits.JSON_DEPTH + 8))
        if found["ok"] is True:
            if found["output"] is not None:
                OUTPUTS[format].validate_python(found["output"])
            return found
    except (JsonRefused, ValidationError, KeyError):
        raise _not_ours(format) from None
    if found["where"]:
        _log.warning("reading a %s file raised an unexpected exception at %s", format, found["where"])
    raise BlockFailure(ReasonKind(found["kind"]), found["reason"])


def _not_ours(format: str) -> BlockFailure:
    return BlockFailure(
        ReasonKind.EVIDENCE_UNREADABLE, f"the parser gave no proper answer about the {format} file"
    )


def _places(format: str, found: Found) -> Places:
    output, pages, image = found["output"], found["pages"], found["image"]
    document: Any = None
    if output is not None:
        document = output.get("value") if format == "json" else output
    has_document = output is not None and (format == "json" or format in _POINTED)
    return Places(
        "media",
        format=format,
        document=document if has_document else None,
        has_document=has_document,
        lines=found["lines"],
        pages=None if pages is None else tuple((width, height) for width, height in pages),
        slides=found["slides"],
        image=None if image is None else (image[0], image[1]),
    )
