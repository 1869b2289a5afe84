"""One request answered, in the process that lives for one file.

Request: `{operation: check | inspect | extract, path, format, timeout}`. Answer: `{ok: true, output,
lines, pages, slides, image}` or `{ok: false, kind, reason, where?}`, where `where` names the
places in code of an exception nobody expected.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from typing import Any

from activities.extract import limits
from activities.extract.formats import READERS
from activities.extract.reading import Reading, output_too_large, over_limit, unreadable
from engine.failure import BlockFailure, ReasonKind

_CHUNK = 1 << 20


def answer(request: dict[str, Any], seal: Callable[[], None]) -> bytes:
    """The answer as UTF-8 JSON. `seal` is called between reading the bytes and parsing them."""
    try:
        return _encode(_perform(request, seal))
    except BlockFailure as failure:
        return _refusal(failure)
    except MemoryError:
        return _refusal(
            over_limit(f"reading it takes more than {limits.ADDRESS_SPACE_BYTES >> 30} GiB of memory")
        )
    except RecursionError:
        return _refusal(over_limit("it is nested too deeply"))
    except Exception as error:
        # Parsers raise anything on broken files. The message may quote the file, so only its type is told.
        kind = type(error).__name__
        reason = f"broken {request['format']} file: it cannot be parsed ({kind})"
        frames = [
            f"{frame.name} {frame.filename}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        return _refusal(unreadable(reason), where=frames[-6:])


def _perform(request: dict[str, Any], seal: Callable[[], None]) -> Reading:
    format, operation = request["format"], request["operation"]
    reader = READERS.get(format)
    if reader is None:
        raise unreadable(f"files of format {format!r} cannot be read")
    if operation == "extract" and reader.extract is None:
        raise unreadable(f"files of format {format!r} cannot be extracted")
    limit = limits.INPUT_BYTES if operation == "check" else reader.max_bytes
    try:
        data = _bytes(request["path"], limit)
    except OSError as error:
        raise BlockFailure(
            ReasonKind.INTERNAL, f"the stored file cannot be opened: {os.strerror(error.errno or 0)}"
        ) from None
    if len(data) > limit:
        raise over_limit(f"the {format} file is over the limit of {limit // limits.MIB} MiB")
    seal()
    if operation == "check":
        reader.check(data)
        return Reading()
    if operation == "inspect" or reader.extract is None:
        return reader.inspect(data)
    return reader.extract(data)


def _bytes(path: str, limit: int) -> bytes:
    """The file's bytes, and one more than `limit` at most."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces: list[bytes] = []
        left = limit + 1
        while left > 0 and (piece := os.read(descriptor, min(left, _CHUNK))):
            pieces.append(piece)
            left -= len(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces)


def _encode(reading: Reading) -> bytes:
    document = {
        "ok": True,
        "output": reading.output,
        "lines": reading.lines,
        "pages": reading.pages,
        "slides": reading.slides,
        "image": reading.image,
    }
    encoded = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    if len(encoded) > limits.OUTPUT_BYTES:
        raise output_too_large()
    return encoded


def _refusal(failure: BlockFailure, where: list[str] | None = None) -> bytes:
    document = {"ok": False, "kind": failure.kind.value, "reason": failure.reason, "where": where or []}
    return json.dumps(document).encode("utf-8")
