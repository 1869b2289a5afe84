"""What docx, pptx and xlsx have in common: a guarded archive whose main part has the right type."""

from __future__ import annotations

import posixpath
import zipfile
from typing import Any

from lxml import etree

from activities.extract.reading import over_limit, unreadable
from activities.extract.zip_guard import open_guarded

_MAIN_TYPES = {
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml",
}
# The first is what applications write; the second is the strict form of the standard.
_MAIN_RELATIONS = (
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument",
    "http://purl.oclc.org/ooxml/officeDocument/relationships/officeDocument",
)
_TOO_BIG_FOR_XML = ("huge text node", "huge input lookup", "excessive depth", "memory", "too long", "limit")


class Package:
    """An opened Office file: `archive`, and `main`, the name of its main part."""

    def __init__(self, archive: zipfile.ZipFile, main: str, *, strict: bool) -> None:
        self.archive = archive
        self.main = main
        self.strict = strict

    def has(self, name: str) -> bool:
        return name in self.archive.NameToInfo

    def tree(self, name: str) -> Any:
        """The root element of an XML part. Raises EVIDENCE_UNREADABLE when it is missing or broken."""
        if not self.has(name):
            raise unreadable(f"broken Office file: {name} is missing")
        return parse_xml(self.archive.read(name), name)

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Relationship id to (type, name of the target part), for the targets inside the package."""
        folder, file = posixpath.split(part)
        rels = posixpath.join(folder, "_rels", f"{file}.rels")
        if not self.has(rels):
            return {}
        found: dict[str, tuple[str, str]] = {}
        for relation in self.tree(rels):
            target = relation.get("Target")
            if target is None or relation.get("TargetMode") == "External":
                continue
            name = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found[relation.get("Id", "")] = (relation.get("Type", ""), name)
        return found


def open_package(data: bytes, format: str) -> Package:
    """Guard and open an Office file of the declared format.

    Raises EVIDENCE_UNREADABLE or LIMIT_EXCEEDED as `open_guarded` does, and EVIDENCE_UNREADABLE
    when the main part is missing or of another application.
    """
    package = Package(open_guarded(data, format), "", strict=False)
    if not package.has("[Content_Types].xml"):
        raise unreadable(f"not a {format} file: an archive, but not an Office one")
    for kind, target in package.relations("").values():
        if kind in _MAIN_RELATIONS:
            package.main = target
            package.strict = kind == _MAIN_RELATIONS[1]
    if not package.main or not package.has(package.main):
        raise unreadable(f"not a {format} file: it has no main part")
    actual = _content_type(package)
    if actual != _MAIN_TYPES[format]:
        raise unreadable(f"not a {format} file: its main part is {_spoken(actual)}")
    return package


def check(format: str, data: bytes) -> None:
    """Raises EVIDENCE_UNREADABLE or LIMIT_EXCEEDED unless the bytes are an Office file of that format."""
    open_package(data, format)


def parse_xml(content: bytes, name: str) -> Any:
    """Parse an XML part: no entities, no network. Raises EVIDENCE_UNREADABLE or LIMIT_EXCEEDED."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise xml_fault(error, name) from None


def local_name(element: Any) -> str:
    """The tag of an element without its namespace; "" for comments and processing instructions."""
    tag = element.tag
    return tag[tag.rfind("}") + 1 :] if isinstance(tag, str) else ""


def xml_fault(error: Exception, name: str) -> Exception:
    """What a parser's complaint about one part means."""
    text = str(error)
    if any(sign in text.lower() for sign in _TOO_BIG_FOR_XML):
        return over_limit(f"{name} is over a limit of the XML parser: {text[:160]}")
    return unreadable(f"broken Office file: {name} is not XML ({text[:160]})")


def _content_type(package: Package) -> str:
    default = ""
    suffix = package.main.rpartition(".")[2].lower()
    for element in package.tree("[Content_Types].xml"):
        if element.get("PartName", "").lower() == f"/{package.main}".lower():
            return str(element.get("ContentType"))
        if element.get("Extension", "").lower() == suffix:
            default = str(element.get("ContentType"))
    return default


def _spoken(content_type: str) -> str:
    for format, known in _MAIN_TYPES.items():
        if content_type == known:
            return f"that of a {format} file"
    return f"of type {content_type[:120]!r}"
