"""The small grammars of a reference: kinds, names, exact versions, uids."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from wyrd.wire.ids import is_uuid7

Kind = Literal[
    "Data",
    "Model",
    "Experiment",
    "Prompt",
    "Agent",
    "Verifier",
    "Service",
    "Policy",
    "Mcp",
    "Audit",
    "Artifact",
    "Trigger",
    "Operator",
    "Source",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Every kind that can be declared, in the order that ties between Cards are broken."""

DEFAULT_SPACE = "default"

MAX_VERSION_LENGTH = 256
_U64 = 2**64 - 1

_NAME = re.compile(r"[a-z][a-z0-9_-]{2,63}")
_PART = r"(?:0|[1-9][0-9]{0,19})"
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"({_PART})\.({_PART})\.({_PART})"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


def is_name(text: str) -> bool:
    """Whether the text is a Card name, space, deployment or connection (3 to 64 characters)."""
    return _NAME.fullmatch(text) is not None


def is_exact_version(text: str) -> bool:
    """Whether the text is one full SemVer version, every number within 64 bits."""
    if len(text) > MAX_VERSION_LENGTH:
        return False
    found = _VERSION.fullmatch(text)
    return found is not None and all(int(part) <= _U64 for part in found.group(1, 2, 3))


def _refused(sentence: str) -> PydanticCustomError:
    # The sentence travels in the context, so that braces in it are never read as a template.
    return PydanticCustomError("grammar", "{sentence}", {"sentence": sentence})


def _name(text: str) -> str:
    if not is_name(text):
        raise _refused(f"{text[:80]!r} is not a name: 3 to 64 of a-z, 0-9, - and _, a letter first")
    return text


def _exact(text: str) -> str:
    if not is_exact_version(text):
        raise _refused(f"{text[:80]!r} is not an exact version such as 1.0.0")
    return text


def _uid(text: str) -> str:
    if not is_uuid7(text):
        raise _refused("a uid is a UUIDv7")
    return text.lower()


Name = Annotated[str, AfterValidator(_name), Field(json_schema_extra={"pattern": "^[a-z][a-z0-9_-]{2,63}$"})]
ExactVersion = Annotated[str, AfterValidator(_exact)]
Uid = Annotated[str, AfterValidator(_uid)]
