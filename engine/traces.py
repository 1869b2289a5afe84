"""Trace checks: what a JSONPath (RFC 9535) selects in the trace document, judged like any value.

The document is `{trace_id, spans: […]}`. Two things are ours around the library: patterns run on
the linear regex engine, and the nodes that one selector may visit are counted, because a few
descents in a row ask for more steps than any trace is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from iregexp_check import check as is_iregexp
from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathNode
from jsonpath_rfc9535.function_extensions import ExpressionType, FilterFunction
from jsonpath_rfc9535.parse import Parser
from jsonpath_rfc9535.segments import (
    JSONPathChildSegment,
    JSONPathRecursiveDescentSegment,
    JSONPathSegment,
)

from engine.assertion import judge_value
from engine.capture import Capture
from engine.failure import BlockFailure, ReasonKind
from engine.finding import CheckFinding, undecided
from engine.references import ReadRoot
from wyrd.cards.checks import TraceCheck
from wyrd.cards.regex import PatternRefused, compile_pattern

MAX_VISITS = 200_000
"""Nodes that one selector may visit in one trace, filters included."""


def judge_trace(check: TraceCheck, read: ReadRoot, mode: Capture = Capture.FULL) -> CheckFinding:
    """Judge a trace check; `read` gives the trace document of its slot.

    No match is missing evidence, one match is the value, several are an array.
    """
    try:
        found = select_spans(check.span_selector, read(check.on))
    except BlockFailure as failure:
        return undecided(failure)
    value = found[0] if len(found) == 1 else found
    return judge_value(value, check.operator, check.expected, mode)


def select_spans(selector: str, document: Any) -> list[Any]:
    """The values that a selector matches, at least one, in document order.

    Raises `BlockFailure`: OPERAND_INVALID for a selector that does not parse, LIMIT_EXCEEDED past
    `MAX_VISITS`, MISSING_EVIDENCE for no match.
    """
    environment = _Environment()
    try:
        query = environment.compile(selector)
    except (JSONPathError, RecursionError) as error:
        raise BlockFailure(
            ReasonKind.OPERAND_INVALID, f"the span selector is not a JSONPath: {_sentence(error)}"
        ) from None
    try:
        found = [node.value for node in query.finditer(document)]
    except (JSONPathError, RecursionError) as error:
        raise BlockFailure(
            ReasonKind.LIMIT_EXCEEDED, f"the span selector cannot be evaluated: {_sentence(error)}"
        ) from None
    if not found:
        raise BlockFailure(ReasonKind.MISSING_EVIDENCE, f"{selector[:200]} matches nothing in the trace")
    return found


def _sentence(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error.args[0] if error.args else error).splitlines()[0][:200]


class _TooManyVisits(JSONPathError):
    """The selector visited more nodes than one check may."""


class _Environment(JSONPathEnvironment):
    """One selector's evaluation: made anew for each, because it counts."""

    def __init__(self) -> None:
        self.parser_class = _CountingParser
        self.visits = 0
        super().__init__()

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Match()
        self.function_extensions["search"] = _Search()

    def visit(self, segment: JSONPathSegment) -> None:
        self.visits += 1
        if self.visits > MAX_VISITS:
            raise _TooManyVisits(f"it visits more than {MAX_VISITS} nodes", token=segment.token)


class _CountingChild(JSONPathChildSegment):
    env: _Environment

    def resolve(self, nodes: Iterable[JSONPathNode]) -> Iterable[JSONPathNode]:
        for node in super().resolve(self._counted(nodes)):
            self.env.visit(self)
            yield node

    def _counted(self, nodes: Iterable[JSONPathNode]) -> Iterator[JSONPathNode]:
        for node in nodes:
            self.env.visit(self)
            yield node


class _CountingDescent(JSONPathRecursiveDescentSegment):
    env: _Environment

    def _visit(self, node: JSONPathNode, depth: int = 1) -> Iterable[JSONPathNode]:
        self.env.visit(self)
        return super()._visit(node, depth)


class _CountingParser(Parser):
    """Reads every query, those inside filters too, into segments that count."""

    def parse_query(self, stream: Any, *, in_filter: bool = False) -> Iterable[JSONPathSegment]:
        for segment in super().parse_query(stream, in_filter=in_filter):
            descends = isinstance(segment, JSONPathRecursiveDescentSegment)
            counting = _CountingDescent if descends else _CountingChild
            yield counting(env=segment.env, token=segment.token, selectors=segment.selectors)


class _Pattern(FilterFunction):
    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]
    return_type = ExpressionType.LOGICAL
    form = "(?:{})"

    def __call__(self, text: object, pattern: object) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str) or not is_iregexp(pattern):
            return False
        try:
            return compile_pattern(self.form.format(_as_rust(pattern))).search(text)
        except PatternRefused:
            return False


class _Match(_Pattern):
    """`match` of RFC 9535: the whole text."""

    form = r"\A(?:{})\z"


class _Search(_Pattern):
    """`search` of RFC 9535: anywhere in the text."""


def _as_rust(pattern: str) -> str:
    """An I-Regexp (RFC 9485) in the syntax of our engine: its dot stops at either line end, and
    classes know no set operations."""
    written: list[str] = []
    in_class = escaped = False
    for character in pattern:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "[":
            in_class = True
        elif character == "]":
            in_class = False
        elif in_class and character in "&~":
            character = f"\\{character}"
        elif character == "." and not in_class:
            character = r"[^\n\r]"
        written.append(character)
    return "".join(written)
