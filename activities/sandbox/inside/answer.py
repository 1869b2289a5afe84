"""One call inside the sandbox: run the code's entrypoint and write what came of it as JSON.

The answer is two lines of JSON: how it went (`kind`, and for an exception `type`, `message`, `line`; always
`stdout`), and the returned value (null unless the kind is "value"). Everything written here is untrusted by
the reader outside: the code under test may write to the same descriptor.
"""

from __future__ import annotations

import io
import json
import os
import sys
import types
from typing import Any

from . import determinism

VALUE = "value"
RAISED = "raised"
SYNTAX = "syntax"
NO_ENTRYPOINT = "no_entrypoint"
NOT_JSON = "not_json"
TOO_LARGE = "too_large"
MEMORY = "memory"
RECURSION = "recursion"

MAX_VALUE_BYTES = 256 * 1024
"""Longest returned value, as JSON text in UTF-8."""
MAX_STDOUT_BYTES = 16 * 1024
MAX_MESSAGE = 500
"""Characters kept of an exception's message."""
MAX_DEPTH = 64
INTEGER_BOUND = 10**4300
"""From here on an integer has more than the 4,300 digits that the strict parser takes."""
RECURSION_LIMIT = 500
INTEGER_DIGITS = 10_000

_SOURCE = "<code>"
_OUT_OF_MEMORY = b'{"kind":"memory","stdout":""}\nnull'


class _NotJson(Exception):
    pass


class _Kept(io.RawIOBase):
    """The first bytes written, and a count of the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = bytearray()
        self.dropped = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        room = MAX_STDOUT_BYTES - len(self.kept)
        self.kept += view[:room]
        self.dropped += max(0, len(view) - room)
        return len(view)

    def text(self) -> str:
        text = self.kept.decode("utf-8", "replace")
        return f"{text}\n[{self.dropped} more bytes cut]" if self.dropped else text


def _plain(value: Any, place: str, depth: int) -> Any:
    """The same value in exact JSON types; subclasses lose their behaviour, tuples become arrays."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int.__int__(value)
        if not -INTEGER_BOUND < number < INTEGER_BOUND:
            raise _NotJson(f"{place} is an integer of more than 4,300 digits")
        return number
    if isinstance(value, float):
        real = float.__float__(value)
        if real != real or real in (float("inf"), float("-inf")):
            raise _NotJson(f"{place} is {real!r}, which is not JSON")
        return real
    if depth == 0 and isinstance(value, dict | list | tuple):
        raise _NotJson(f"it is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        members: dict[str, Any] = {}
        for key, item in dict.items(value):
            if not isinstance(key, str):
                raise _NotJson(f"{place} has a key of type {type(key).__name__}, not a string")
            name = str.__str__(key)
            if name in members:
                raise _NotJson(f"{place} has the key {name[:80]!r} twice")
            members[name] = _plain(item, f"{place}.{name}"[:100], depth - 1)
        return members
    if isinstance(value, list | tuple):
        items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        return [_plain(item, f"{place}[{index}]"[:100], depth - 1) for index, item in enumerate(items)]
    raise _NotJson(f"{place} is a {type(value).__name__}")


def _described(error: BaseException) -> dict[str, Any]:
    """Type, message and the last line of the code's own source that the exception passed through."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _SOURCE:
            line = trace.tb_lineno
        trace = trace.tb_next
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be read)"
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]} [cut]"
    return {"kind": RAISED, "type": type(error).__name__[:100], "message": message, "line": line}


def _ran(call: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """How the call went, and the value as JSON text."""
    try:
        compiled = compile(call["source"], _SOURCE, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        where = error.lineno if isinstance(error, SyntaxError) else None
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        return {"kind": SYNTAX, "type": type(error).__name__, "message": said, "line": where}, b"null"

    module = types.ModuleType("code_block")
    # Dataclasses and typing look their own module up by name.
    sys.modules["code_block"] = module
    try:
        exec(compiled, module.__dict__)
        entrypoint = module.__dict__.get(call["entrypoint"])
        if not callable(entrypoint):
            return {"kind": NO_ENTRYPOINT}, b"null"
        value = entrypoint(**call["inputs"])
        text = json.dumps(
            _plain(value, "the value", MAX_DEPTH), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        encoded = text.encode("utf-8")
    except MemoryError:
        raise
    except RecursionError as error:
        return {**_described(error), "kind": RECURSION}, b"null"
    except _NotJson as error:
        return {"kind": NOT_JSON, "message": str(error)}, b"null"
    except UnicodeEncodeError:
        return {"kind": NOT_JSON, "message": "a string holds half of a surrogate pair"}, b"null"
    except BaseException as error:
        return _described(error), b"null"
    if len(encoded) > MAX_VALUE_BYTES:
        return {"kind": TOO_LARGE}, b"null"
    return {"kind": VALUE}, encoded


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def serve(call_descriptor: int, reply_descriptor: int) -> None:
    """Read one call (a JSON object) to the end of the file, run it, write the answer."""
    write, kept = _write, _Kept()
    try:
        with open(call_descriptor, "rb") as file:
            call = json.loads(file.read())  # noqa: TID251 - written by us; the project is not visible here
        determinism.begin(call["now"], call["seed"])
        sys.stdout = sys.stderr = io.TextIOWrapper(
            kept, encoding="utf-8", errors="backslashreplace", write_through=True
        )
        sys.setrecursionlimit(RECURSION_LIMIT)
        sys.set_int_max_str_digits(INTEGER_DIGITS)
        how, value = _ran(call)
        how["stdout"] = kept.text()
        head = json.dumps(how, separators=(",", ":")).encode("ascii")
        write(reply_descriptor, head + b"\n" + value)
    except MemoryError:
        write(reply_descriptor, _OUT_OF_MEMORY)
