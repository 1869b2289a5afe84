"""Names, ids, versions and durations: the small grammars that Cards are made of."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from wyrd.cards.shapes import fault
from wyrd.wire.names import ExactVersion as ExactVersion
from wyrd.wire.names import Name as Name
from wyrd.wire.names import is_exact_version as is_exact_version
from wyrd.wire.names import is_name as is_name

U16 = 2**16 - 1
U32 = 2**32 - 1
U64 = 2**64 - 1

Count16 = Annotated[int, Field(ge=0, le=U16)]
Count32 = Annotated[int, Field(ge=0, le=U32)]
Count64 = Annotated[int, Field(ge=0, le=U64)]

_SLOT = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
_BLOCK = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,127}")
_FEATURE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_ENTRYPOINT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = r"(?:0|[1-9][0-9]{0,19})"
_PARTIAL = re.compile(rf"({_PART})(?:\.({_PART}))?")
_DURATION = re.compile(r"([1-9][0-9]*)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_DURATION = 365 * 86400
"""The longest quiet time of a group, in seconds."""


def is_slot_name(text: str) -> bool:
    """Whether the text can name an input slot (1 to 64 letters, digits and underscores)."""
    return _SLOT.fullmatch(text) is not None


def is_block_id(text: str) -> bool:
    """Whether the text can be the id of a step or requirement (1 to 128 characters)."""
    return _BLOCK.fullmatch(text) is not None


def is_feature(text: str) -> bool:
    """Whether the text can name a measured feature (1 to 64 characters)."""
    return _FEATURE.fullmatch(text) is not None


def is_entrypoint(text: str) -> bool:
    """Whether the text is an ASCII identifier, as a code block's entry point must be."""
    return _ENTRYPOINT.fullmatch(text) is not None


def is_version(text: str) -> bool:
    """Whether the text is an exact version or a scope such as `1` or `1.2`."""
    if is_exact_version(text):
        return True
    found = _PARTIAL.fullmatch(text)
    return found is not None and all(int(part) <= U64 for part in found.groups() if part is not None)


def duration_seconds(text: str) -> int | None:
    """Seconds of `<n>(s|m|h|d)`, or None when it is not one such duration of at most a year."""
    found = _DURATION.fullmatch(text)
    if found is None or len(found.group(1)) > 10:
        return None
    seconds = int(found.group(1)) * _UNITS[found.group(2)]
    return seconds if seconds <= MAX_DURATION else None


def _slot(text: str) -> str:
    if not is_slot_name(text):
        raise fault(f"{text[:80]!r} is not a slot name: 1 to 64 letters, digits and _, no digit first")
    return text


def _block(text: str) -> str:
    if not is_block_id(text):
        raise fault(f"{text[:80]!r} is not an id: 1 to 128 letters, digits, - and _, a letter or _ first")
    return text


def _feature(text: str) -> str:
    if not is_feature(text):
        raise fault(f"{text[:80]!r} is not a feature name: 1 to 64 of a-z, 0-9, - and _, a letter first")
    return text


def _version(text: str) -> str:
    if not is_version(text):
        raise fault(f"{text[:80]!r} is not a version such as 1.0.0, or a scope such as 1 or 1.2")
    return text


def _duration(text: str) -> str:
    if duration_seconds(text) is None:
        raise fault(f"{text[:80]!r} is not a duration: a whole number and s, m, h or d, at most a year")
    return text


SlotName = Annotated[
    str, AfterValidator(_slot), Field(json_schema_extra={"pattern": "^[a-zA-Z_][a-zA-Z0-9_]{0,63}$"})
]
BlockId = Annotated[
    str, AfterValidator(_block), Field(json_schema_extra={"pattern": "^[a-zA-Z_][a-zA-Z0-9_-]{0,127}$"})
]
Feature = Annotated[
    str, AfterValidator(_feature), Field(json_schema_extra={"pattern": "^[a-z][a-z0-9_-]{0,63}$"})
]
Version = Annotated[str, AfterValidator(_version)]
Duration = Annotated[
    str, AfterValidator(_duration), Field(json_schema_extra={"pattern": "^[1-9][0-9]*[smhd]$"})
]
