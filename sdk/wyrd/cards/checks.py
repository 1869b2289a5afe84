"""Requirements and the checks that judge them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Tag

from wyrd.cards.actions import AgentBlock, CodeBlock
from wyrd.cards.comparison import Operator
from wyrd.cards.drift import DriftCheck
from wyrd.cards.identifiers import BlockId
from wyrd.cards.references import Reference
from wyrd.cards.shapes import TAG, Strict, fault, tagged

MAX_SELECTOR = 1024


class AssertCheck(Strict):
    """One comparison: of a value under `path`, or of every item under `each`."""

    kind: Literal["assert"]
    path: Reference | None = None
    each: Reference | None = None
    operator: Operator
    expected: Any = None


def _selector(text: str) -> str:
    if not text.startswith("$"):
        raise fault("a span selector starts with $")
    if len(text) > MAX_SELECTOR:
        raise fault(f"a span selector has at most {MAX_SELECTOR} characters")
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text):
        raise fault("a span selector has no control characters")
    if not _balanced(text):
        raise fault("brackets or quotes of the span selector do not match")
    return text


def _balanced(text: str) -> bool:
    quote = ""
    depth = 0
    escaped = False
    for char in text:
        if quote:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth < 0:
                return False
    return not quote and depth == 0


class TraceCheck(Strict):
    """One comparison of what a JSONPath (RFC 9535) selects in a trace."""

    kind: Literal["trace"]
    on: Reference
    span_selector: Annotated[str, AfterValidator(_selector)]
    operator: Operator
    expected: Any = None


class AgentCheck(AgentBlock):
    """An Agent that answers with a closed Verdict."""

    kind: Literal["agent"]


class CodeCheck(CodeBlock):
    """Sandboxed Python that answers with a closed Verdict."""

    kind: Literal["code"]


Check: TypeAlias = Annotated[
    Annotated[AssertCheck, Tag(TAG + "assert")]
    | Annotated[TraceCheck, Tag(TAG + "trace")]
    | Annotated[AgentCheck, Tag(TAG + "agent")]
    | Annotated[CodeCheck, Tag(TAG + "code")]
    | Annotated[DriftCheck, Tag(TAG + "drift")],
    tagged("kind"),
]


class Requirement(Strict):
    """A statement about the evidence, and the check that judges it."""

    id: BlockId
    statement: str
    check: Check
