"""Card files as YAML 1.2 core data with positions, within limits that hold before any walk.

libyaml's events feed our own tree: scalars follow the 1.2 core schema (`no`, `on`, `12:30`, dates
and `0123` are text), keys are text and unique, `<<` is an ordinary key, `!file` is the one local
tag. Aliases count with everything they stand for; the sum is known before anything is expanded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from wyrd.cards.identifiers import U64

Path = tuple[str | int, ...]

MAX_FILE_BYTES: Final = 8 * 1024 * 1024
MAX_NODES: Final = 500_000
MAX_ALIASED: Final = 50_000
"""How many values aliases may stand for in one file, all expanded."""
MAX_DEPTH: Final = 128
MAX_FAULTS: Final = 20
MAX_DOCUMENTS: Final = 1000

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE: Final = frozenset(("true", "True", "TRUE"))
_FALSE: Final = frozenset(("false", "False", "FALSE"))
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"\.(?:nan|NaN|NAN)|[-+]?\.(?:inf|Inf|INF)")
_CORE: Final = "tag:yaml.org,2002:"
_UNREADABLE: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class FileTag:
    """`!file <path>`: the contents of a file stand here. `target` is None when it is not text."""

    target: str | None


@dataclass(frozen=True)
class YamlFault:
    """One fault of the text; `path` is the place inside the document when it is known."""

    message: str
    line: int
    column: int
    path: Path = ()


class YamlRefused(ValueError):
    """The text is not YAML for a Card. `faults` holds at least one fault."""

    def __init__(self, faults: list[YamlFault]) -> None:
        super().__init__(faults[0].message)
        self.faults = faults


class _Node:
    __slots__ = ("aliased", "column", "depth", "kind", "line", "members", "plain", "size", "tag", "text")

    def __init__(self, kind: str, tag: str | None, line: int, column: int) -> None:
        self.kind = kind
        self.tag = tag
        self.line = line
        self.column = column
        self.text = ""
        self.plain = False
        # Sequence: the items. Mapping: key, value, key, value, as the events come.
        self.members: list[_Node] = []
        self.size = 1
        self.aliased = 0
        self.depth = 0

    def pairs(self) -> Iterator[tuple[_Node, _Node]]:
        return zip(self.members[::2], self.members[1::2], strict=True)


@dataclass
class Document:
    """One document: plain data, where `!file` tags and non-finite numbers stand, and positions."""

    value: Any
    file_tags: list[tuple[Path, FileTag]] = field(default_factory=list)
    not_finite: list[Path] = field(default_factory=list)
    _root: _Node | None = None

    def locate(self, path: Path) -> tuple[int, int]:
        """Line and column (from 1) of the place, or of the nearest enclosing place that exists."""
        node = self._root
        if node is None:
            return 1, 1
        line, column = node.line, node.column
        for part in path:
            if node.kind == "mapping":
                pair = next(((k, v) for k, v in node.pairs() if k.text == part), None)
                if pair is None:
                    break
                line, column = pair[0].line, pair[0].column
                node = pair[1]
            elif node.kind == "sequence" and isinstance(part, int) and part < len(node.members):
                node = node.members[part]
                line, column = node.line, node.column
            else:
                break
        return line, column


def read_documents(data: bytes) -> list[Document]:
    """Every document of the text; an empty text is one document holding null. Raises `YamlRefused`."""
    text = _decode(data)
    documents = [_construct(root) for root in _compose(text)]
    return documents or [Document(None)]


def _decode(data: bytes) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise YamlRefused([YamlFault(f"the file is over {MAX_FILE_BYTES} bytes", 1, 1)])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        head = data[: error.start]
        line = head.count(b"\n") + 1
        column = error.start - (head.rfind(b"\n") + 1) + 1
        raise YamlRefused([YamlFault("the file is not UTF-8 text", line, column)]) from None
    text = text.removeprefix("\ufeff")
    unreadable = _UNREADABLE.search(text)
    if unreadable is not None:
        head_text = text[: unreadable.start()]
        line = head_text.count("\n") + 1
        column = unreadable.start() - (head_text.rfind("\n") + 1) + 1
        shown = f"U+{ord(unreadable.group()):04X}"
        raise YamlRefused([YamlFault(f"the character {shown} is not allowed in YAML", line, column)])
    return text


def _compose(text: str) -> Iterator[_Node]:
    try:
        yield from _trees(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        said = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlRefused([YamlFault(f"not YAML: {said}", line, column)]) from None
    except yaml.YAMLError as error:
        raise YamlRefused([YamlFault(f"not YAML: {error}"[:300], 1, 1)]) from None


def _trees(text: str) -> Iterator[_Node]:
    """Build each document's tree from the events, without recursion, counting as it goes."""
    stack: list[_Node] = []
    anchors: dict[str, _Node] = {}
    documents = size = expanded = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            anchors = {}
            continue
        if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            continue
        mark = event.start_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        aliased = 0
        if isinstance(event, yaml.CollectionEndEvent):
            done = stack.pop()
        elif isinstance(event, yaml.AliasEvent):
            target = anchors.get(event.anchor or "")
            if target is None:
                raise YamlRefused([YamlFault(f"alias *{event.anchor} has no anchor", line, column)])
            if target in stack:
                raise YamlRefused([YamlFault(f"alias *{event.anchor} holds itself", line, column)])
            done, aliased = target, target.size
        else:
            done = _start(event, line, column)
            if event.anchor is not None:
                anchors[event.anchor] = done
            if not isinstance(event, yaml.ScalarEvent):
                stack.append(done)
                if len(stack) > MAX_DEPTH:
                    raise YamlRefused([YamlFault(f"nested deeper than {MAX_DEPTH}", line, column)])
                continue
        if not stack:
            documents, size, expanded = documents + 1, size + done.size, expanded + done.aliased
            if documents > MAX_DOCUMENTS or size > MAX_NODES or expanded > MAX_ALIASED:
                raise YamlRefused([YamlFault("the file's documents go beyond the limit", line, column)])
            yield done
            continue
        parent = stack[-1]
        parent.members.append(done)
        parent.size += done.size
        parent.aliased += max(aliased, done.aliased)
        parent.depth = max(parent.depth, done.depth + 1)
        if parent.size > MAX_NODES or parent.aliased > MAX_ALIASED:
            raise YamlRefused([YamlFault("aliases or values expand beyond the limit", line, column)])
        if parent.depth + len(stack) > MAX_DEPTH + 1:
            raise YamlRefused([YamlFault(f"nested deeper than {MAX_DEPTH}", line, column)])


def _start(event: Any, line: int, column: int) -> _Node:
    if isinstance(event, yaml.ScalarEvent):
        node = _Node("scalar", event.tag, line, column)
        node.text = event.value
        node.plain = event.implicit[0]
        return node
    return _Node(
        "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence", event.tag, line, column
    )


class _Construction:
    def __init__(self) -> None:
        self.faults: list[YamlFault] = []
        self.file_tags: list[tuple[Path, FileTag]] = []
        self.not_finite: list[Path] = []

    def refuse(self, message: str, node: _Node, path: Path) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(YamlFault(message, node.line, node.column, path))

    def value(self, node: _Node, path: Path) -> Any:
        if node.tag == "!file":
            tag = FileTag(node.text if node.kind == "scalar" else None)
            self.file_tags.append((path, tag))
            return tag
        if node.kind == "scalar":
            return self.scalar(node, path)
        if node.tag not in (None, "!", f"{_CORE}map" if node.kind == "mapping" else f"{_CORE}seq"):
            self.refuse(f"the tag {node.tag} is not known here", node, path)
            return None
        if node.kind == "sequence":
            return [self.value(item, (*path, index)) for index, item in enumerate(node.members)]
        return self.mapping(node, path)

    def mapping(self, node: _Node, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.pairs():
            key = self.scalar(key_node, path) if key_node.kind == "scalar" else None
            if not isinstance(key, str):
                what = repr(key_node.text[:40]) if key_node.kind == "scalar" else f"a {key_node.kind}"
                self.refuse(f"a key must be text, not {what}: quote it", key_node, path)
                continue
            # Positions are looked up by the key's own text.
            key_node.text = key
            if key in found:
                self.refuse(f"the key {key[:80]!r} is repeated", key_node, path)
                continue
            found[key] = self.value(value_node, (*path, key))
        return found

    def scalar(self, node: _Node, path: Path) -> Any:
        tag, text = node.tag, node.text
        if tag in ("!", f"{_CORE}str", f"{_CORE}binary") or (tag is None and not node.plain):
            return text
        if tag is not None and tag not in _TAGGED:
            self.refuse(f"the tag {tag} is not known here", node, path)
            return None
        value = self.plain(node, path)
        if tag is not None and not _TAGGED[tag](value):
            self.refuse(f"{text[:80]!r} does not fit its tag {tag.replace(_CORE, '!!')}", node, path)
            return None
        return value

    def plain(self, node: _Node, path: Path) -> Any:
        text = node.text
        if text in _NULL:
            return None
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        if _NOT_FINITE.fullmatch(text):
            self.not_finite.append(path)
            return None
        number = _integer(text)
        if number is not None:
            if not -(2**63) <= number <= U64:
                self.refuse("the whole number does not fit in 64 bits", node, path)
                return None
            return number
        if _FLOAT.fullmatch(text):
            value = float(text)
            if not math.isfinite(value):
                self.refuse("the number is out of range", node, path)
                return None
            return value
        return text


_TAGGED: Final = {
    f"{_CORE}int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    f"{_CORE}float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    f"{_CORE}bool": lambda value: isinstance(value, bool),
    f"{_CORE}null": lambda value: value is None,
}


def _integer(text: str) -> int | None:
    if len(text) > 80:
        # Too long for 64 bits whatever it says; converting it would take quadratic time.
        whole = _INT.fullmatch(text) or _OCTAL.fullmatch(text) or _HEX.fullmatch(text)
        return 2**64 if whole else None
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    return int(text[2:], 16) if _HEX.fullmatch(text) else None


def _construct(root: _Node) -> Document:
    work = _Construction()
    value = work.value(root, ())
    if work.faults:
        raise YamlRefused(work.faults)
    return Document(value, work.file_tags, work.not_finite, root)
