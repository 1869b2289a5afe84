"""JSON Pointers (RFC 6901): whether the place one names exists in a document."""

from __future__ import annotations

import re
from typing import Any

_TOKENS = re.compile(r"(?:/(?:[^/~]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")


class PointerUnresolved(LookupError):
    """The text is no pointer, or the place does not exist."""


def resolve(document: Any, pointer: str) -> Any:
    """The value at the pointer; "" is the whole document. Raises `PointerUnresolved`.

    Array indexes are plain decimals: `-` (past the end) and leading zeros name nothing.
    """
    if _TOKENS.fullmatch(pointer) is None:
        raise PointerUnresolved("it is not a JSON Pointer")
    value = document
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if type(value) is dict and name in value:
            value = value[name]
        elif type(value) is list and _INDEX.fullmatch(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            raise PointerUnresolved("that place does not exist")
    return value


def escape(token: str) -> str:
    """One reference token as a pointer writes it."""
    return token.replace("~", "~0").replace("/", "~1")
